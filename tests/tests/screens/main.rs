//! `ramson serve` and `ramson top`.

mod serve_api;
mod serve_flame;
mod serve_guard;
mod serve_live;
mod serve_metrics;
mod serve_pprof;
mod serve_scrapers;
mod serve_tints;
mod top;
mod top_ends;
mod top_mouse;

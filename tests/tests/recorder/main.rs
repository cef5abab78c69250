//! Tests of what happens in the program: what ramson records, and that the program does not notice.

mod busy;
mod coverage;
mod extents;
mod first_samples;
mod format;
mod frees;
mod governor;
mod hardening;
mod hooks;
mod inherited;
mod inside;
mod libraries;
mod library;
mod lost;
mod not_profilable;
mod nursery;
mod old_kernels;
mod out_of_memory;
mod probes;
mod process;
mod real_programs;
mod relatives;
mod run_cost;
mod segments;
mod steps;
mod unprivileged;

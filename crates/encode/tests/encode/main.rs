//! The writers, read back: pprof's output by the real `go tool pprof`, the text formats by their own rules.

mod combining;
mod differential;
mod documents;
mod filters;
mod go_tool;
mod hostile;
mod pprof;
mod profiles;
mod text;

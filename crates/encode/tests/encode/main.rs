//! The writers, read back: pprof's output by the real `go tool pprof`, the text formats by their own rules.

mod differential;
mod go_tool;
mod pprof;
mod profiles;
mod text;

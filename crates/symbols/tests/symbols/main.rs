//! Names of functions, from files that mean no harm. Files of strangers are read under bounds that a process shares, so their tests
//! are programs of their own, next to this one.

mod support;

mod cache;
mod debuginfod;
mod mini_debug_file;
mod processes;
mod sources;
mod units;

//! Names of functions, from files that mean no harm. What strangers wrote is read under bounds that a process shares, so the tests of those are programs of
//! their own, beside this one.

mod support;

mod cache;
mod debuginfod;
mod mini_debug_file;
mod processes;
mod sources;
mod units;

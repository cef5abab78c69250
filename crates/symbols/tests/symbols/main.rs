//! Names of functions, from files of every kind.

mod support;

mod apart;
mod budget;
mod cache;
mod debuginfod;
mod hostile;
mod mini_debug_file;
mod processes;
mod sources;
mod strangers;
mod units;

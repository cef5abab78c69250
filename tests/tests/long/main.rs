//! What `make test-long` runs: other releases of the C library, hostile programs, the tutorials.

mod hostile;
mod releases;
mod tutorials;

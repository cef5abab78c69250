//! Tests that `make test-long` runs: other releases of the C library, hostile programs, distributions of draws, programs that need an idle
//! machine, waits of the real length, the tutorials.

mod estimates;
mod go;
mod governed;
mod hostile;
mod leaks;
mod leaks_labelled;
mod releases;
mod roots;
mod slow_names;
mod tutorials;

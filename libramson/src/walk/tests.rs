//! The walker against framehop and the C library's backtrace(), over the same stack memory.

mod damage;
mod hostile;
mod live;
mod loaded;
mod measure;
mod oracle;
mod programs;
mod tables;
mod unclaimed;

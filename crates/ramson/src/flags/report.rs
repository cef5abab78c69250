//! The flags of `ramson report`.

use super::filters::{FilterFlags, FrameFlags};
use super::source::SourcesFlags;
use super::values::one_of;
use clap::Args;
use ramson_analysis::named::Kinds;
use ramson_analysis::question::{self, KINDS, SORTS, Shown};
use ramson_profile::SampleType;
use ramson_profile::view::Sort;

#[derive(Args)]
#[command(after_help = "\
Columns of stacks: live bytes, ± their 95% interval, objects, mean age of these bytes, growth per hour of leak suspects, then the program's innermost function and its callers. In --view functions, own is what the function allocated itself; total includes the functions that it called. A large ± means few samples. Narrow terminals show fewer columns; 120 columns show all.

Examples:
  ramson report redis-server
  ramson report tree:4711 --each
  ramson report 4711 --view peek createStringObject
  ramson report 4711 --view health
  ramson report 4711 --view callers --focus networking.c
  ramson report 4711 --view sizes --tagfocus thread=bio_
  ramson report crashed.ramson --view frees --address 0x55d0c3a2f2a0
  ramson report old.ramson --count allocated --view functions --sort total -n 40")]
pub struct ReportFlags {
    #[command(flatten)]
    pub source: SourcesFlags,
    /// heap: malloc and operator new; mmap: what the program mapped itself; all: both, added up.
    /// Default: heap; for another tool's file, all
    #[arg(long, value_parser = one_of(KINDS), hide_possible_values = true)]
    pub kind: Option<Kinds>,
    /// Quantity to count: live (bytes), live-objects, allocated (bytes since the start) or allocations.
    /// Default: live, or the pprof file's own. pprof's names, such as inuse_space, work too
    #[arg(long, value_name = "TYPE", value_parser = question::sample_type)]
    pub count: Option<SampleType>,
    /// stacks, functions, lines, tree, callers, peek RE, sizes, threads, frees or health. stacks: the largest, each with its age and growth;
    /// lines: lines of functions; tree: callers to callees; callers: callees to callers; peek RE: callers and callees of functions that match RE;
    /// sizes, threads: live blocks by size, by thread; frees: sampled blocks freed recently, with the stacks of allocation and free; health: what
    /// recording cost, and what it lost
    #[arg(long, value_name = "VIEW", default_value = "stacks", value_parser = Shown::parse)]
    pub view: Shown,
    /// With --view frees: only blocks that contain this address, including live ones
    #[arg(long, value_name = "ADDR", value_parser = question::address)]
    pub address: Option<u64>,
    #[command(flatten)]
    pub filters: FilterFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
    /// Rows of the table to show (a tree shows five times as many); 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Order of the rows of --view functions and lines: own (the default), total or name
    #[arg(long, value_parser = one_of(SORTS), hide_possible_values = true)]
    pub sort: Option<Sort>,
    /// Also show every term of RSS, the sampling interval, sample counts, and what a row represents
    #[arg(long)]
    pub details: bool,
    /// For several processes, print a block for each instead of their sum
    #[arg(long)]
    pub each: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

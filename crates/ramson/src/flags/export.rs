//! The flags of commands that write a profile to a file: `export`, `symbolize`.

use super::filters::FilterFlags;
use super::source::{SearchFlags, SourcesFlags};
use super::values::one_of;
use clap::{Args, ValueEnum};
use ramson_analysis::named::Kinds;
use ramson_analysis::question::{self, KINDS};
use ramson_profile::SampleType;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ramson export 4711 -f pprof -o heap.pb.gz && go tool pprof -top heap.pb.gz
  ramson export 4711 -f html -o heap.html
  ramson export new.ramson --old old.ramson -f html -o diff.html
  ramson export 4711 -f svg --focus createStringObject > heap.svg
  ramson export 4711@-6h.. -f svg --view timeline > memory.svg
  ramson export redis-server -f openmetrics > /var/lib/node_exporter/redis.prom
  ramson export 4711 -f openmetrics --view timeline > day.om && promtool tsdb create-blocks-from openmetrics day.om")]
pub struct ExportFlags {
    #[command(flatten)]
    pub source: SourcesFlags,
    /// pprof: gzipped profile.proto; collapsed, csv: one line per stack; svg: a flame graph; html: the
    /// page of ramson serve with one profile in it, for any browser; json: all stacks as one object;
    /// speedscope: for speedscope.app; openmetrics: totals, for Prometheus
    #[arg(short, long, value_enum)]
    pub format: Format,
    /// profile: stacks; timeline: RSS and live bytes over time, from a history (svg, csv, openmetrics)
    #[arg(long, value_enum, default_value = "profile")]
    pub view: ExportView,
    #[command(flatten)]
    pub filters: FilterFlags,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// heap: malloc and operator new; mmap: what the program mapped itself; all: both, added up.
    /// Default: heap; for another tool's file, all
    #[arg(long, value_parser = one_of(KINDS), hide_possible_values = true)]
    pub kind: Option<Kinds>,
    /// Count live (bytes), live-objects, allocated (bytes since the start) or allocations in collapsed,
    /// svg and html, and show it first in pprof and speedscope. Default: live, or the pprof file's own
    #[arg(long, value_name = "TYPE", value_parser = question::sample_type)]
    pub count: Option<SampleType>,
    /// html: also compare with OLD, the earlier profile, as "ramson diff OLD SRC" does
    #[arg(long, value_name = "OLD")]
    pub old: Option<String>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Format {
    Pprof,
    Collapsed,
    Speedscope,
    Svg,
    Html,
    Json,
    Csv,
    Openmetrics,
}

/// The part of a source that is written.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum ExportView {
    Profile,
    Timeline,
}

#[derive(Args)]
#[command(after_help = "\
A ramson profile keeps its records and gains the names: every command uses these, and looks up only names that are missing. Another tool's profile becomes a pprof file with names (-o).

Examples:
  ramson symbolize /var/tmp/ramson-0/4711-453639.ramson
  ramson symbolize --sysroot /srv/image core.ramson -o ticket-17.ramson")]
pub struct SymbolizeFlags {
    /// The profile of a process that has ended, or another tool's, such as pprof; name:NAME is the process that died last
    #[arg(value_name = "SRC")]
    pub source: String,
    #[command(flatten)]
    pub search: SearchFlags,
    /// Write to FILE instead of into the profile
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// One JSON object about the file on standard output
    #[arg(long)]
    pub json: bool,
}

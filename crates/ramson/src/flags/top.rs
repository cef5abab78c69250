//! The flags of `ramson top`.

use super::filters::{FilterFlags, FrameFlags};
use super::source::NameFlags;
use super::values::one_of;
use crate::table::most;
use clap::Args;
use ramson_analysis::live::row::{Sort, View};
use ramson_analysis::named::Kinds;
use ramson_analysis::question::{self, KINDS};
use std::time::Duration;

const VIEWS: [(&str, View); 3] =
    [("stacks", View::Stacks), ("functions", View::Own), ("threads", View::Threads)];

/// Each with what it makes of the view of functions.
const SORTS: [(&str, (Sort, View)); 7] = [
    ("live", (Sort::Live, View::Own)),
    ("own", (Sort::Live, View::Own)),
    ("total", (Sort::Live, View::Cum)),
    ("change", (Sort::Change, View::Own)),
    ("rate", (Sort::Rate, View::Own)),
    ("age", (Sort::Age, View::Own)),
    ("name", (Sort::Name, View::Own)),
];

#[derive(Args)]
#[command(after_help = "\
Without SRC: all profiled processes; Enter opens one. The program is not affected: only its profile and /proc are read.

Columns: live bytes, ± their 95% interval, Δ since the mark (~: not significant), allocations per second of the last 10 s, mean age of the live bytes, function and line. Keys: 1-4 views, Enter callers, e callees, s sort, / filter, m mark, Space pause, ? help, q quit.

--json writes one object per line, {\"ramson\": 1, \"kind\": \"top\" (without SRC: \"processes\"), …}, until the process ends or the output is closed; with --once, one. \"ramson schema top\" prints the fields.

Examples:
  ramson top
  ramson top redis-server
  ramson top unit:postgresql.service
  ramson top 4711 --view functions --sort total
  ramson top 4711 --once --focus networking.c
  ramson top 4711 --json --every 10s > growth.ndjson")]
pub struct TopFlags {
    /// A process ID, a profile file, or name:NAME, tree:PID, unit:NAME or cgroup:PATH. If this names several processes, top
    /// lists them, as they come and go; without SRC, it lists all profiled processes
    #[arg(value_name = "SRC")]
    pub sources: Vec<String>,
    #[command(flatten)]
    pub names: NameFlags,
    /// heap: malloc and operator new; mmap: what the program mapped itself; all: both, added up
    #[arg(long, default_value = "heap", value_parser = one_of(KINDS), hide_possible_values = true)]
    pub kind: Kinds,
    /// The view to begin with: what a row stands for
    #[arg(long, default_value = "stacks", value_parser = one_of(VIEWS))]
    view: View,
    /// The order to begin with; own and total are for --view functions: what functions allocate themselves, or together with what they call
    #[arg(long, default_value = "live", value_parser = one_of(SORTS))]
    sort: (Sort, View),
    /// Print one table after one refresh (which rates need), instead of the live view
    #[arg(long)]
    pub once: bool,
    /// One JSON object per line instead of the live view
    #[arg(long)]
    pub json: bool,
    /// Shortest time between two readings (ms, s, m, h or d). Default: 250ms, or 1s with --once or
    /// --json
    #[arg(long, value_name = "TIME", value_parser = question::time)]
    pub every: Option<u64>,
    /// Rows with --once or --json; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    #[command(flatten)]
    pub filters: FilterFlags,
    #[command(flatten)]
    pub frames: FrameFlags,
}

impl TopFlags {
    /// Kind of the rows; the order decides whether functions include what they call.
    pub fn view(&self) -> View {
        if self.view == View::Own { self.sort.1 } else { self.view }
    }

    /// The order of the rows.
    pub fn sort(&self) -> Sort {
        self.sort.0
    }

    /// Between two looks.
    pub fn pause(&self) -> Duration {
        let usual_ms = if self.once || self.json { 1000 } else { 250 };
        self.every.map_or(Duration::from_millis(usual_ms), Duration::from_nanos)
    }

    /// With --once or --json.
    pub fn most_rows(&self) -> usize {
        most(self.rows)
    }
}

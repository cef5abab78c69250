//! `ramson timeline`: what the history of a process has, moment by moment.

use crate::flags::{TimelineFlags, When};
use crate::output::{print, print_json, print_raw};
use crate::table;
use ramson_analysis::timeline::{Timeline, timeline as answer};
use ramson_encode::series::{self, Series};
use ramson_serve::metrics::moment;
use ramson_source::Failure;
use std::io::{self, IsTerminal};

pub fn timeline(flags: &TimelineFlags) -> Result<(), Failure> {
    // A file of values has every moment.
    let timeline = answer(&flags.source, if flags.csv { 0 } else { flags.rows })?;
    if flags.json {
        return print_json("timeline", &timeline);
    }
    if flags.csv {
        let mut out = Vec::new();
        series::csv(&series(timeline), &mut out)?;
        return print_raw(&out);
    }
    let has_chart = match flags.chart {
        When::Always => true,
        When::Never => false,
        When::Auto => io::stdout().is_terminal(),
    };
    print(&table::timeline::text(&timeline, has_chart))
}

/// As a file of it has it; the timeline has to have all its rows.
pub fn series(timeline: Timeline) -> Series {
    let moments = timeline.rows.into_iter().map(moment);
    let marks = timeline.marks.into_iter().map(|mark| (mark.name, mark.time_unix_ns));
    Series {
        name: timeline.name,
        pid: timeline.pid,
        moments: moments.collect(),
        marks: marks.collect(),
    }
}

//! Totals of processes as OpenMetrics text, version 1.0: what Prometheus scrapes from a file, or imports as a history.
//!
//! Every family has the labels `name` and `pid`. Values that are not known have no sample. Times are written if there are several
//! moments.

use crate::series::{Moment, Series, half_width};
use ramson_profile::printable;
use std::io::{self, Write};

/// A number of a moment, if it is known.
type Number = fn(&Moment) -> Option<f64>;

/// Name, unit, whether it only grows, help and value of each family.
const FAMILIES: [(&str, &str, bool, &str, Number); 9] = [
    ("ramson_rss_bytes", "bytes", false, "Resident memory.", |moment| {
        moment.rss.map(|rss| rss as f64)
    }),
    ("ramson_live_bytes", "bytes", false, "Live bytes of the heap, estimated.", |moment| {
        Some(moment.live.value.round())
    }),
    (
        "ramson_live_half_width_bytes",
        "bytes",
        false,
        "Half the width of the 95% interval of ramson_live_bytes.",
        |moment| half_width(moment.live),
    ),
    (
        "ramson_free_in_allocator_bytes",
        "bytes",
        false,
        "Free memory that the allocator has not returned to the kernel.",
        |moment| moment.free.map(|free| free.value.round()),
    ),
    (
        "ramson_free_in_allocator_half_width_bytes",
        "bytes",
        false,
        "Half the width of the 95% interval of ramson_free_in_allocator_bytes.",
        |moment| moment.free.and_then(half_width),
    ),
    (
        "ramson_held_by_allocator_bytes",
        "bytes",
        false,
        "Memory of an allocator that cannot be read, minus ramson_live_bytes.",
        |moment| moment.held.map(|held| held.value.round()),
    ),
    (
        "ramson_held_by_allocator_half_width_bytes",
        "bytes",
        false,
        "Half the width of the 95% interval of ramson_held_by_allocator_bytes.",
        |moment| moment.held.and_then(half_width),
    ),
    ("ramson_live_samples", "", false, "Live samples, as counted.", |moment| {
        Some(moment.live_samples as f64)
    }),
    (
        "ramson_allocated_bytes",
        "bytes",
        true,
        "Bytes allocated since the start, estimated.",
        |moment| Some(moment.allocated as f64),
    ),
];

/// Writes the moments of several processes; of each either one, which is now, or its series.
pub fn write(all: &[Series], has_times: bool, out: &mut dyn Write) -> io::Result<()> {
    for (name, unit, is_counter, help, value) in FAMILIES {
        let kind = if is_counter { "counter" } else { "gauge" };
        let ending = if is_counter { "_total" } else { "" };
        writeln!(out, "# TYPE {name} {kind}")?;
        if !unit.is_empty() {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
        writeln!(out, "# HELP {name} {help}")?;
        for series in all {
            let labels = format!("name=\"{}\",pid=\"{}\"", escaped(&series.name), series.pid);
            let mut last_ms = None;
            for moment in &series.moments {
                let ms = moment.time_unix_ns / 1_000_000;
                // Times are of milliseconds, and no series may have two values of one.
                if has_times && last_ms.replace(ms) == Some(ms) {
                    continue;
                }
                let Some(value) = value(moment) else { continue };
                write!(out, "{name}{ending}{{{labels}}} {value}")?;
                if has_times {
                    write!(out, " {}.{:03}", ms / 1000, ms % 1000)?;
                }
                writeln!(out)?;
            }
        }
    }
    writeln!(out, "# EOF")?;
    out.flush()
}

/// A label's value.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::Estimate;

    #[test]
    fn hostile_names_stay_labels() {
        let live = Estimate::new(1000.4, f64::NAN);
        let moment = |second: u64| Moment {
            time_unix_ns: second * 1_000_000_000 + 5_000_000,
            rss: (second > 1).then_some(2000),
            live,
            free: None,
            held: Some(Estimate::new(70.0, 0.0)),
            live_samples: 3,
            allocated: 9,
            triggers: String::new(),
            is_after_gap: false,
        };
        let series = Series {
            name: "a\"\\\n\u{1b}".into(),
            pid: 7,
            // The last is of the millisecond before it.
            moments: vec![moment(1), moment(2), Moment { live_samples: 4, ..moment(2) }],
            marks: vec![],
        };
        let mut out = Vec::new();
        write(&[series], true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "\
# TYPE ramson_rss_bytes gauge
# UNIT ramson_rss_bytes bytes
# HELP ramson_rss_bytes Resident memory.
ramson_rss_bytes{name=\"a\\\"\\\\\u{fffd}\u{fffd}\",pid=\"7\"} 2000 2.005
# TYPE ramson_live_bytes gauge
# UNIT ramson_live_bytes bytes
# HELP ramson_live_bytes Live bytes of the heap, estimated.
ramson_live_bytes{name=\"a\\\"\\\\\u{fffd}\u{fffd}\",pid=\"7\"} 1000 1.005
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(
            "ramson_allocated_bytes_total{name=\"a\\\"\\\\\u{fffd}\u{fffd}\",pid=\"7\"} 9 2.005\n# EOF\n"
        ));
        assert!(
            text.contains("\nramson_held_by_allocator_bytes{")
                && !text.contains("_free_in_allocator_bytes{")
        );
        assert!(!text.contains("NaN"), "{text}");
    }
}

//! Totals of processes as OpenMetrics text, version 1.0: what Prometheus scrapes from a file, or imports as a history.
//!
//! Series of a process have the labels `name` and `pid`. Values that are not known have no sample. Times are written if there are several
//! moments.

use crate::series::{Moment, Series, half_width};
use ramson_profile::printable;
use std::io::{self, Write};

/// A number of a moment, if it is known.
type Number = fn(&Moment) -> Option<f64>;

/// Series of the same name.
pub struct Family {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// Its unit; empty: none that OpenMetrics knows.
    pub unit: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// Description, one sentence.
    pub help: &'static str,
}

/// The labels of a series, as they are written.
#[derive(Clone, Default)]
pub struct Labels(String);

impl Family {
    /// Family whose values go up and down.
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, unit, is_counter: false, help }
    }

    fn begin(&self, out: &mut dyn Write) -> io::Result<()> {
        let kind = if self.is_counter { "counter" } else { "gauge" };
        writeln!(out, "# TYPE {} {kind}", self.name)?;
        if !self.unit.is_empty() {
            writeln!(out, "# UNIT {} {}", self.name, self.unit)?;
        }
        writeln!(out, "# HELP {} {}", self.name, self.help)
    }

    fn sample(&self, labels: &Labels, value: f64, out: &mut dyn Write) -> io::Result<()> {
        let ending = if self.is_counter { "_total" } else { "" };
        match labels.0.as_str() {
            "" => write!(out, "{}{ending} {value}", self.name),
            labels => write!(out, "{}{ending}{{{labels}}} {value}", self.name),
        }
    }
}

impl Labels {
    /// Adds one.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0 += &format!("{comma}{name}=\"{}\"", escaped(value));
        self
    }
}

/// The labels of a process.
pub fn labels(series: &Series) -> Labels {
    Labels::default().with("name", &series.name).with("pid", &series.pid.to_string())
}

/// The families of totals, and their values.
const TOTALS: [(Family, Number); 9] = [
    (Family::gauge("ramson_rss_bytes", "bytes", "Resident memory."), |moment| {
        moment.rss.map(|rss| rss as f64)
    }),
    (Family::gauge("ramson_live_bytes", "bytes", "Live bytes of the heap, estimated."), |moment| {
        Some(moment.live.value.round())
    }),
    (
        Family::gauge(
            "ramson_live_half_width_bytes",
            "bytes",
            "Half the width of the 95% interval of ramson_live_bytes.",
        ),
        |moment| half_width(moment.live),
    ),
    (
        Family::gauge(
            "ramson_free_in_allocator_bytes",
            "bytes",
            "Free memory that the allocator has not returned to the kernel.",
        ),
        |moment| moment.free.map(|free| free.value.round()),
    ),
    (
        Family::gauge(
            "ramson_free_in_allocator_half_width_bytes",
            "bytes",
            "Half the width of the 95% interval of ramson_free_in_allocator_bytes.",
        ),
        |moment| moment.free.and_then(half_width),
    ),
    (
        Family::gauge(
            "ramson_held_by_allocator_bytes",
            "bytes",
            "Memory of an allocator that cannot be read, minus ramson_live_bytes.",
        ),
        |moment| moment.held.map(|held| held.value.round()),
    ),
    (
        Family::gauge(
            "ramson_held_by_allocator_half_width_bytes",
            "bytes",
            "Half the width of the 95% interval of ramson_held_by_allocator_bytes.",
        ),
        |moment| moment.held.and_then(half_width),
    ),
    (Family::gauge("ramson_live_samples", "", "Live samples, as counted."), |moment| {
        Some(moment.live_samples as f64)
    }),
    (
        Family {
            name: "ramson_allocated_bytes",
            unit: "bytes",
            is_counter: true,
            help: "Bytes allocated since the start, estimated.",
        },
        |moment| Some(moment.allocated as f64),
    ),
];

/// Writes a whole document of the moments of one process.
pub fn write(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    totals([series].into_iter(), true, out)?;
    end(out)
}

/// Writes the totals of several processes; of each either one moment, which is now, or its series.
pub fn totals<'a>(
    all: impl Iterator<Item = &'a Series> + Clone,
    has_times: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (family, value) in TOTALS {
        family.begin(out)?;
        for series in all.clone() {
            let labels = labels(series);
            let mut last_ms = None;
            for moment in &series.moments {
                let ms = moment.time_unix_ns / 1_000_000;
                // Times are of milliseconds, and no series may have two values of one.
                if has_times && last_ms.replace(ms) == Some(ms) {
                    continue;
                }
                let Some(value) = value(moment) else { continue };
                family.sample(&labels, value, out)?;
                if has_times {
                    write!(out, " {}.{:03}", ms / 1000, ms % 1000)?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Writes a family with these values, which are of now. No two may have the same labels.
pub fn family(
    family: &Family,
    values: impl IntoIterator<Item = (Labels, f64)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    family.begin(out)?;
    for (labels, value) in values {
        family.sample(&labels, value, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Ends a document.
pub fn end(out: &mut dyn Write) -> io::Result<()> {
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
        write(&series, &mut out).unwrap();
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

//! RSS, live bytes and free memory of a process over time: as CSV, and as a picture in one SVG file, readable without scripts.

use crate::flame;
use crate::markup::escape;
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_local_time};
use std::fmt::Write as _;
use std::io::{self, Write};

const WIDTH: usize = 1200;
const HEIGHT: usize = 420;
/// Around the plot: room for bytes at the left, for times below, for the heading above.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 40.0;
/// Times below the plot.
const TIMES: u64 = 5;
const MOST_LETTERS: usize = 60;
const STYLE: &str = include_str!("series.css");

/// History of one process.
pub struct Series {
    /// The program's name.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// In the order of their times.
    pub moments: Vec<Moment>,
    /// Names of moments, and their times in nanoseconds since 1970.
    pub marks: Vec<(String, u64)>,
}

/// One moment of a series.
pub struct Moment {
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Resident bytes.
    pub rss: Option<u64>,
    /// Live bytes.
    pub live: Estimate,
    /// Free in the allocator, where that is known.
    pub free: Option<Estimate>,
    /// Memory of an allocator that ramson cannot read, without what the profile counts as live; `None` for other allocators.
    pub held: Option<Estimate>,
    /// Live samples, as counted.
    pub live_samples: u64,
    /// Bytes allocated since the start.
    pub allocated: u64,
    /// Why the moment was kept, comma-separated.
    pub triggers: String,
    /// Snapshots are missing before it.
    pub is_after_gap: bool,
}

/// Writes every moment as a line of comma-separated values, bytes as integers.
pub fn csv(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let heads = "time_unix_ns,rss_bytes,live_bytes,live_half_width_95,live_samples,allocated_bytes,triggers,\
        free_in_allocator_bytes,free_in_allocator_half_width_95,\
        held_by_allocator_bytes,held_by_allocator_half_width_95";
    writeln!(out, "{heads}")?;
    for moment in &series.moments {
        let rss = moment.rss.map_or(String::new(), |rss| rss.to_string());
        let [live, free, held] = [Some(moment.live), moment.free, moment.held].map(pair);
        writeln!(
            out,
            "{},{rss},{live},{},{},{},{free},{held}",
            moment.time_unix_ns,
            moment.live_samples,
            moment.allocated,
            moment.triggers.replace(',', " "),
        )?;
    }
    out.flush()
}

/// A value and half the width of its interval, comma-separated.
fn pair(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return ",".into() };
    let half_width = half_width(estimate).map_or(String::new(), |bytes| bytes.to_string());
    format!("{},{half_width}", estimate.value)
}

/// `None` where it is unknown, or records were lost: the value is at least that much.
/// Half the width of its interval, in whole bytes; `None`: not known.
pub fn half_width(live: Estimate) -> Option<f64> {
    Some(live.half_width_95().ceil()).filter(|bytes| bytes.is_finite())
}

/// Maps times and bytes to places in the plot.
struct Scale {
    first_ns: u64,
    last_ns: u64,
    /// Bytes between two lines, and the number of lines above 0.
    step: f64,
    steps: usize,
}

impl Scale {
    fn of(series: &Series) -> Self {
        let top = |moment: &Moment| {
            let live = moment.live.value + half_width(moment.live).unwrap_or(0.0);
            live.max(moment.rss.unwrap_or(0) as f64)
        };
        let most = series.moments.iter().map(top).fold(1.0, f64::max);
        // A power of two of bytes reads well: 64.0 MiB, 128 MiB …
        let step = (most / 4.0).log2().ceil().max(0.0).exp2();
        let steps = (most / step).ceil().max(1.0) as usize;
        let time = |moment: Option<&Moment>| moment.map_or(0, |moment| moment.time_unix_ns);
        let first_ns = time(series.moments.first());
        let last_ns = time(series.moments.last());
        Self { first_ns, last_ns, step, steps }
    }

    fn x(&self, time_ns: u64) -> f64 {
        let share = time_ns.saturating_sub(self.first_ns) as f64
            / (self.last_ns - self.first_ns).max(1) as f64;
        LEFT + share * (WIDTH as f64 - LEFT - RIGHT)
    }

    fn y(&self, bytes: f64) -> f64 {
        let share = bytes.max(0.0) / (self.step * self.steps as f64);
        HEIGHT as f64 - BOTTOM - share * (HEIGHT as f64 - TOP - BOTTOM)
    }
}

/// Writes the picture. Equal series give equal files.
pub fn svg(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let scale = Scale::of(series);
    let mut text = String::new();
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<style>\n\
         svg:root {{ background: var(--page); }}\n{}{STYLE}</style>\n<text x=\"8\" y=\"22\">",
        flame::STYLE
    );
    escape(&mut text, &series.name, MOST_LETTERS);
    let _ = write!(
        text,
        " (pid {}): RSS, live bytes, and what the allocator has in addition",
        series.pid
    );
    text.push_str("</text>\n");
    write_legend(&mut text, series);
    for part in series.moments.chunk_by(|_, next| !next.is_after_gap) {
        let rss = |moment: &Moment| moment.rss.map(|rss| (rss as f64, 0.0));
        write_area(&mut text, &scale, part, "rss", rss);
        write_area(&mut text, &scale, part, "live", |moment| Some((moment.live.value, 0.0)));
        write_interval(&mut text, &scale, part, |moment| Some((moment.live.value, moment.live)));
        write_area(&mut text, &scale, part, "free", |moment| {
            let live = moment.live.value;
            Some((live + moment.free.or(moment.held)?.value, live))
        });
        write_interval(&mut text, &scale, part, |moment| {
            let free = moment.free.or(moment.held)?;
            Some((moment.live.value + free.value, free))
        });
    }
    write_axes(&mut text, &scale);
    for (name, time_ns) in &series.marks {
        let x = scale.x(*time_ns);
        let bottom = HEIGHT as f64 - BOTTOM;
        let _ = write!(
            text,
            "<path class=\"mark\" d=\"M{x:.1} {TOP}V{bottom}\"/><text x=\"{:.1}\" y=\"{:.1}\">",
            x + 4.0,
            TOP + 12.0
        );
        escape(&mut text, name, MOST_LETTERS);
        text.push_str("</text>\n");
    }
    text.push_str("</svg>\n");
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn write_legend(text: &mut String, series: &Series) {
    let free = if series.moments.iter().any(|moment| moment.held.is_some()) {
        "held by the allocator"
    } else {
        "free in the allocator"
    };
    let has_free = series.moments.iter().any(|moment| moment.free.or(moment.held).is_some());
    let free = has_free.then_some((304, "free", free));
    for (at, class, name) in
        [(8, "rss", "RSS"), (70, "live", "live"), (132, "interval", "95% intervals")]
            .into_iter()
            .chain(free)
    {
        let _ = writeln!(
            text,
            "<rect class=\"{class}\" x=\"{at}\" y=\"34\" width=\"14\" height=\"14\"/><text x=\"{}\" y=\"46\">{name}</text>",
            at + 20
        );
    }
}

/// Writes the area between two values of each moment, the upper one first. Moments without values are skipped.
fn write_area(
    text: &mut String,
    scale: &Scale,
    moments: &[Moment],
    class: &str,
    values: impl Fn(&Moment) -> Option<(f64, f64)>,
) {
    let known = || {
        moments.iter().filter_map(|moment| Some((scale.x(moment.time_unix_ns), values(moment)?)))
    };
    let upper = known().map(|(x, (upper, _))| (x, scale.y(upper)));
    let lower = known().map(|(x, (_, lower))| (x, scale.y(lower)));
    let lower: Vec<(f64, f64)> = lower.collect();
    let points = upper.chain(lower.into_iter().rev());
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    if !points.is_empty() {
        let _ = writeln!(text, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }
}

/// The 95% interval of an estimate, around where its value is drawn.
fn write_interval(
    text: &mut String,
    scale: &Scale,
    moments: &[Moment],
    drawn: impl Fn(&Moment) -> Option<(f64, Estimate)>,
) {
    write_area(text, scale, moments, "interval", |moment| {
        let (at, estimate) = drawn(moment)?;
        let half_width = half_width(estimate).filter(|&bytes| bytes > 0.0)?;
        Some((at + half_width, at - half_width))
    });
}

fn write_axes(text: &mut String, scale: &Scale) {
    for step in 0..=scale.steps {
        let bytes = step as f64 * scale.step;
        let y = scale.y(bytes);
        let _ = writeln!(
            text,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/><text class=\"left\" x=\"{}\" y=\"{:.1}\">{}</text>",
            WIDTH as f64 - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            format_bytes(bytes)
        );
    }
    let length_ns = scale.last_ns - scale.first_ns;
    for part in 0..TIMES {
        let time_ns = scale.first_ns + length_ns / (TIMES - 1) * part;
        let class = match part {
            0 => "right",
            _ if part + 1 == TIMES => "left",
            _ => "middle",
        };
        let _ = writeln!(
            text,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{}\">{}</text>",
            scale.x(time_ns),
            HEIGHT as f64 - 14.0,
            format_local_time(time_ns)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: u64, live: f64, rss: Option<u64>, is_after_gap: bool) -> Moment {
        let time_unix_ns = 1_800_000_000_000_000_000 + second * 1_000_000_000;
        let live = Estimate::new(live, 100.0);
        let triggers = "clock,rss-peak".into();
        let free = rss.map(|_| Estimate::new(500.0, 100.0));
        let live_samples = 3;
        let allocated = 9;
        let held = None;
        Moment {
            time_unix_ns,
            rss,
            live,
            free,
            held,
            live_samples,
            allocated,
            triggers,
            is_after_gap,
        }
    }

    fn series() -> Series {
        let moments = vec![
            moment(0, 1000.0, Some(4000), false),
            moment(10, 2000.0, Some(4100), false),
            moment(100, 3000.0, None, true),
            moment(110, 3000.0, Some(5000), false),
        ];
        let marks = vec![("<deploy>".into(), moments[1].time_unix_ns)];
        Series { name: "a&b".into(), pid: 7, moments, marks }
    }

    fn text(write: impl Fn(&Series, &mut dyn Write) -> io::Result<()>, of: &Series) -> String {
        let mut out = Vec::new();
        write(of, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_leaves_unknown_values_empty() {
        let text = text(csv, &series());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "1800000000000000000,4000,1000,20,3,9,clock rss-peak,500,20,,");
        assert_eq!(lines[3], "1800000100000000000,,3000,20,3,9,clock rss-peak,,,,");
    }

    #[test]
    fn picture_breaks_at_gaps() {
        let text = text(svg, &series());
        assert_eq!(text.matches("<polygon class=\"live\"").count(), 2, "{text}");
        assert_eq!(text.matches("<polygon class=\"rss\"").count(), 2, "{text}");
        assert_eq!(text.matches("<polygon class=\"free\"").count(), 2, "{text}");
        assert!(text.contains(">free in the allocator</text>"), "{text}");
        assert!(text.contains("a&amp;b (pid 7)") && text.contains("&lt;deploy&gt;"), "{text}");
        assert!(text.contains(">4.00 KiB</text>") && text.contains(">6.00 KiB</text>"), "{text}");
    }

    #[test]
    fn short_series_is_a_picture() {
        for count in [0, 1] {
            let mut series = series();
            series.moments.truncate(count);
            series.marks.clear();
            series.moments.iter_mut().for_each(|moment| moment.free = None);
            let text = text(svg, &series);
            assert!(text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
            assert!(!text.contains("free in") && !text.contains("\"free\""), "{text}");
        }
    }
}

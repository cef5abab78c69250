//! Lines that GODEBUG=gctrace=1 makes a Go program print, as the runtimes of Go 1.5 to 1.27 write them (gcMarkTermination of runtime/mgc.go):
//!
//! `gc 7 @0.412s 2%: 0.011+0.55+0.004 ms clock, 0.022+0.21/0.33/0+0.009 ms cpu, 34->35->17 MB, 35 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)`

use super::{Collection, Gc};
use ramson_source::Failure;

const MEGABYTE: u64 = 1 << 20;
/// A longer line is none of the runtime's.
const MOST_BYTES: usize = 1 << 10;

/// The collections that a text tells of, between any other lines. `origin` is its name.
pub fn of_trace(origin: &str, text: &str) -> Result<Gc, Failure> {
    let mut collections = Vec::new();
    let mut cpu_share = None;
    let mut bad_lines = 0;
    let lines = text.lines().map(str::trim_end).filter(|line| line.len() <= MOST_BYTES);
    // A program that starts anew counts from 1 again.
    for line in lines.filter(|line| is_begun(line)) {
        match parse(line) {
            Some((collection, share)) => {
                if collection.number == 1 {
                    collections.clear();
                }
                collections.push(collection);
                cpu_share = Some(share);
            }
            None => bad_lines += 1,
        }
    }
    let first = collections.first().map_or(0, |one| one.end_ns);
    let Some(last) = collections.last() else {
        let next = if origin.contains(['/', ' ']) {
            "Pass a running Go program, or its gctrace output".to_owned()
        } else {
            format!("For the process of that name: name:{origin}")
        };
        return Err(Failure::failed(format!(
            "{origin}: no GODEBUG=gctrace=1 line (\"gc 1 @0.012s 2%: …\"). {next}"
        )));
    };
    let seconds = last.end_ns.saturating_sub(first) as f64 / 1e9;
    // The first one ends at the beginning of this time.
    let count = collections.len();
    let seconds = if count > 1 { seconds * count as f64 / (count - 1) as f64 } else { 0.0 };
    Ok(Gc {
        origin: origin.into(),
        pid: None,
        collector: None,
        seconds,
        collections,
        cpu_share,
        allocated: None,
        largest: None,
        allocated_in_seconds: 0.0,
        no_stacks: None,
        bad_lines,
    })
}

/// `gc 7 @`, at the start of a line or behind what the program has written without an end of line.
fn is_begun(line: &str) -> bool {
    start(line).is_some()
}

fn start(line: &str) -> Option<&str> {
    let at = line.find("gc ").filter(|_| line.contains(" @") && line.contains("%: "))?;
    let line = &line[at..];
    line[3..].starts_with(|first: char| first.is_ascii_digit()).then_some(line)
}

/// The collection, and the collector's share of the CPU time since the program's start.
fn parse(line: &str) -> Option<(Collection, f64)> {
    let rest = start(line)?.strip_prefix("gc ")?;
    let (number, rest) = rest.split_once(" @")?;
    let (at, rest) = rest.split_once("s ")?;
    let (percent, rest) = rest.split_once("%: ")?;
    let mut parts = rest.split(", ");
    let clock = parts.next()?.strip_suffix(" ms clock")?;
    // Stop, mark, stop; before Go 1.6 there were five phases, of which the first and the last stop the program.
    let phases: Vec<&str> = clock.split('+').collect();
    let pause = phases.first()?.parse::<f64>().ok()? + phases.last()?.parse::<f64>().ok()?;
    let mut collection = Collection {
        number: number.parse().ok()?,
        end_ns: (at.parse::<f64>().ok()? * 1e9) as u64,
        pause_ns: (pause * 1e6) as u64,
        is_forced: Some(line.contains("(forced)")),
        ..Collection::default()
    };
    for part in parts {
        // Stop, assist/own/idle workers, stop.
        if let Some(cpu) = part.strip_suffix(" ms cpu") {
            let assist = cpu.split('+').find_map(|it| it.split_once('/'));
            let assist = assist.and_then(|(assist, _)| assist.parse::<f64>().ok());
            collection.assist_ns = assist.map(|ms| (ms * 1e6) as u64);
            continue;
        }
        let Some(bytes) = part.strip_suffix(" MB").or(part.strip_suffix(" MB goal")) else {
            continue;
        };
        let megabytes = |text: &str| Some(text.parse::<u64>().ok()?.saturating_mul(MEGABYTE));
        match bytes.split("->").collect::<Vec<_>>()[..] {
            // At its start, at its end, and what of that is live.
            [_, end, live] => {
                (collection.before_bytes, collection.live_bytes) =
                    (megabytes(end), megabytes(live));
            }
            [goal] if part.ends_with("goal") => collection.goal_bytes = megabytes(goal),
            _ => {}
        }
    }
    collection.live_bytes?;
    Some((collection, percent.trim().parse::<f64>().ok()? / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go 1.5, 1.10, 1.18 and 1.21 to 1.27 write it.
    const LINES: &str = "starting
gc 1 @0.030s 3%: 0.10+0.52+0.11+0.28+0.19 ms clock, 0.20+0.52+0+0.03/0.39/0.19+0.39 ms cpu, 4->4->1 MB, 4 MB goal, 4 P
gc 2 @0.412s 1%: 0.010+0.48+0.003 ms clock, 0.042+0.20/0.33/0.58+0.015 ms cpu, 5->6->2 MB, 6 MB goal, 4 P
scvg: 8 MB released
scav 8 KiB work (bg), 0 KiB work (eager), 12288 KiB total, 31% util
gc 3 @0.9s 0%: 0.010+0.48+0.003 ms clock, 0.042+0.20/0.33/0.58+0.015 ms cpu, 7->7->3 MB, 8 MB goal, 0 MB stacks, 0 MB globals, 4 P
request served gc 4 @1.500s 2%: 0.5+1+1.5 ms clock, 0.1+0/0/0+0 ms cpu, 9->9->4 MB, 9 MB goal, 0 MB stacks, 1 MB globals, 4 P (forced)
gc 5 @2.0s 2%: cut off
";

    #[test]
    fn lines_of_all_versions_are_read() {
        let gc = of_trace("log", LINES).unwrap();
        let numbers: Vec<u32> = gc.collections.iter().map(|one| one.number).collect();
        assert_eq!((numbers, gc.bad_lines), (vec![1, 2, 3, 4], 1));
        let mib = |mib: u64| Some(mib << 20);
        let first = &gc.collections[0];
        let of = (first.before_bytes, first.live_bytes, first.goal_bytes, first.pause_ns);
        assert_eq!(of, (mib(4), mib(1), mib(4), 290_000));
        assert_eq!(first.assist_ns, Some(30_000));
        let last = &gc.collections[3];
        assert_eq!((last.live_bytes, last.goal_bytes, last.pause_ns), (mib(4), mib(9), 2_000_000));
        assert_eq!(last.is_forced, Some(true));
        assert_eq!(gc.cpu_share, Some(0.02));
        // Four in 1.47 s and what one took before.
        assert!((gc.per_minute() - 122.4).abs() < 0.1, "{}", gc.per_minute());
        assert_eq!(gc.pauses_ns(), Some((290_000, 2_000_000)));
    }

    #[test]
    fn last_start_counts_and_other_texts_are_refused() {
        let twice = format!("{LINES}{}", LINES.lines().nth(1).unwrap());
        assert_eq!(of_trace("log", &twice).unwrap().collections.len(), 1);
        for text in ["", "gc is fun @ 3%: ", "gc 1 @x 3%: y", "gc 1 @1s 3%: 1+1 ms clock"] {
            assert!(of_trace("log", text).is_err(), "{text}");
        }
    }
}

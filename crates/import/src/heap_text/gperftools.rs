//! gperftools' text: `heap profile: n: s [an: as] @ KIND/N`, then a line `n: s [an: as] @ addresses` per stack.
//!
//! KIND says how the numbers came about. `heapprofile` (HEAPPROFILE) and `growthz` count every allocation. `heap_v2/N` is
//! Poisson sampling with mean N; `heap/N`, which Go writes with `debug=1`, the same with mean N/2 (jeprof,
//! `ReadHeapProfile`; google/pprof, `parseHeapHeader`).

use super::{HeapText, maps, parse_counts};
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::Imported;
use crate::input::Input;
use crate::weight::Sampling;

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let header = String::from_utf8_lossy(input.line().unwrap_or_default()).into_owned();
    let (sampling, interval) = sampling_of(&header);
    let mut text = HeapText::new(sampling);
    let mut has_mappings = false;
    while let Some(line) = input.line() {
        let line = String::from_utf8_lossy(line).trim().to_owned();
        if line.starts_with("MAPPED_LIBRARIES:") || line.starts_with("--- Memory map:") {
            has_mappings = true;
            break;
        }
        // Go's comments hold names and statistics.
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let record = parse_counts(&line).and_then(|(counts, rest)| {
            rest.trim_start().strip_prefix('@').map(|addresses| (counts, addresses))
        });
        let Some((counts, addresses)) = record else {
            text.bad_lines += 1;
            continue;
        };
        let added = text.set_stack(input, addresses).and_then(|()| text.add(input, &counts));
        if added.is_none() {
            break;
        }
    }
    if has_mappings {
        maps::read(input, &mut text.builder.profile);
    }
    let mut imported = text.finish(Format::Gperftools, interval, has_mappings);
    if sampling == Sampling::Unknown {
        imported.defects.push(ImportDefect::NoInterval);
    }
    Ok(imported)
}

fn sampling_of(header: &str) -> (Sampling, u64) {
    let kind = header.split_once('@').map_or("", |(_, kind)| kind).trim();
    let (name, number) = kind.split_once('/').unwrap_or((kind, ""));
    let interval = match (name, number.parse::<u64>()) {
        ("heapprofile" | "growthz" | "growth" | "fragmentationz", _) => Some(1),
        ("heap_v2" | "heapz_v2", Ok(interval)) => Some(interval),
        ("heap", Ok(doubled)) => Some(doubled / 2),
        _ => None,
    };
    (interval.map_or(Sampling::Unknown, Sampling::of_interval), interval.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_how_the_numbers_came_about() {
        let of = |kind: &str| sampling_of(&format!("heap profile: 1: 2 [ 3: 4] @ {kind}"));
        assert_eq!(of("heapprofile"), (Sampling::Exact, 1));
        assert_eq!(of("growthz"), (Sampling::Exact, 1));
        assert_eq!(of("heap_v2/524288"), (Sampling::Interval(524288), 524288));
        assert_eq!(of("heap_v2/1"), (Sampling::Exact, 1));
        assert_eq!(of("heap/1048576"), (Sampling::Interval(524288), 524288));
        assert_eq!(of("heap_v2"), (Sampling::Unknown, 0));
        assert_eq!(sampling_of("heap profile: 1: 2 [3: 4]"), (Sampling::Unknown, 0));
    }
}

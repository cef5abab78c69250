//! jemalloc's `heap_v2`: the interval, totals, then for each stack a line of return addresses and lines of counts for
//! all threads (`t*`) and for each (`t0`, `t1` …). Files without thread sections have the counts of `t*` only.

use super::{Counts, HeapText, maps, parse_counts};
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::Imported;
use crate::input::Input;
use crate::weight::Sampling;

pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let header = String::from_utf8_lossy(input.line().unwrap_or_default()).into_owned();
    let interval = header.trim().strip_prefix("heap_v2/").and_then(|text| text.parse().ok());
    // 0 is what `jeprof` takes for "weighted already", and what our own export writes.
    let interval = interval.filter(|&interval: &u64| interval != 0);
    let sampling = interval.map_or(Sampling::Unknown, Sampling::of_interval);
    let mut text = HeapText::new(sampling);
    let mut has_mappings = false;
    let mut record = Record::default();
    while let Some(line) = input.line() {
        let line = String::from_utf8_lossy(line).trim().to_owned();
        let added = if line.starts_with("MAPPED_LIBRARIES:") {
            has_mappings = true;
            break;
        } else if let Some(addresses) = line.strip_prefix('@') {
            record.add_to(&mut text, input).and_then(|()| {
                record = Record { is_inside: true, ..Record::default() };
                text.set_stack(input, addresses)
            })
        } else {
            text.bad_lines += u64::from(!record.take(&line));
            Some(())
        };
        if added.is_none() {
            break;
        }
    }
    // Past a memory bound this one does not fit either.
    let _ = record.add_to(&mut text, input);
    if has_mappings {
        maps::read(input, &mut text.builder.profile);
    }
    let mut imported = text.finish(Format::Jemalloc, interval.unwrap_or(0), has_mappings);
    if interval.is_none() {
        imported.defects.push(ImportDefect::NoInterval);
    }
    Ok(imported)
}

/// The counts of one stack.
#[derive(Default)]
struct Record {
    is_inside: bool,
    all_threads: Option<Counts>,
    threads: Option<Counts>,
}

impl Record {
    /// Takes a line of counts; false if it is none.
    fn take(&mut self, line: &str) -> bool {
        if line.is_empty() {
            return true;
        }
        let Some((thread, counts)) = line.strip_prefix('t').and_then(|line| line.split_once(':'))
        else {
            return false;
        };
        let Some((counts, _)) = parse_counts(counts) else { return false };
        match thread {
            "*" => self.all_threads = Some(counts),
            _ => {
                let sum = match self.threads {
                    Some(sum) => sum.plus(&counts),
                    None => counts,
                };
                self.threads = Some(sum);
            }
        }
        true
    }

    fn add_to(&self, text: &mut HeapText, input: &mut Input) -> Option<()> {
        // What stands before the first stack are the totals.
        match self.all_threads.or(self.threads) {
            Some(counts) if self.is_inside => text.add(input, &counts),
            _ => Some(()),
        }
    }
}

impl Counts {
    fn plus(&self, other: &Counts) -> Counts {
        let mut sum = *self;
        sum.inuse.objects += other.inuse.objects;
        sum.inuse.bytes += other.inuse.bytes;
        sum.alloc.objects += other.alloc.objects;
        sum.alloc.bytes += other.alloc.bytes;
        sum
    }
}

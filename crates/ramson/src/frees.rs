//! `--view frees`: sampled blocks that were freed of late, and who did. For somebody who has the address that a program crashed on.

use crate::assemble::{Named, assemble_stacks, stack_number};
use crate::failure::Failure;
use crate::naming::NameOptions;
use crate::report::place;
use crate::source::Source;
use crate::text;
use ramson_profile::format::{format_bytes, format_objects};
use ramson_profile::{FrameTable, Profile, StackSample};
use ramson_reader::{Freed, LiveSample};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// `"kind"` of the object.
pub const KIND: &str = "frees";
const VERSION: u32 = 1;

/// The stacks of the blocks that will be shown, with their names.
pub fn named(source: &Source, names: &NameOptions, address: Option<u64>) -> Result<Named, Failure> {
    let of_freed = freed(source, address)
        .flat_map(|freed| [Some(freed.alloc_stack), freed.free_stack].into_iter().flatten());
    let of_live = live(source, address).map(|live| live.stack);
    let stacks: BTreeSet<usize> = of_freed.chain(of_live).collect();
    assemble_stacks(source, names, &stacks)
}

/// The latest first.
fn freed(source: &Source, address: Option<u64>) -> impl Iterator<Item = &Freed> {
    let freed = source.snapshot.freed.iter();
    freed.filter(move |freed| {
        address.is_none_or(|address| lies_in(address, freed.address, freed.size))
    })
}

/// Live blocks are shown only where an address lies in them.
fn live(source: &Source, address: Option<u64>) -> impl Iterator<Item = &LiveSample> {
    let live = source.snapshot.live.iter();
    live.filter(move |live| {
        address.is_some_and(|address| lies_in(address, live.address, live.size))
    })
}

fn lies_in(address: u64, start: u64, bytes: u64) -> bool {
    address >= start && address - start < bytes.max(1)
}

/// The named stacks of a profile by their numbers.
struct Stacks<'a> {
    frames: FrameTable,
    samples: HashMap<usize, &'a StackSample>,
}

impl<'a> Stacks<'a> {
    fn of(profile: &'a Profile) -> Self {
        let samples = profile.samples.iter();
        let samples = samples.filter_map(|sample| Some((stack_number(sample)?, sample)));
        Self { frames: FrameTable::new(profile), samples: samples.collect() }
    }

    /// Function, file and line of each frame, leaf first; `None` where the stack is not known.
    fn frames(&self, stack: Option<usize>) -> Option<Vec<(&str, &str, u32)>> {
        let sample = self.samples.get(&stack?)?;
        let frames = self.frames.stack(sample).map(|at| {
            let name = self.frames.name(at.frame);
            (&*name.name, &*name.file, at.line)
        });
        Some(frames.collect())
    }

    /// Whether a filter has left anything of a block's stacks.
    fn has_any(&self, stacks: [Option<usize>; 2]) -> bool {
        stacks.into_iter().flatten().any(|stack| self.samples.contains_key(&stack))
    }

    fn has_any_of(&self, freed: &Freed) -> bool {
        self.has_any([Some(freed.alloc_stack), freed.free_stack])
    }

    fn push(&self, out: &mut String, stack: Option<usize>) {
        let Some(frames) = self.frames(stack) else {
            out.push_str("    (stack not known)\n");
            return;
        };
        for (name, file, line) in frames {
            let line = format!("    {name}{}", place(file, line));
            let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
        }
    }

    fn json(&self, stack: Option<usize>) -> Value {
        let frame = |&(function, file, line): &(&str, &str, u32)| json!({ "function": function, "file": file, "line": line });
        self.frames(stack).map_or(Value::Null, |frames| frames.iter().map(frame).collect())
    }
}

/// The list, without a heading.
pub fn table(
    out: &mut String,
    source: &Source,
    profile: &Profile,
    address: Option<u64>,
    rows: usize,
) {
    let stacks = Stacks::of(profile);
    let start_ns = source.snapshot.header.start_monotonic_ns;
    let since_start = |ns: u64| seconds(ns.saturating_sub(start_ns));
    for live in live(source, address).filter(|live| stacks.has_any([Some(live.stack), None])) {
        let block = block(address, live.address, live.size);
        let _ = writeln!(out, "{block}, live");
        let (at, tid) = (since_start(live.monotonic_ns), live.tid);
        let _ = writeln!(out, "  allocated {at} after the start by thread {tid}");
        stacks.push(out, Some(live.stack));
    }
    let shown: Vec<&Freed> =
        freed(source, address).filter(|freed| stacks.has_any_of(freed)).collect();
    let most = if rows == 0 { usize::MAX } else { rows };
    for freed in shown.iter().take(most) {
        let _ = writeln!(out, "{}, freed", block(address, freed.address, freed.size));
        let lifetime = seconds(freed.free_monotonic_ns.saturating_sub(freed.alloc_monotonic_ns));
        let (at, tid) = (since_start(freed.free_monotonic_ns), freed.free_tid);
        let _ = writeln!(
            out,
            "  freed {at} after the start by thread {tid}, {lifetime} after its allocation"
        );
        stacks.push(out, freed.free_stack);
        let (at, tid) = (since_start(freed.alloc_monotonic_ns), freed.alloc_tid);
        let _ = writeln!(out, "  allocated {at} after the start by thread {tid}");
        stacks.push(out, Some(freed.alloc_stack));
    }
    if shown.len() > most {
        let _ = writeln!(out, "({} more; -n 0 shows all)", shown.len() - most);
    }
    let is_nothing = shown.is_empty() && live(source, address).next().is_none();
    if is_nothing {
        let _ = writeln!(out, "{}", nothing(source, address));
    }
}

/// `0x55d0c3a2f2b0: 16 bytes into a block of 64 B at 0x55d0c3a2f2a0`.
fn block(address: Option<u64>, start: u64, bytes: u64) -> String {
    let size = format_bytes(bytes as f64);
    match address {
        Some(address) => {
            format!("{address:#x}: {} bytes into a block of {size} at {start:#x}", address - start)
        }
        None => format!("{start:#x}: a block of {size}"),
    }
}

/// The clock behind it ticks every 1 to 10 ms.
fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

fn nothing(source: &Source, address: Option<u64>) -> String {
    let snapshot = &source.snapshot;
    let remembered = snapshot.freed.len();
    if snapshot.max_freed == 0 {
        return "this profile remembers no frees: start the program with \"ramson run --recent-frees 1024\" or RAMSON_FREES=1024".into();
    }
    let Some(address) = address else { return "no sampled block was freed yet".into() };
    let mut text = format!(
        "{address:#x} is in none of the {} sampled blocks that were freed last, and in no live one.",
        format_objects(remembered as f64)
    );
    if snapshot.header.interval_bytes > 1 {
        text += " Most blocks are not sampled: --interval 1 --recent-frees 65536 records every one";
    } else if remembered as u64 >= snapshot.max_freed {
        text += " Older frees are forgotten: a larger --recent-frees remembers more";
    }
    text
}

/// `"max_frees"`: how many the profile can hold; `"address"`: what was asked for, or null; `"frees"`, the latest first, each with
/// `"number"` (of those remembered, from 1), `"address"`, `"size"`, `"offset"` of the address asked for or null, times in ns since
/// 1970, thread IDs, and the stacks, leaf first, null where not known; `"live"`: live blocks with that address.
pub fn object(source: &Source, profile: &Profile, address: Option<u64>) -> Value {
    let stacks = Stacks::of(profile);
    let header = &source.snapshot.header;
    let unix_ns = |ns: u64| {
        header.start_realtime_ns.saturating_add(ns.saturating_sub(header.start_monotonic_ns))
    };
    let hexadecimal = |address: u64| format!("{address:#x}");
    let offset = |start: u64| address.map(|address| address - start);
    let frees = freed(source, address).filter(|freed| stacks.has_any_of(freed)).map(|freed| {
        json!({
            "number": freed.number,
            "address": hexadecimal(freed.address),
            "size": freed.size,
            "offset": offset(freed.address),
            "alloc_unix_ns": unix_ns(freed.alloc_monotonic_ns),
            "free_unix_ns": unix_ns(freed.free_monotonic_ns),
            "alloc_tid": freed.alloc_tid,
            "free_tid": freed.free_tid,
            "alloc_stack": stacks.json(Some(freed.alloc_stack)),
            "free_stack": stacks.json(freed.free_stack),
        })
    });
    let live = live(source, address).filter(|live| stacks.has_any([Some(live.stack), None]));
    let live = live.map(|live| {
        json!({
            "address": hexadecimal(live.address),
            "size": live.size,
            "offset": offset(live.address),
            "alloc_unix_ns": unix_ns(live.monotonic_ns),
            "alloc_tid": live.tid,
            "alloc_stack": stacks.json(Some(live.stack)),
        })
    });
    json!({
        "ramson": VERSION,
        "kind": KIND,
        "max_frees": source.snapshot.max_freed,
        "address": address.map(hexadecimal),
        "frees": frees.collect::<Value>(),
        "live": live.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_a_block_up_to_its_last_byte() {
        assert!(lies_in(0x1000, 0x1000, 64) && lies_in(0x103f, 0x1000, 64));
        assert!(!lies_in(0xfff, 0x1000, 64) && !lies_in(0x1040, 0x1000, 64));
        // malloc(0) gives an address of its own.
        assert!(lies_in(0x1000, 0x1000, 0) && !lies_in(0x1001, 0x1000, 0));
    }
}

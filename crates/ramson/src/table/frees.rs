//! Freed blocks as text.

use super::{columns, cut, most, place, push_rest, size};
use ramson_analysis::Frame;
use ramson_analysis::frees::Frees;
use std::fmt::Write;

pub fn table(out: &mut String, frees: &Frees, rows: usize) {
    let since_start = |unix_ns: u64| seconds(unix_ns.saturating_sub(frees.start_unix_ns));
    for live in &frees.live {
        let _ = writeln!(out, "{}, live", block(frees.address, live.address, live.size));
        let (at, tid) = (since_start(live.alloc_unix_ns), live.alloc_tid);
        push(out, &format!("allocated {at} after the start by thread {tid}"), &live.alloc_stack);
    }
    for freed in frees.frees.iter().take(most(rows)) {
        let _ = writeln!(out, "{}, freed", block(frees.address, freed.address, freed.size));
        let lifetime = seconds(freed.free_unix_ns.saturating_sub(freed.alloc_unix_ns));
        let (at, tid) = (since_start(freed.free_unix_ns), freed.free_tid);
        let what =
            format!("freed {at} after the start by thread {tid}, {lifetime} after its allocation");
        push(out, &what, &freed.free_stack);
        let (at, tid) = (since_start(freed.alloc_unix_ns), freed.alloc_tid);
        push(out, &format!("allocated {at} after the start by thread {tid}"), &freed.alloc_stack);
    }
    push_rest(out, frees.frees.len(), most(rows), "");
    out.extend(frees.nothing.iter().map(|nothing| format!("{nothing}\n")));
}

fn push(out: &mut String, what: &str, stack: &Option<Vec<Frame>>) {
    let _ = writeln!(out, "  {what}");
    let Some(frames) = stack else {
        out.push_str("    (stack not known)\n");
        return;
    };
    for frame in frames {
        let line = format!("    {}{}", frame.function, place(&frame.file, frame.line));
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
}

/// `0x55d0c3a2f2b0: 16 bytes into a block of 64 B at 0x55d0c3a2f2a0`.
fn block(address: Option<u64>, start: u64, bytes: u64) -> String {
    let size = size(bytes);
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

//! Freed blocks as text.

use super::{Table, columns, cut, most, place, push_rest, size};
use crate::output::hint;
use ramson_analysis::frees::{Block, Frees};
use ramson_profile::FrameName;
use ramson_profile::format::{format_duration, format_objects};
use std::fmt::Write;

/// Who freed what who allocated; with an address, the blocks in which it lies.
pub fn table(out: &mut String, frees: &Frees, rows: usize) {
    match frees.address {
        None if !frees.pairs.is_empty() => pairs(out, frees, rows),
        _ => blocks(out, frees, rows),
    }
}

fn pairs(out: &mut String, frees: &Frees, rows: usize) {
    let name = |of: &Option<FrameName>| of.as_ref().map_or("(not known)".into(), FrameName::short);
    let _ = writeln!(
        out,
        "the last {} sampled blocks that were freed",
        format_objects(frees.frees.len() as f64)
    );
    let mut lines = Table::new(out, "blocks:>8|bytes:>10|mean life:>10|freed by ← allocated by");
    for pair in frees.pairs.iter().take(most(rows)) {
        lines.row([
            format_objects(pair.blocks as f64),
            size(pair.bytes),
            format_duration(pair.mean_lifetime_ns),
            format!("{} ← {}", name(&pair.freed_by), name(&pair.allocated_by)),
        ]);
    }
    push_rest(out, frees.pairs.len(), most(rows), " pairs");
    hint("the stacks of a block: --address ADDR; of all: --json");
}

fn blocks(out: &mut String, frees: &Frees, rows: usize) {
    let since_start = |unix_ns: u64| seconds(unix_ns.saturating_sub(frees.start_unix_ns));
    let push_allocation = |out: &mut String, block: &Block| {
        let at = since_start(block.alloc_unix_ns);
        let tid = block.alloc_tid;
        let _ = writeln!(out, "  allocated {at} after the start by thread {tid}");
        push(out, block.alloc_stack.as_deref());
    };
    for live in &frees.live {
        let _ = writeln!(out, "{}, live", place_of(live));
        push_allocation(out, live);
    }
    for freed in frees.frees.iter().take(most(rows)) {
        let _ = writeln!(out, "{}, freed", place_of(&freed.block));
        let lifetime = seconds(freed.free_unix_ns.saturating_sub(freed.block.alloc_unix_ns));
        let at = since_start(freed.free_unix_ns);
        let tid = freed.free_tid;
        let _ = writeln!(
            out,
            "  freed {at} after the start by thread {tid}, {lifetime} after its allocation"
        );
        push(out, freed.free_stack.as_deref());
        push_allocation(out, &freed.block);
    }
    push_rest(out, frees.frees.len(), most(rows), "");
    out.extend(frees.nothing.iter().map(|nothing| format!("{nothing}\n")));
}

fn push(out: &mut String, stack: Option<&[FrameName]>) {
    let Some(frames) = stack else {
        out.push_str("    (stack not known)\n");
        return;
    };
    for frame in frames {
        let line = format!("    {}{}", frame.name, place(&frame.file, frame.line));
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
}

/// `0x55d0c3a2f2b0: 16 bytes into a block of 64 B at 0x55d0c3a2f2a0`.
fn place_of(block: &Block) -> String {
    let start = block.address.0;
    let size = size(block.size);
    match block.offset {
        Some(offset) => {
            let address = start + offset;
            format!("{address:#x}: {offset} bytes into a block of {size} at {start:#x}")
        }
        None => format!("{start:#x}: a block of {size}"),
    }
}

/// The clock behind it ticks every 1 to 10 ms.
fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

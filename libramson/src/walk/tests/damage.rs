//! Damaged unwind tables: whatever the bytes are, `compile` answers, and reads nothing outside of them.

use super::live::GuardedStack;
use super::programs::build;
use super::tables::Image;
use crate::sampler;
use crate::walk::objects::Place;
use crate::walk::rules::{Cfa, Rule};
use crate::walk::unwind_tables;

const MUTATIONS: u64 = 200_000;

/// How many of each there were.
#[derive(Default, Debug)]
struct Rules {
    from_stack_pointer: u64,
    without_tables: u64,
    unknown: u64,
}

#[test]
fn damaged_tables_never_panic() {
    let image = Image::load(&build("frames.cc", &["-O2"]));
    let place = image.place;
    // From the index to the end of the segment, which is where its tables end.
    let length = (place.unwind_end - place.unwind_header) as usize;
    // SAFETY: inside the image.
    let original = unsafe { std::slice::from_raw_parts(place.unwind_header as *const u8, length) };
    let pages = length.div_ceil(4096);
    let mut guarded = GuardedStack::new(pages);
    let low = guarded.low();
    // The tables end where the page after them cannot be accessed, or begin where the page before them cannot.
    let at_end = pages * 4096 - length;
    let mut random = sampler::seed(5);
    let mut draw = |below: u64| {
        random = sampler::next_random(random);
        (random >> 11) % below
    };
    let functions: Vec<u64> = image.entries().map(|entry| entry.initial_address()).collect();
    let mut rules = Rules::default();
    for mutation in 0..MUTATIONS {
        let offset = if mutation % 2 == 0 { 0 } else { at_end };
        // SAFETY: `length` bytes from `offset` are inside the accessible pages.
        let tables = unsafe { std::slice::from_raw_parts_mut(low.add(offset), length) };
        if mutation % 8 < 2 {
            tables.copy_from_slice(original);
        }
        for _ in 0..=draw(4) {
            let at = match draw(4) {
                0 => draw(12.min(length as u64)),
                1 => draw(200.min(length as u64)),
                _ => draw(length as u64),
            } as usize;
            tables[at] = match draw(3) {
                0 => tables[at] ^ 1 << draw(8),
                1 => [0, 1, 0x7f, 0x80, 0xff][draw(5) as usize],
                _ => draw(256) as u8,
            };
        }
        let header = tables.as_ptr() as u64;
        let cut = if draw(8) == 0 { draw(length as u64) } else { 0 };
        let damaged = Place {
            unwind_header: header,
            unwind_start: header,
            unwind_end: header + length as u64 - cut,
            code_start: 0,
            code_end: 0,
            ..place
        };
        let function = functions[draw(functions.len() as u64) as usize];
        let lookup_address =
            (function + draw(200)).wrapping_add(header.wrapping_sub(place.unwind_header));
        match unwind_tables::compile(&damaged, lookup_address) {
            Rule::Restore(Cfa::StackPointer(_), _) => rules.from_stack_pointer += 1,
            Rule::FollowFramePointer => rules.without_tables += 1,
            Rule::Unknown => rules.unknown += 1,
            _ => {}
        }
    }
    // Some of the damage did none, some hit the index, some the instructions.
    assert!(rules.from_stack_pointer > MUTATIONS / 20, "{rules:?}");
    assert!(rules.without_tables > MUTATIONS / 20, "{rules:?}");
    assert!(rules.unknown > 0, "{rules:?}");
}

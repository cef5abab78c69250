//! Padding that transparent huge pages added: pages of zeros, which most likely the program never touched.

use crate::areas::Area;
use crate::memory::{Memory, PAGE_BYTES, Presence};

/// Bytes of a huge page on x86-64.
const HUGE_BYTES: u64 = 2 << 20;
/// Huge pages of an area that are looked at, if they are there, and looks for them.
const MOST_HUGE_PAGES: u64 = 64;
const MOST_LOOKS: u64 = 1024;
/// From one look to the next, in huge pages: a prime number, so that no pattern of the program's repeats with it.
const STRIDE: u64 = 1_000_003;
/// Pages of each, at equal distances from a start that moves on.
const LOOKED_AT: u64 = 16;

/// Bytes of the area's huge pages that are only zeros, by a sample of their pages.
pub fn padding(memory: &impl Memory, area: &Area) -> u64 {
    let first = area.start.next_multiple_of(HUGE_BYTES);
    if area.anonymous_huge == 0 || first + HUGE_BYTES > area.end {
        return 0;
    }
    let count = (area.end - first) / HUGE_BYTES;
    let mut zeros = 0;
    let mut looked_at = 0;
    let mut page = vec![0; PAGE_BYTES as usize];
    let numbers = (0..count.min(MOST_LOOKS)).map(|look| look * STRIDE % count);
    for number in numbers {
        if looked_at >= MOST_HUGE_PAGES as u128 * LOOKED_AT as u128 {
            break;
        }
        let start = first + number * HUGE_BYTES;
        let presence = Presence::of(memory, start, start + HUGE_BYTES);
        if presence.is_none_or(|of| of.resident_bytes(start, start + HUGE_BYTES) < HUGE_BYTES) {
            continue;
        }
        let distance = HUGE_BYTES / LOOKED_AT;
        let shift = number * 7 * PAGE_BYTES % distance;
        for offset in (shift..HUGE_BYTES).step_by(distance as usize) {
            if memory.read(start + offset, &mut page) {
                looked_at += 1;
                zeros += u128::from(page.iter().all(|&byte| byte == 0));
            }
        }
    }
    (u128::from(area.anonymous_huge) * zeros / looked_at.max(1)) as u64
}

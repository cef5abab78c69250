//! Whatever a process's heap and the C library's data hold: the statistics are read or refused, and no page is read that is not there. The
//! first byte is the layout; then comes the library's page, then the heap.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_process::glibc::{self, Effort};
use ramson_process::rss::{Known, explain};
use ramson_process::{Area, Memory, PAGE_BYTES};

const DATA: u64 = 0x7f00_0000_0000;
const HEAP: u64 = 0x5555_0000_0000;

struct Pages<'a> {
    data: &'a [u8],
    heap: &'a [u8],
}

impl Memory for Pages<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let is_heap = address < DATA;
        let (start, bytes) = if is_heap { (HEAP, self.heap) } else { (DATA, self.data) };
        let at = address.checked_sub(start).expect("not below what is there") as usize;
        buffer.copy_from_slice(&bytes[at..at + buffer.len()]);
        true
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        for (first, bytes) in [(HEAP, self.heap), (DATA, self.data)] {
            let (from, to) = (start.max(first), end.min(first + bytes.len() as u64));
            if from < to {
                visit(from, to);
            }
        }
        true
    }
}

fn area(start: u64, bytes: &[u8], path: &str) -> Area {
    let (length, permissions) = (bytes.len() as u64, "rw-p".to_owned());
    let (rss, path) = (length, path.to_owned());
    Area {
        start,
        end: start + length,
        permissions,
        path,
        rss,
        anonymous: rss,
        ..Area::default()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&minor, pages)) = bytes.split_first() else { return };
    let whole = &pages[..pages.len() / PAGE_BYTES as usize * PAGE_BYTES as usize];
    if whole.len() < 2 * PAGE_BYTES as usize {
        return;
    }
    let (data, heap) = whole.split_at(PAGE_BYTES as usize);
    let memory = Pages { data, heap };
    let areas = [area(HEAP, heap, "[heap]"), area(DATA, data, "/lib/libc.so.6")];
    for effort in [Effort::Exact, Effort::Survey(0)] {
        let version = (2, u32::from(minor));
        let Ok(statistics) = glibc::read(&memory, &areas, &[&areas[1]], version, effort) else {
            continue;
        };
        for block in (HEAP..HEAP + heap.len() as u64).step_by(256) {
            glibc::beside(&memory, &statistics, block);
        }
        let known = Known {
            statistics: Some(&statistics),
            extents: &[],
            blocks: &[],
            is_child: false,
            profile: None,
            is_stack: &|_| false,
            is_shmem: &|_| false,
            padding: &|_| 0,
            resident: &|_| None,
        };
        explain(&areas, &known);
    }
});

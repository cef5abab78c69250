//! Whether a thread's stack is one on which there is room, and nothing else below.

use std::fs;

/// Room that is asked for: the frame has at most 12 KiB (AMX), and what is called needs less than a signal handler.
const ROOM_BYTES: u64 = 64 << 10;
/// The first thread's stack grows by itself; only the frame must fit what is there.
const FIRST_ROOM_BYTES: u64 = 24 << 10;
/// The C library keeps `struct pthread` on top of a thread's stack, and nothing else.
const ABOVE_THREAD_POINTER_BYTES: u64 = 64 << 10;
/// Where the heaps of malloc's arenas begin, in which a program may have put a stack.
const HEAP_ALIGNMENT: u64 = 64 << 20;

/// A stack.
pub struct Stack {
    pub end: u64,
}

struct Range<'a> {
    start: u64,
    end: u64,
    permissions: &'a str,
    path: &'a str,
}

/// The stack of the thread whose stack and thread pointers these are; else why there is none that could be used.
pub fn of(pid: u32, pointer: u64, thread_pointer: u64) -> Result<Stack, String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    find(&maps, pointer, thread_pointer).ok_or_else(|| {
        "it is not on a stack with a known end (a coroutine?), or has no room there".into()
    })
}

fn find(maps: &str, pointer: u64, thread_pointer: u64) -> Option<Stack> {
    let mut previous: Option<Range> = None;
    for range in maps.lines().filter_map(parse) {
        if (range.start..range.end).contains(&pointer) {
            let is_first = range.path == "[stack]";
            let room_bytes = if is_first { FIRST_ROOM_BYTES } else { ROOM_BYTES };
            let has_room = pointer - range.start >= room_bytes;
            let is_guarded = previous
                .is_some_and(|below| below.end == range.start && below.permissions == "---p");
            let is_threads = is_guarded
                && (pointer..range.end).contains(&thread_pointer)
                && range.end - thread_pointer <= ABOVE_THREAD_POINTER_BYTES
                && !range.start.is_multiple_of(HEAP_ALIGNMENT);
            return (range.permissions == "rw-p" && has_room && (is_first || is_threads))
                .then_some(Stack { end: range.end });
        }
        previous = Some(range);
    }
    None
}

fn parse(line: &str) -> Option<Range<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    Some(Range {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions: fields.next()?,
        path: fields.nth(3).unwrap_or_default().trim_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f0010000000-7f0010001000 ---p 00000000 00:00 0
7f0010001000-7f0010801000 rw-p 00000000 00:00 0
7f0020000000-7f0020801000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn only_stacks_whose_ends_are_known_are_used() {
        let is_found = |pointer, thread| find(MAPS, pointer, thread).is_some();
        assert!(is_found(0x7ffd_0001_f000, 0x7f00_1080_0700));
        assert!(is_found(0x7f00_107f_0000, 0x7f00_1080_0700));
        // Too near to the end.
        assert!(!is_found(0x7ffd_0000_5000, 0) && !is_found(0x7f00_1000_2000, 0x7f00_1080_0700));
        // Without a guard; in an arena; another thread's; nowhere.
        assert!(!is_found(0x7f00_207f_0000, 0x7f00_2080_0700));
        assert!(!is_found(0x7f00_0001_f000, 0x7f00_0002_0700));
        assert!(!is_found(0x7f00_107f_0000, 0x7f00_2080_0700));
        assert!(!is_found(0x1000, 0));
    }
}

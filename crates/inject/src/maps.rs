//! Locates a thread by the mappings of its process: on which stack it is, and in whose code.

use crate::query::{Mapping, mapping_at};
use std::fs::File;
use std::io::{BufRead, BufReader, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Room that is asked for: the frame has at most 12 KiB (AMX), and what is called needs less than a signal handler.
const ROOM_BYTES: u64 = 64 << 10;
/// The first thread's stack grows by itself; only the frame must fit what is there.
const FIRST_ROOM_BYTES: u64 = 24 << 10;
/// The C library keeps `struct pthread` on top of a thread's stack, and nothing else.
const ABOVE_THREAD_POINTER_BYTES: u64 = 64 << 10;
/// `struct pthread` of glibc 2.34 to 2.44 is this long at least, and has its record of the stack there.
const DESCRIPTOR_BYTES: usize = 2304;
const PAGE_BYTES: u64 = 4096;
/// Read at once of /proc/PID/maps.
const READ_BYTES: usize = 64 << 10;
/// Alignment of the heaps of malloc's arenas, in bytes. A program may have put a stack in such a heap.
const HEAP_ALIGNMENT: u64 = 64 << 20;

/// Starts of the names of files in whose code no thread is borrowed: the C library, and what may be an allocator.
const FOREIGN: [&str; 9] = [
    "ld-",
    "ld.so",
    "libc.so",
    "libc-",
    "libpthread",
    "libramson",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];

/// Mappings of /proc/PID/maps at a thread's stack pointer and instruction, and the mapping below the stack.
#[derive(Default)]
pub struct Maps {
    stack: Option<Mapping>,
    below: Option<Mapping>,
    code: Option<Mapping>,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            range: number(start)?..number(end)?,
            permissions: fields.next()?.into(),
            path: fields.nth(3).unwrap_or_default().trim_start().into(),
        })
    }
}

impl Maps {
    /// Reads the mappings of process `pid`; empty if they cannot be read.
    pub fn of(pid: u32, pointer: u64, instruction: u64) -> Self {
        let Ok(maps) = File::open(format!("/proc/{pid}/maps")) else { return Self::default() };
        Self::asked(&maps, pointer, instruction).unwrap_or_else(|_| {
            Self::parse(BufReader::with_capacity(READ_BYTES, maps), pointer, instruction)
        })
    }

    /// The kernel need not tell the others: there may be very many, and the thread waits. Fails where it cannot be asked so (before Linux 6.11).
    fn asked(maps: &File, pointer: u64, instruction: u64) -> Result<Self> {
        let stack = mapping_at(maps, pointer)?;
        let below = match stack.as_ref().and_then(|stack| stack.range.start.checked_sub(1)) {
            Some(address) => mapping_at(maps, address)?,
            None => None,
        };
        Ok(Self { stack, below, code: mapping_at(maps, instruction)? })
    }

    /// A process may have very many: of each line no more is looked at than its addresses.
    fn parse(mut maps: impl BufRead, pointer: u64, instruction: u64) -> Self {
        let mut found = Self::default();
        let mut last = Vec::new();
        let mut line = Vec::new();
        while maps.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let range = range_of(text);
            let mapping = |line| Mapping::parse(&String::from_utf8_lossy(line));
            if range.contains(&pointer) {
                found.stack = mapping(text);
                found.below = mapping(&last);
            }
            if range.contains(&instruction) {
                found.code = mapping(text);
            }
            // Names in it may be any bytes, and long.
            last.clear();
            last.extend_from_slice(text);
            line.clear();
        }
        found
    }

    /// Why a thread that computes there may not be borrowed, if so: in the program's own code the call is what a signal's handler is that
    /// makes it, harmless unless it interrupts the allocator. The caller checks what the stack must not hold.
    pub fn check_code(&self) -> std::result::Result<(), String> {
        let is_own = |mapping: &Mapping| {
            let name = mapping.path.strip_prefix('/').and_then(|path| path.rsplit('/').next());
            mapping.permissions == "r-xp"
                && name.is_some_and(|name| !FOREIGN.iter().any(|start| name.starts_with(start)))
        };
        let is_own_code = self.code.as_ref().is_some_and(is_own);
        is_own_code.then_some(()).ok_or_else(|| "it runs code that is not the program's own".into())
    }

    /// The end of the stack of the thread whose stack and thread pointers these are; else why there is none that could be used.
    pub fn stack_end(
        &self,
        memory: &File,
        pointer: u64,
        thread_pointer: u64,
    ) -> std::result::Result<u64, String> {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        let is_read = memory.read_exact_at(&mut descriptor, thread_pointer).is_ok();
        let descriptor = if is_read { &descriptor[..] } else { &[] };
        self.find_stack_end(pointer, thread_pointer, descriptor).ok_or_else(|| {
            "it is not on a stack with a known end (a coroutine?), or has no room there".into()
        })
    }

    fn find_stack_end(&self, pointer: u64, thread_pointer: u64, descriptor: &[u8]) -> Option<u64> {
        let Mapping { range, permissions, path } = self.stack.as_ref()?;
        if permissions != "rw-p" {
            return None;
        }
        if path == "[stack]" {
            return (pointer - range.start >= FIRST_ROOM_BYTES).then_some(range.end);
        }
        let is_guard =
            |below: &Mapping| below.range.end == range.start && below.permissions == "---p";
        let is_guarded = !range.start.is_multiple_of(HEAP_ALIGNMENT)
            && self.below.as_ref().is_some_and(is_guard);
        let (low, end) = if is_guarded {
            (range.start, range.end)
        } else {
            recorded(descriptor, pointer, thread_pointer)?
        };
        let is_threads = range.start <= low
            && end <= range.end
            && (pointer..end).contains(&thread_pointer)
            && end - thread_pointer <= ABOVE_THREAD_POINTER_BYTES;
        (is_threads && pointer.checked_sub(low)? >= ROOM_BYTES).then_some(end)
    }
}

/// The addresses at the start of a line.
pub fn range_of(line: &[u8]) -> Range<u64> {
    let addresses = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let addresses = std::str::from_utf8(addresses).ok().and_then(|text| text.split_once('-'));
    let number = |text| u64::from_str_radix(text, 16).ok();
    addresses.and_then(|(start, end)| Some(number(start)?..number(end)?)).unwrap_or(0..0)
}

/// Returns where a thread's stack begins after its guard, and where it ends, by the C library's own record in the descriptor: start, length, and the
/// guard's part of the length. Since glibc 2.42 and Linux 6.13 no mapping tells, and stacks that touch are one mapping.
fn recorded(descriptor: &[u8], pointer: u64, thread_pointer: u64) -> Option<(u64, u64)> {
    let (words, _) = descriptor.as_chunks();
    words.windows(3).find_map(|record| {
        let [start, length, guard] = [0, 1, 2].map(|index| u64::from_le_bytes(record[index]));
        let are_pages = [start, length, guard].iter().all(|word| word.is_multiple_of(PAGE_BYTES));
        let (low, end) = (start.checked_add(guard)?, start.checked_add(length)?);
        (are_pages && guard > 0 && low < pointer && thread_pointer < end).then_some((low, end))
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
    fn stacks_need_known_ends() {
        let is_found =
            |pointer, thread| maps(MAPS, pointer, 0).find_stack_end(pointer, thread, &[]).is_some();
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

    #[test]
    fn thread_record_tells_stack_ends() {
        const MAPS: &str = "7f0000000000-7f0001000000 rw-p 00000000 00:00 0\n";
        let descriptor = |record: [u64; 3]| {
            let mut descriptor = vec![0x11; DESCRIPTOR_BYTES];
            for (place, word) in descriptor[1680..].chunks_exact_mut(8).zip(record) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            descriptor
        };
        let start = 0x7f00_0080_0000;
        let length = 0x80_0000;
        let guard = 0x1000;
        let thread = start + length - 0x940;
        let end = |record, pointer, thread| {
            maps(MAPS, pointer, 0).find_stack_end(pointer, thread, &descriptor(record))
        };
        let own = [start, length, guard];
        assert_eq!(end(own, start + 0x7f_0000, thread), Some(start + length));
        // Too near to the guard; below it, on another thread's; above it.
        assert_eq!(end(own, start + 0x2000, thread), None);
        assert_eq!(end(own, start - 0x1_0000, thread), None);
        assert_eq!(end(own, start + length + 8, thread), None);
        // A stack of the program's has no guard. One that is not mapped as such; a record that is torn.
        assert_eq!(end([start, length, 0], start + 0x7f_0000, thread), None);
        assert_eq!(end([start, 2 * length, guard], start + 0x7f_0000, thread), None);
        assert_eq!(end([start, length + 8, guard], start + 0x7f_0000, thread), None);
        // A thread with its variables elsewhere.
        assert_eq!(end(own, start + 0x7f_0000, start - 0x940), None);
        let maps = maps(MAPS, start + 0x7f_0000, 0);
        assert!(maps.find_stack_end(start + 0x7f_0000, thread, &[]).is_none());
    }

    #[test]
    fn own_code_is_no_allocator() {
        let maps = "\
1000-2000 r--p 00000000 08:01 5                          /usr/bin/program
2000-3000 r-xp 00001000 08:01 5                          /usr/bin/program
3000-4000 rwxp 00000000 00:00 0
4000-5000 r-xp 00001000 08:01 6                          /lib/libc.so.6
5000-6000 r-xp 00001000 08:01 7                          /lib/libstdc++.so.6
6000-7000 r-xp 00000000 00:00 0                          [vdso]
7000-8000 r-xp 00001000 08:01 8                          /lib/ld-linux-x86-64.so.2
";
        for (instruction, is_own) in [
            (0x1800, false),
            (0x2000, true),
            (0x3800, false),
            (0x4800, false),
            (0x5fff, true),
            (0x6800, false),
            (0x7800, false),
            (0x9000, false),
        ] {
            assert_eq!(
                super::Maps::parse(maps.as_bytes(), 0, instruction).check_code().is_ok(),
                is_own,
                "{instruction:x}"
            );
        }
    }

    #[test]
    fn kernel_query_agrees_with_text() {
        let on_stack = 0;
        let pointer = &raw const on_stack as u64;
        let instruction = Maps::of as *const () as u64;
        // A stack of a test's may be one mapping with what lies beside it, which other tests change meanwhile.
        let is_equal = || {
            let maps = || File::open("/proc/self/maps").unwrap();
            let asked = match Maps::asked(&maps(), pointer, instruction) {
                Ok(asked) => asked,
                Err(_) => return true,
            };
            let read = Maps::parse(BufReader::new(maps()), pointer, instruction);
            // The mapping below counts if it touches the stack.
            let touches = |of: &Maps| {
                of.below.clone().filter(|below| {
                    Some(below.range.end) == of.stack.as_ref().map(|stack| stack.range.start)
                })
            };
            asked.stack.is_some()
                && asked.stack == read.stack
                && asked.code == read.code
                && touches(&asked) == touches(&read)
        };
        assert!((0..1000).any(|_| is_equal()));
    }

    fn maps(text: &str, pointer: u64, instruction: u64) -> Maps {
        Maps::parse(text.as_bytes(), pointer, instruction)
    }
}

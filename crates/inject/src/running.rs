//! Whether a thread that computes may be borrowed: only where it runs the program's own code.
//!
//! To it, the call is what a signal's handler is that calls the function: harmless unless it interrupts the allocator. So the instruction
//! must lie in a file that neither is the C library nor may be an allocator. What the stack must not hold, the caller checks.

use std::fs;

/// Starts of the names of files in whose code no thread is borrowed.
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

/// Why not, if the instruction pointer is there.
pub fn check(pid: u32, instruction: u64) -> Result<(), String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    if is_own_code(&maps, instruction) {
        Ok(())
    } else {
        Err("it runs, and not the program's own code".into())
    }
}

fn is_own_code(maps: &str, instruction: u64) -> bool {
    maps.lines().any(|line| {
        let mut fields = line.splitn(6, ' ');
        let range = fields.next().and_then(|range| range.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        let is_there =
            range.is_some_and(|(start, end)| (number(start)..number(end)).contains(&instruction));
        let permissions = fields.next().unwrap_or_default();
        let path = fields.nth(3).unwrap_or_default().trim_start();
        let name = path.strip_prefix('/').and_then(|path| path.rsplit('/').next());
        let is_own = name.is_some_and(|name| !FOREIGN.iter().any(|start| name.starts_with(start)));
        is_there && permissions == "r-xp" && is_own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_that_are_no_allocator_is_the_program_s_own() {
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
            assert_eq!(is_own_code(maps, instruction), is_own, "{instruction:x}");
        }
    }
}

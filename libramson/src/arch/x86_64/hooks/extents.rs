//! Hooks on mmap, munmap and mremap. A call for a range that is no extent, and begins and ends with
//! none, goes straight to the real function.

use super::*;
use crate::extents;
use crate::process::PROFILE_RANGE;
use ramson_format::EXTENT_LEAST_BYTES;

/// To `{slow}` if the page filter says "maybe" of the first or the last page of the rsi bytes at
/// rdi, or if the profile is among them. Leaves every register that may hold an argument.
macro_rules! slow_if_known {
    () => {
        "mov r10, rdi
        lea r11, [rip + {filter}]
        shr r10, 12
        and r10d, 0xffffff
        cmp byte ptr [r11 + r10], 0
        jne {slow}
        lea r10, [rdi + rsi - 1]
        shr r10, 12
        and r10d, 0xffffff
        cmp byte ptr [r11 + r10], 0
        jne {slow}
        cmp rdi, qword ptr [rip + {profile} + 8]
        jae 2f
        lea r10, [rdi + rsi]
        cmp r10, qword ptr [rip + {profile}]
        ja {slow}
        2:"
    };
}

macro_rules! mmap_hook {
    ($module:ident, $name:literal) => {
        pub mod $module {
            use super::*;
            next!();
            instead!(slow, extents::map);

            naked!(
                #[unsafe(export_name = $name)]
                hook,
                [
                    "cmp rsi, {least}",
                    "jae {slow}",
                    // MAP_FIXED.
                    "test cl, 0x10",
                    "je 2f",
                    slow_if_known!(),
                    "jmp qword ptr [rip + {next}]",
                ],
                least = const EXTENT_LEAST_BYTES,
                slow = sym slow,
                filter = sym PAGE_FILTER,
                profile = sym PROFILE_RANGE,
                next = sym NEXT,
            );
        }
    };
}
mmap_hook!(mmap, "mmap");
mmap_hook!(mmap64, "mmap64");

pub mod munmap {
    use super::*;
    next!();
    instead!(slow, extents::unmap);

    naked!(
        #[unsafe(export_name = "munmap")]
        hook,
        [slow_if_known!(), "jmp qword ptr [rip + {next}]"],
        slow = sym slow,
        filter = sym PAGE_FILTER,
        profile = sym PROFILE_RANGE,
        next = sym NEXT,
    );
}

pub mod mremap {
    use super::*;
    next!();
    instead!(
        #[unsafe(export_name = "mremap")]
        hook,
        extents::remap
    );
}

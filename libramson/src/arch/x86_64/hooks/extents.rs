//! Hooks on mmap, munmap and mremap. What is no extent, and begins and ends with none, goes
//! straight to the real function; the slow path runs before and after it.

use super::*;
use crate::extents;
use crate::process::PROFILE_RANGE;
use crate::record::Taken;
use ramson_format::EXTENT_LEAST_BYTES;

/// Room for a `Taken` below the arguments; with these and the return address a multiple of 16, so
/// that the real function finds the stack as the program aligned it.
const TAKEN_BYTES: usize = size_of::<Taken>().next_multiple_of(16) + 8;

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

macro_rules! extent_slow {
    ($(#[$attribute:meta])* $slow:ident, $next:path, $begin:path, $end:path) => {
        #[unsafe(naked)]
        $(#[$attribute])*
        unsafe extern "C" fn $slow() {
            naked_asm!(
                ".cfi_startproc",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                "push r8",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, {bytes}",
                ".cfi_adjust_cfa_offset {bytes}",
                "mov rdi, rsp",
                "lea rsi, [rsp + {bytes}]",
                call!("{begin}"),
                "mov rdi, [rsp + {bytes}]",
                "mov rsi, [rsp + {bytes} + 8]",
                "mov rdx, [rsp + {bytes} + 16]",
                "mov rcx, [rsp + {bytes} + 24]",
                "mov r8, [rsp + {bytes} + 32]",
                "mov r9, [rsp + {bytes} + 40]",
                // mremap takes a variable number of arguments: none of them in vector registers.
                "xor eax, eax",
                "call qword ptr [rip + {next}]",
                "mov rdi, rax",
                "mov rsi, rsp",
                "lea rdx, [rsp + {bytes}]",
                "lea rcx, [rsp + {bytes} + 48]",
                "mov r8, rbp",
                call!("{end}"),
                "add rsp, {bytes} + 48",
                ".cfi_adjust_cfa_offset -48 - {bytes}",
                "ret",
                ".cfi_endproc",
                bytes = const TAKEN_BYTES,
                begin = sym $begin,
                end = sym $end,
                next = sym $next,
            )
        }
    };
}

macro_rules! mmap_hook {
    ($module:ident, $name:literal) => {
        pub mod $module {
            use super::*;
            pub static NEXT: Target = Target::new(stub);
            unresolved!(stub, NEXT);
            extent_slow!(slow, NEXT, extents::map_begin, extents::map_end);

            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn hook() {
                naked_asm!(
                    ".cfi_startproc",
                    "cmp rsi, {least}",
                    "jae {slow}",
                    // MAP_FIXED.
                    "test cl, 0x10",
                    "je 2f",
                    slow_if_known!(),
                    "jmp qword ptr [rip + {next}]",
                    ".cfi_endproc",
                    least = const EXTENT_LEAST_BYTES,
                    slow = sym slow,
                    filter = sym PAGE_FILTER,
                    profile = sym PROFILE_RANGE,
                    next = sym NEXT,
                )
            }
        }
    };
}
mmap_hook!(mmap, "mmap");
mmap_hook!(mmap64, "mmap64");

pub mod munmap {
    use super::*;
    pub static NEXT: Target = Target::new(stub);
    unresolved!(stub, NEXT);
    extent_slow!(slow, NEXT, extents::unmap_begin, extents::unmap_end);

    #[unsafe(naked)]
    #[unsafe(export_name = "munmap")]
    unsafe extern "C" fn hook() {
        naked_asm!(
            ".cfi_startproc",
            slow_if_known!(),
            "jmp qword ptr [rip + {next}]",
            ".cfi_endproc",
            slow = sym slow,
            filter = sym PAGE_FILTER,
            profile = sym PROFILE_RANGE,
            next = sym NEXT,
        )
    }
}

pub mod mremap {
    use super::*;
    pub static NEXT: Target = Target::new(stub);
    unresolved!(stub, NEXT);
    extent_slow!(
        #[unsafe(export_name = "mremap")]
        hook,
        NEXT,
        extents::remap_begin,
        extents::remap_end
    );
}

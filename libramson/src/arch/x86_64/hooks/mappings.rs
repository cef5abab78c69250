//! Hooks on mmap, munmap and mremap. Each goes through the slow path, twice: before and after the real function.

use super::*;
use crate::mappings::{self, Call};

/// Room for a `Call` below the arguments; with these and the return address a multiple of 16, so that the real function finds the stack as the
/// program aligned it.
const CALL_BYTES: usize = size_of::<Call>().next_multiple_of(16) + 8;

macro_rules! mapping {
    ($module:ident, $name:literal, $begin:path, $end:path) => {
        pub mod $module {
            use super::*;
            pub static NEXT: Target = Target::new(stub);
            unresolved!(stub, NEXT);

            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn hook() {
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
                    bytes = const CALL_BYTES,
                    begin = sym $begin,
                    end = sym $end,
                    next = sym NEXT,
                )
            }
        }
    };
}

mapping!(mmap, "mmap", mappings::map_begin, mappings::map_end);
mapping!(mmap64, "mmap64", mappings::map_begin, mappings::map_end);
mapping!(munmap, "munmap", mappings::unmap_begin, mappings::unmap_end);
mapping!(mremap, "mremap", mappings::remap_begin, mappings::remap_end);

//! The pieces that hooks are made of: stubs, fast paths, slow paths.
//!
//! Unwind tables are right at every single instruction: a signal handler may unwind from there (a cancellation, a CPU profiler).

/// Keeps every register that a call may pass an argument in.
macro_rules! push_arguments {
    () => {
        "push rax
        .cfi_adjust_cfa_offset 8
        push rdi
        .cfi_adjust_cfa_offset 8
        push rsi
        .cfi_adjust_cfa_offset 8
        push rdx
        .cfi_adjust_cfa_offset 8
        push rcx
        .cfi_adjust_cfa_offset 8
        push r8
        .cfi_adjust_cfa_offset 8
        push r9
        .cfi_adjust_cfa_offset 8"
    };
}

/// Undoes `push_arguments`.
macro_rules! pop_arguments {
    () => {
        "pop r9
        .cfi_adjust_cfa_offset -8
        pop r8
        .cfi_adjust_cfa_offset -8
        pop rcx
        .cfi_adjust_cfa_offset -8
        pop rdx
        .cfi_adjust_cfa_offset -8
        pop rsi
        .cfi_adjust_cfa_offset -8
        pop rdi
        .cfi_adjust_cfa_offset -8
        pop rax
        .cfi_adjust_cfa_offset -8"
    };
}

/// Calls `$function` in the floating-point environment that a process starts with: all exceptions masked, none raised, rounding to
/// nearest. The program's own is put back: it sees no exception of ours, and none of ours is a signal where it unmasked them.
/// The stack is aligned for the call, as the program need not have aligned it for a function of the C library that does not mind.
macro_rules! call {
    ($function:literal) => {
        concat!(
            "push rbx
            .cfi_adjust_cfa_offset 8
            .cfi_rel_offset rbx, 0
            mov rbx, rsp
            .cfi_def_cfa_register rbx
            sub rsp, 8
            and rsp, -16
            stmxcsr [rsp]
            mov dword ptr [rsp + 4], 0x1f80
            ldmxcsr [rsp + 4]
            call ",
            $function,
            "
            ldmxcsr [rsp]
            mov rsp, rbx
            .cfi_def_cfa_register rsp
            pop rbx
            .cfi_adjust_cfa_offset -8
            .cfi_restore rbx"
        )
    };
}

/// `$stub`: the first call finds all real functions, then goes on where `$target` then leads.
macro_rules! unresolved {
    ($stub:ident, $target:ident) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $stub() {
            naked_asm!(
                ".cfi_startproc",
                push_arguments!(),
                call!("{bind}"),
                pop_arguments!(),
                "jmp qword ptr [rip + {target}]",
                ".cfi_endproc",
                bind = sym hooks::bind_all,
                target = sym $target,
            )
        }
    };
}

/// The slow path of an allocation of `$size` bytes (a register): decide, call the real function, record. What is pushed is with the return
/// address a multiple of 16, so that the real function finds the stack as the program aligned it.
macro_rules! allocation_slow {
    ($slow:ident, $next:ident, $size:literal, $record:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $slow() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                concat!("push ", $size),
                ".cfi_adjust_cfa_offset 8",
                concat!("push ", $size),
                ".cfi_adjust_cfa_offset 8",
                concat!("mov rdi, ", $size),
                "lea rsi, [rsp + 40]",
                call!("{rearm}"),
                "mov rdi, [rsp + 32]",
                "mov rsi, [rsp + 24]",
                "mov rdx, [rsp + 16]",
                "test rax, rax",
                "jz 2f",
                "mov [rsp], rax",
                "call qword ptr [rip + {next}]",
                "mov rdi, rax",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp]",
                "lea rcx, [rsp + 40]",
                "mov r8, rbp",
                "mov r9, [rsp + 32]",
                call!("{record}"),
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_adjust_cfa_offset 40",
                "2:",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                rearm = sym hooks::rearm,
                record = sym $record,
                next = sym $next,
            )
        }
    };
}

/// The fast path of an allocation of `$size` bytes (a register).
macro_rules! allocation_fast {
    ($(#[$attribute:meta])* $name:ident, $slow:path, $next:path, $size:literal) => {
        #[unsafe(naked)]
        $(#[$attribute])*
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
                concat!("sub qword ptr fs:[rax], ", $size),
                "jb {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// The fast path of a deallocation of the pointer in rdi.
macro_rules! deallocation_fast {
    ($(#[$attribute:meta])* $name:ident, $slow:path, $next:path) => {
        #[unsafe(naked)]
        $(#[$attribute])*
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, rdi",
                "lea rcx, [rip + {filter}]",
                "shr rax, 12",
                "and eax, 0xffffff",
                "cmp byte ptr [rcx + rax], 0",
                "jne {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                filter = sym PAGE_FILTER,
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// The slow path of a deallocation: take the record out, then let the real function free.
macro_rules! deallocation_slow {
    ($slow:ident, $next:ident) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $slow() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "lea rsi, [rsp + 24]",
                "mov rdx, rbp",
                call!("{forget}"),
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                forget = sym hooks::forget,
                next = sym $next,
            )
        }
    };
}

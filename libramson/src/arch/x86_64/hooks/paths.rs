//! The pieces that hooks are made of: stubs, fast paths, slow paths.
//!
//! Unwind tables are right at every single instruction: a signal handler may unwind from there (a cancellation, a CPU profiler).

/// A function of these instructions, with unwind tables.
macro_rules! naked {
    ($(#[$attribute:meta])* $name:ident, [$($instructions:expr),+ $(,)?], $($operands:tt)*) => {
        #[unsafe(naked)]
        $(#[$attribute])*
        unsafe extern "C" fn $name() {
            naked_asm!(".cfi_startproc", $($instructions,)+ ".cfi_endproc", $($operands)*)
        }
    };
}

macro_rules! push {
    ($($register:literal),+) => {
        concat!($("push ", $register, "\n.cfi_adjust_cfa_offset 8\n"),+)
    };
}

macro_rules! pop {
    ($($register:literal),+) => {
        concat!($("pop ", $register, "\n.cfi_adjust_cfa_offset -8\n"),+)
    };
}

/// Keeps every register that a call may pass an argument in.
macro_rules! push_arguments {
    () => {
        push!("rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9")
    };
}

/// Undoes `push_arguments`.
macro_rules! pop_arguments {
    () => {
        pop!("r9", "r8", "rcx", "rdx", "rsi", "rdi", "rax")
    };
}

/// Calls `$function` with the stack aligned, as the program need not have aligned it for a function of the C library that does not mind.
/// `$before` and `$after` stand around the call; 8 bytes at rsp are theirs.
macro_rules! call_aligned {
    ($function:literal, $before:expr, $after:expr) => {
        concat!(
            "push rbp
            .cfi_adjust_cfa_offset 8
            .cfi_rel_offset rbp, 0
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            sub rsp, 8
            and rsp, -16
            ",
            $before,
            "call ",
            $function,
            "
            ",
            $after,
            "mov rsp, rbp
            .cfi_def_cfa_register rsp
            pop rbp
            .cfi_adjust_cfa_offset -8
            .cfi_restore rbp"
        )
    };
    ($function:literal) => {
        call_aligned!($function, "", "")
    };
}

/// Calls `$function` with all floating-point exceptions masked, rounding to nearest, and puts the program's environment back: it sees no
/// exception of ours, and none of ours is a signal where it unmasked them. Exceptions that the program has raised already stay as they are:
/// loading another value is what some processors take long for.
macro_rules! call {
    ($function:literal) => {
        call_aligned!(
            $function,
            "stmxcsr [rsp]
            mov r11d, [rsp]
            and r11d, 0xffffffc0
            cmp r11d, 0x1f80
            je 8f
            mov dword ptr [rsp + 4], 0x1f80
            ldmxcsr [rsp + 4]
            8:
            ",
            "ldmxcsr [rsp]
            "
        )
    };
}

/// Calls `$function`, then goes on as if nothing had been: every argument of the hook is where it was.
macro_rules! call_between {
    ($function:literal) => {
        concat!(push_arguments!(), call!($function), "\n", pop_arguments!())
    };
}

/// `NEXT`, where the real function is. The first call finds all real functions.
macro_rules! next {
    () => {
        pub static NEXT: Target = Target::new(stub);
        unresolved!(stub, NEXT);
    };
}

/// `$stub`: finds all real functions, then goes on where `$target` then leads.
macro_rules! unresolved {
    ($stub:ident, $target:ident) => {
        naked!(
            $stub,
            [call_between!("{bind}"), "jmp qword ptr [rip + {target}]"],
            bind = sym hooks::bind_all,
            target = sym $target,
        );
    };
}

/// The slow path of an allocation of `$size` bytes (a register): decide, call the real function, record. The bytes that are pushed and the
/// return address are together a multiple of 16, so that the real function finds the stack as the program aligned it.
macro_rules! allocation_slow {
    ($slow:ident, $size:literal, $record:path) => {
        naked!(
            $slow,
            [
                push!("rdi", "rsi", "rdx", $size, $size),
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
            ],
            rearm = sym hooks::rearm,
            record = sym $record,
            next = sym NEXT,
        );
    };
}

/// The fast path of an allocation of `$size` bytes (a register).
macro_rules! allocation_fast {
    ($(#[$attribute:meta])* $name:ident, $size:literal) => {
        naked!(
            $(#[$attribute])*
            $name,
            [
                "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
                concat!("sub qword ptr fs:[rax], ", $size),
                "jb {slow}",
                "jmp qword ptr [rip + {next}]",
            ],
            slow = sym slow,
            next = sym NEXT,
        );
    };
}

/// To `{slow}` if the page filter says "maybe" of the page of the pointer in rdi, by way of two registers.
macro_rules! slow_if_on_known_page {
    ($slow:literal) => {
        concat!(
            "mov rax, rdi
            lea rcx, [rip + {filter}]
            shr rax, 12
            and eax, 0xffffff
            cmp byte ptr [rcx + rax], 0
            jne ",
            $slow
        )
    };
}

/// The fast path of a deallocation of the pointer in rdi.
macro_rules! deallocation_fast {
    ($(#[$attribute:meta])* $name:ident) => {
        naked!(
            $(#[$attribute])*
            $name,
            [slow_if_on_known_page!("{slow}"), "jmp qword ptr [rip + {next}]"],
            filter = sym PAGE_FILTER,
            slow = sym slow,
            next = sym NEXT,
        );
    };
}

/// The slow path of a deallocation: take the record out, then let the real function free. Most blocks on a page with a sample are none
/// themselves, and to find that out takes no float.
macro_rules! deallocation_slow {
    ($slow:ident) => {
        naked!(
            $slow,
            [
                push!("rdi", "rsi", "rdx"),
                call_aligned!("{claim}"),
                "test rax, rax",
                "jz 2f",
                "mov rdi, rax",
                "mov rsi, [rsp + 16]",
                "lea rdx, [rsp + 24]",
                "mov rcx, rbp",
                call!("{complete}"),
                "2:",
                pop!("rdx", "rsi", "rdi"),
                "jmp qword ptr [rip + {next}]",
            ],
            claim = sym hooks::claim,
            complete = sym hooks::complete_free,
            next = sym NEXT,
        );
    };
}

/// A slow path that calls the real function itself: `$instead` is given a `Call`.
macro_rules! instead {
    ($(#[$attribute:meta])* $name:ident, $instead:path) => {
        naked!(
            $(#[$attribute])*
            $name,
            [
                push!("rbp", "r9", "r8", "rcx", "rdx", "rsi", "rdi", "qword ptr [rip + {next}]"),
                "mov rdi, rsp",
                call!("{instead}"),
                "add rsp, 64",
                ".cfi_adjust_cfa_offset -64",
                "ret",
            ],
            instead = sym $instead,
            next = sym NEXT,
        );
    };
}

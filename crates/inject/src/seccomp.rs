//! Whether a thread's filters of system calls let through all that a call of the allocator's function may make, and the way back.
//!
//! A filter is a program of classic BPF over `struct seccomp_data` (linux/seccomp.h). It is run here with what is not known of a system
//! call left open: where that decides, both ways are followed. Only what each way allows is allowed.

use crate::Purpose;
use crate::trace::Traced;
use libc::sock_filter;
use std::fs;
use std::io::Result;

/// Filters of one thread.
const MOST_FILTERS: usize = 256;
/// Instructions that are followed for one system call, in all filters' ways.
const MOST_STEPS: u32 = 1 << 18;
/// CAP_SYS_ADMIN, which the kernel asks for.
const ADMINISTRATOR: u64 = 1 << 21;

const ARCHITECTURE: u32 = 0xc000_003e;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ACTION: u32 = 0xffff_0000;
/// Bytes of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;

/// A system call. An argument that is not known is `None`.
#[derive(Clone, Copy)]
struct SystemCall {
    name: &'static str,
    number: i64,
    arguments: [Option<u64>; 6],
}

const fn call(name: &'static str, number: i64) -> SystemCall {
    SystemCall { name, number, arguments: [None; 6] }
}

const fn with(of: SystemCall, index: usize, argument: i32) -> SystemCall {
    let mut arguments = of.arguments;
    arguments[index] = Some(argument as u64);
    SystemCall { arguments, ..of }
}

const MADVISE: SystemCall = call("madvise", libc::SYS_madvise);
const MMAP: SystemCall = call("mmap", libc::SYS_mmap);
const MPROTECT: SystemCall = call("mprotect", libc::SYS_mprotect);
const FUTEX: SystemCall = call("futex", libc::SYS_futex);
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// System calls of an allocator that returns memory or tells its figures, then those of raise(3) and of the return from a signal's handler. glibc's
/// malloc_trim makes the first four alone; jemalloc and tcmalloc may make the others, too.
const CALLED: [SystemCall; 18] = [
    with(MADVISE, 2, libc::MADV_DONTNEED),
    call("brk", libc::SYS_brk),
    with(FUTEX, 1, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG),
    with(FUTEX, 1, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG),
    with(MADVISE, 2, libc::MADV_FREE),
    call("munmap", libc::SYS_munmap),
    with(MMAP, 2, READ_WRITE),
    with(MMAP, 2, libc::PROT_NONE),
    with(MPROTECT, 2, READ_WRITE),
    with(MPROTECT, 2, libc::PROT_NONE),
    call("sched_yield", libc::SYS_sched_yield),
    call("nanosleep", libc::SYS_nanosleep),
    call("clock_gettime", libc::SYS_clock_gettime),
    call("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    call("getpid", libc::SYS_getpid),
    call("gettid", libc::SYS_gettid),
    call("tgkill", libc::SYS_tgkill),
    call("rt_sigreturn", libc::SYS_rt_sigreturn),
];
/// Further system calls of a library that is loaded into the program, and then records (libramson's `arch::nr`, and dlopen's).
const LIBRARY: [SystemCall; 33] = [
    call("memfd_create", libc::SYS_memfd_create),
    call("openat", libc::SYS_openat),
    call("read", libc::SYS_read),
    call("pread64", libc::SYS_pread64),
    call("close", libc::SYS_close),
    call("fstat", libc::SYS_fstat),
    call("newfstatat", libc::SYS_newfstatat),
    MMAP,
    MPROTECT,
    MADVISE,
    FUTEX,
    call("mremap", libc::SYS_mremap),
    call("munlock", libc::SYS_munlock),
    call("setitimer", libc::SYS_setitimer),
    call("flock", libc::SYS_flock),
    call("ftruncate", libc::SYS_ftruncate),
    call("fallocate", libc::SYS_fallocate),
    call("unlink", libc::SYS_unlink),
    call("unlinkat", libc::SYS_unlinkat),
    call("mkdirat", libc::SYS_mkdirat),
    call("readlink", libc::SYS_readlink),
    call("getuid", libc::SYS_getuid),
    call("sigaltstack", libc::SYS_sigaltstack),
    call("prctl", libc::SYS_prctl),
    call("prlimit64", libc::SYS_prlimit64),
    call("process_vm_readv", libc::SYS_process_vm_readv),
    call("getpid", libc::SYS_getpid),
    call("gettid", libc::SYS_gettid),
    call("brk", libc::SYS_brk),
    call("munmap", libc::SYS_munmap),
    call("nanosleep", libc::SYS_nanosleep),
    call("clock_gettime", libc::SYS_clock_gettime),
    call("rt_sigprocmask", libc::SYS_rt_sigprocmask),
];
const RESTART: SystemCall = call("restart_syscall", libc::SYS_restart_syscall);

/// All filters of a thread, each of which a system call must pass.
pub struct Filters(Vec<Vec<sock_filter>>);

impl Filters {
    /// Reads the filters of a thread that is stopped.
    pub fn of(traced: &Traced) -> Result<Self> {
        let mut filters = Vec::new();
        while let Some(filter) = traced.seccomp_filter(filters.len())? {
            filters.push(filter);
            if filters.len() > MOST_FILTERS {
                return Err(std::io::Error::other("there are too many"));
            }
        }
        Ok(Self(filters))
    }

    /// The first system call that they may not let through; `None` if they let all of them.
    pub fn first_refused(&self, purpose: Purpose) -> Option<&'static str> {
        let besides = if purpose == Purpose::Library { &LIBRARY[..] } else { &[] };
        CALLED.iter().chain(besides).find(|of| !self.allow(of)).map(|of| of.name)
    }

    /// Whether the kernel may begin a wait again by a system call of its own.
    pub fn allow_restart(&self) -> bool {
        self.allow(&RESTART)
    }

    fn allow(&self, of: &SystemCall) -> bool {
        self.0.iter().all(|filter| allows(filter, of))
    }
}

/// Whether the kernel lets this process read filters: it has all rights, and no filter itself.
pub fn may_be_read() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name| crate::threads::field(&status, name);
    let rights = field("CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
    rights.is_some_and(|set| set & ADMINISTRATOR != 0)
        && field("Seccomp").is_none_or(|mode| mode == "0")
}

/// One way through a filter.
#[derive(Clone)]
struct Way {
    at: usize,
    a: Option<u32>,
    x: Option<u32>,
    memory: [Option<u32>; 16],
}

/// The step after an instruction.
enum Next {
    On(Way),
    Either(Way, Way),
    Returns(Option<u32>),
}

fn allows(filter: &[sock_filter], of: &SystemCall) -> bool {
    let mut ways = vec![Way { at: 0, a: Some(0), x: Some(0), memory: [None; 16] }];
    let mut steps = 0;
    while let Some(way) = ways.pop() {
        steps += 1;
        let Some(instruction) = filter.get(way.at).filter(|_| steps <= MOST_STEPS) else {
            return false;
        };
        match step(*instruction, way, of) {
            Some(Next::On(next)) => ways.push(next),
            Some(Next::Either(one, other)) => ways.extend([one, other]),
            Some(Next::Returns(Some(value))) if [ALLOW, LOG].contains(&(value & ACTION)) => {}
            _ => return false,
        }
    }
    true
}

/// `None` if the instruction is not one that filters have.
fn step(instruction: sock_filter, mut way: Way, of: &SystemCall) -> Option<Next> {
    let code = u32::from(instruction.code);
    let k = instruction.k;
    let operand = if code & libc::BPF_X == 0 { Some(k) } else { way.x };
    way.at += 1;
    match code & 7 {
        libc::BPF_LD => way.a = loaded(code, k, &way, of)?,
        libc::BPF_LDX => way.x = loaded(code, k, &way, of)?,
        libc::BPF_ST => *way.memory.get_mut(k as usize)? = way.a,
        libc::BPF_STX => *way.memory.get_mut(k as usize)? = way.x,
        libc::BPF_ALU => way.a = computed(code & 0xf0, way.a, operand)?,
        libc::BPF_JMP => return jump(instruction, way, operand),
        libc::BPF_RET => {
            let is_a = code & 0x18 == libc::BPF_A;
            return Some(Next::Returns(if is_a { way.a } else { Some(k) }));
        }
        libc::BPF_MISC if code & 0xf8 == libc::BPF_TXA => way.a = way.x,
        libc::BPF_MISC => way.x = way.a,
        _ => return None,
    }
    Some(Next::On(way))
}

fn loaded(code: u32, k: u32, way: &Way, of: &SystemCall) -> Option<Option<u32>> {
    match code & 0xe0 {
        libc::BPF_IMM => Some(Some(k)),
        libc::BPF_LEN => Some(Some(DATA_BYTES)),
        libc::BPF_MEM => way.memory.get(k as usize).copied(),
        libc::BPF_ABS => of.word(k),
        _ => None,
    }
}

impl SystemCall {
    /// A word of `struct seccomp_data`: number, architecture, instruction pointer, arguments.
    fn word(&self, offset: u32) -> Option<Option<u32>> {
        match offset {
            0 => Some(Some(self.number as u32)),
            4 => Some(Some(ARCHITECTURE)),
            8 | 12 => Some(None),
            16..DATA_BYTES if offset.is_multiple_of(4) => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                Some(argument.map(|of| (of >> (offset % 8 * 8)) as u32))
            }
            _ => None,
        }
    }
}

fn computed(operation: u32, a: Option<u32>, operand: Option<u32>) -> Option<Option<u32>> {
    let Some((a, b)) = a.zip(operand) else { return Some(None) };
    let value = match operation {
        libc::BPF_ADD => a.wrapping_add(b),
        libc::BPF_SUB => a.wrapping_sub(b),
        libc::BPF_MUL => a.wrapping_mul(b),
        libc::BPF_DIV => a.checked_div(b)?,
        libc::BPF_OR => a | b,
        libc::BPF_AND => a & b,
        libc::BPF_XOR => a ^ b,
        libc::BPF_LSH => a.checked_shl(b)?,
        libc::BPF_RSH => a.checked_shr(b)?,
        libc::BPF_NEG => a.wrapping_neg(),
        _ => return None,
    };
    Some(Some(value))
}

fn jump(instruction: sock_filter, mut way: Way, operand: Option<u32>) -> Option<Next> {
    let operation = u32::from(instruction.code) & 0xf0;
    if operation == libc::BPF_JA {
        way.at = way.at.checked_add(instruction.k as usize)?;
        return Some(Next::On(way));
    }
    let is_so = match (operation, way.a.zip(operand)) {
        (libc::BPF_JEQ | libc::BPF_JGT | libc::BPF_JGE | libc::BPF_JSET, None) => None,
        (libc::BPF_JEQ, Some((a, b))) => Some(a == b),
        (libc::BPF_JGT, Some((a, b))) => Some(a > b),
        (libc::BPF_JGE, Some((a, b))) => Some(a >= b),
        (libc::BPF_JSET, Some((a, b))) => Some(a & b != 0),
        _ => return None,
    };
    let to = |of: u8| Way { at: way.at + usize::from(of), ..way.clone() };
    Some(match is_so {
        Some(true) => Next::On(to(instruction.jt)),
        Some(false) => Next::On(to(instruction.jf)),
        None => Next::Either(to(instruction.jt), to(instruction.jf)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{
        BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    };

    const KILL: u32 = 0x8000_0000;

    fn load(offset: u32) -> sock_filter {
        sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
    }

    fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
        sock_filter { code: (BPF_JMP | code | BPF_K) as u16, jt, jf, k }
    }

    fn returns(k: u32) -> sock_filter {
        sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k }
    }

    /// Lets these through, and kills for any other.
    fn only(numbers: impl IntoIterator<Item = i64>) -> Vec<sock_filter> {
        let mut filter = vec![load(0)];
        for number in numbers {
            filter.extend([jump(BPF_JEQ, number as u32, 0, 1), returns(ALLOW)]);
        }
        filter.push(returns(KILL));
        filter
    }

    #[test]
    fn every_filter_must_allow_all_calls() {
        let called = || CALLED.iter().map(|of| of.number);
        let open = Filters(vec![only(called())]);
        assert_eq!(open.first_refused(Purpose::Allocator), None);
        assert!(!open.allow_restart());
        for missing in called() {
            let tight =
                Filters(vec![only(called().filter(|&of| of != missing)), vec![returns(ALLOW)]]);
            let name = CALLED.iter().find(|of| of.number == missing).map(|of| of.name);
            assert_eq!(tight.first_refused(Purpose::Allocator), name);
        }
        assert_eq!(Filters(Vec::new()).first_refused(Purpose::Allocator), None);
        for action in [0, 0x3_0000, 0x5_0001, 0x7ff0_0000, 0x7fc0_0000, KILL] {
            assert!(
                Filters(vec![vec![returns(action)]]).first_refused(Purpose::Allocator).is_some(),
                "{action:x}"
            );
        }
        assert!(Filters(vec![vec![returns(LOG)]]).first_refused(Purpose::Allocator).is_none());
    }

    #[test]
    fn unknown_argument_refuses() {
        // Kills for advice 4 (MADV_DONTNEED) in the low word of the third argument, as for any address from 4 GiB on.
        let by_advice =
            |advice| vec![load(32), jump(BPF_JEQ, advice, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!allows(&by_advice(4), &CALLED[0]) && allows(&by_advice(14), &CALLED[0]));
        let by_address = [load(20), jump(BPF_JGE, 1, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!allows(&by_address, &CALLED[0]));
        let mask = sock_filter { code: (BPF_ALU | BPF_AND | BPF_K) as u16, jt: 0, jf: 0, k: 4 };
        let writable = [load(32), mask, jump(BPF_JEQ, 0, 0, 1), returns(ALLOW), returns(KILL)];
        assert!(allows(&writable, &with(MPROTECT, 2, READ_WRITE)));
        assert!(!allows(&writable, &MPROTECT));
    }

    #[test]
    fn invalid_filters_are_refused() {
        let by_architecture =
            [load(4), jump(BPF_JEQ, ARCHITECTURE, 1, 0), returns(KILL), returns(ALLOW)];
        assert!(allows(&by_architecture, &CALLED[0]));
        assert!(!allows(&[], &CALLED[0]));
        assert!(!allows(&[load(2), returns(ALLOW)], &CALLED[0]));
        assert!(!allows(&[jump(BPF_JEQ, 0, 9, 9), returns(ALLOW)], &CALLED[0]));
        // 2 to the power of 60 ways.
        let mut endless: Vec<_> = (0..60).flat_map(|_| [load(8), jump(BPF_JEQ, 1, 0, 0)]).collect();
        endless.push(returns(ALLOW));
        assert!(!allows(&endless, &CALLED[0]));
    }
}

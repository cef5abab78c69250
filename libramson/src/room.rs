//! How much address space and memory ramson may take where the program's limits leave little: what it takes is missing to the program.
//!
//! Read from files, which may be read where the questions themselves may not be asked.

use crate::sys::{Status, numbers_in};

/// Part of what is left that the profile takes at most.
const SHARE: u64 = 8;
const ROOT: u64 = 0;

/// Bytes that may be mapped for a profile.
#[cold]
pub fn for_profile(wanted_bytes: u64, status: Option<&Status>) -> u64 {
    let Some((limits, status)) = Limits::read().zip(status) else { return wanted_bytes };
    wanted_bytes.min(left(&limits, status) / SHARE)
}

/// Soft limits; `u64::MAX` is none.
#[derive(Debug, PartialEq)]
struct Limits {
    address_space: u64,
    data: u64,
    locked: u64,
}

fn left(limits: &Limits, usage: &Status) -> u64 {
    let address_space = limits.address_space.saturating_sub(usage.address_space);
    let data = limits.data.saturating_sub(usage.data);
    // The limit is not for root.
    let is_locking = usage.locked > 0 && usage.user != ROOT;
    let locked = if is_locking { limits.locked.saturating_sub(usage.locked) } else { u64::MAX };
    address_space.min(data).min(locked)
}

impl Limits {
    fn read() -> Option<Self> {
        let names: [&[u8]; _] = [b"Max address space", b"Max data size", b"Max locked memory"];
        // "unlimited" is no number.
        let [address_space, data, locked] =
            numbers_in(c"/proc/self/limits", names)?.map(|limit| limit.unwrap_or(u64::MAX));
        Some(Self { address_space, data, locked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Limits = Limits { address_space: u64::MAX, data: u64::MAX, locked: u64::MAX };
    const USAGE: Status = Status {
        address_space: 100 << 20,
        data: 10 << 20,
        locked: 0,
        user: 1000,
        threads: 1,
        seccomp: None,
        filters: None,
    };

    #[test]
    fn tightest_limit_tells_room() {
        assert!(left(&NONE, &USAGE) > 1 << 60);
        assert_eq!(left(&Limits { address_space: 108 << 20, ..NONE }, &USAGE), 8 << 20);
        assert_eq!(
            left(&Limits { data: 13 << 20, address_space: 108 << 20, ..NONE }, &USAGE),
            3 << 20
        );
        assert_eq!(left(&Limits { address_space: 1 << 20, ..NONE }, &USAGE), 0);
    }

    #[test]
    fn locked_limit_counts_for_lockers() {
        let limits = Limits { locked: 9 << 20, ..NONE };
        let locking = Status { locked: 1 << 20, ..USAGE };
        assert_eq!(left(&limits, &locking), 8 << 20);
        assert!(left(&limits, &USAGE) > 1 << 60);
        assert!(left(&limits, &Status { user: ROOT, ..locking }) > 1 << 60);
    }

    #[test]
    fn the_kernel_s_limits_are_understood() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: fills the structure.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
        assert_eq!(Limits::read().unwrap().locked, limit.rlim_cur);
    }
}

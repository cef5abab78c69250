//! Facts that the kernel tells of this process in one file, of which each reading takes 20 µs.

use super::proc_lines::numbers_in;

/// Fields of /proc/self/status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    pub address_space: u64,
    pub data: u64,
    /// 0 unless the program locks its memory; then what is mapped next is most likely locked, too.
    pub locked: u64,
    pub user: u64,
    pub threads: u64,
    /// The mode of seccomp, and since Linux 5.9 the number of filters.
    pub seccomp: Option<u64>,
    pub filters: Option<u64>,
}

impl Status {
    /// `None`: the file is not there.
    #[cold]
    pub fn read() -> Option<Self> {
        let names: [&[u8]; _] = [
            b"VmSize:",
            b"VmData:",
            b"VmLck:",
            b"Uid:",
            b"Threads:",
            b"Seccomp:",
            b"Seccomp_filters:",
        ];
        let [address_space, data, locked, user, threads, seccomp, filters] =
            numbers_in(c"/proc/self/status", names)?;
        let bytes = |kib: Option<u64>| kib.unwrap_or_default() << 10;
        Some(Self {
            address_space: bytes(address_space),
            data: bytes(data),
            locked: bytes(locked),
            user: user.unwrap_or_default(),
            threads: threads.unwrap_or_default(),
            seccomp,
            filters,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_status_is_read_whole() {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
        };
        let status = Status::read().unwrap();
        assert!(status.address_space > status.data && status.data > 0, "{status:?}");
        assert!(status.seccomp.is_some());
        assert_eq!(
            (status.seccomp, status.filters),
            (field("Seccomp:"), field("Seccomp_filters:"))
        );
    }
}

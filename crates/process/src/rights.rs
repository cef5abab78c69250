//! Next steps if the kernel does not let ramson look at a process.

use crate::stat;
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Who may. Root may everything outside of containers only.
pub fn next_step(pid: u32) -> String {
    let owner = fs::metadata(format!("/proc/{pid}")).map_or(0, |facts| facts.uid());
    match getuid() {
        own if own.is_root() => "Run ramson with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE), or outside of the container".into(),
        own if own.as_raw() == owner => "Run it with sudo".into(),
        _ => format!("Run it as user {owner} or with sudo"),
    }
}

/// Whether this process has all rights, as root outside of containers.
pub fn is_administrator() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = stat::line(&status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
    rights.is_some_and(|set| set & CAP_SYS_ADMIN != 0)
}

/// Yama's setting, for messages; empty where it forbids nothing.
pub fn scope() -> String {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" => String::new(),
        scope => format!(" (kernel.yama.ptrace_scope is {scope})"),
    }
}

//! Seccomp filters: whether one was inherited, and which calls of the program's install one.

use super::permit;
use super::proc_lines::numbers_in;

/// Looks for an inherited filter. `tried_filters` is the number of filters that ramson has been tried under.
#[cold]
pub fn look_for_filters(tried_filters: Option<u64>) {
    let is_free = seccomp()
        .is_some_and(|(mode, filters)| mode == 0 || filters.is_some() && filters == tried_filters);
    permit::grant(is_free);
}

/// The mode, and since Linux 5.9 the number of filters. `None`: the file is not there or says nothing; then there may be one.
fn seccomp() -> Option<(u64, Option<u64>)> {
    let [mode, filters] = numbers_in(c"/proc/self/status", [b"Seccomp:", b"Seccomp_filters:"])?;
    Some((mode?, filters))
}

const PR_SET_SECCOMP: u64 = 22;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const DISPATCH_OFF: u64 = 0;
const MODE_STRICT: u64 = 1;
const MODE_FILTER: u64 = 2;
const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;

/// prctl(2) is about to be called.
pub fn prctl_confines(option: u64, mode: u64, filter: u64) -> bool {
    match option as u32 as u64 {
        // Without a filter it is the usual question whether the kernel knows filters at all.
        PR_SET_SECCOMP => mode == MODE_STRICT || mode == MODE_FILTER && filter != 0,
        PR_SET_SYSCALL_USER_DISPATCH => mode != DISPATCH_OFF,
        _ => false,
    }
}

/// seccomp(2) is about to be called.
pub fn seccomp_confines(operation: u64, filter: u64) -> bool {
    match operation as u32 {
        SET_MODE_STRICT => true,
        SET_MODE_FILTER => filter != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installs_a_filter_is_told_from_what_asks_about_them() {
        assert!(prctl_confines(22, 1, 0) && prctl_confines(22, 2, 0x1000));
        assert!(
            !prctl_confines(22, 2, 0) && !prctl_confines(21, 0, 0) && !prctl_confines(38, 1, 1)
        );
        assert!(prctl_confines(59, 1, 0) && !prctl_confines(59, 0, 0));
        assert!(seccomp_confines(0, 0) && seccomp_confines(1, 0x1000));
        for (operation, filter) in [(1, 0), (2, 0x1000), (3, 0x1000)] {
            assert!(!seccomp_confines(operation, filter), "{operation}");
        }
    }

    #[test]
    fn the_status_of_this_process_is_read_to_its_end() {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
        };
        assert!(seccomp().is_some());
        assert_eq!(seccomp(), field("Seccomp:").map(|mode| (mode, field("Seccomp_filters:"))));
    }
}

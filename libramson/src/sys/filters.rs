//! Seccomp filters: whether one was inherited, and which calls of the program's install one.

use super::permit;
use super::status::Status;

/// Looks for an inherited filter. `tried_filters` is the number of filters that ramson has been tried under. If there is no status, or the
/// status says nothing, there may be a filter.
#[cold]
pub fn look_for_filters(status: Option<&Status>, tried_filters: Option<u64>) {
    let is_free = status.is_some_and(|status| match status.seccomp {
        Some(mode) => mode == 0 || status.filters.is_some() && status.filters == tried_filters,
        None => false,
    });
    permit::grant(is_free);
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
    fn filter_installation_is_recognized() {
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
}

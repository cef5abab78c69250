//! Whose an input is, and the user that a worker becomes.

use crate::confine::Ids;
use crate::namespace::{Namespace, NamespaceKind};
use borsh::{BorshDeserialize, BorshSerialize};
use rustix::process::getuid;
use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::fs::{read, read_link, read_to_string};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// From here on, nothing gives IDs to users, to containers or to services (systemd, UIDS-GIDS: "unused").
const FIRST_UNUSED: u32 = 1 << 31;

/// A process that has just been looked at is asked again and again whose it is.
const SAME_OWNER_FOR: Duration = Duration::from_millis(20);

/// Who owns a process or a file. Users of the same number in different containers are different owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct Owner {
    /// The user's ID, as it is here.
    pub user: u32,
    /// The namespaces and the root directory that the processes of this owner have, as one number; 0: ours.
    place: u64,
}

/// Who pays for the time that inputs take: a user who can make any number of owners pays for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Account {
    /// A user who has an account here, or all subordinate IDs of one, by the first of them.
    User(u32),
    /// A container without a user namespace, by its PID namespace.
    Container(u64),
}

/// Whoever owns what comes over the network.
pub const NOBODY: Owner = Owner::of_user(65534);

/// A process's rights, as the kernel tells them.
struct Rights {
    user: u32,
    capabilities: u64,
}

static OWN_CAPABILITIES: LazyLock<u64> =
    LazyLock::new(|| Rights::of("self").map_or(0, |rights| rights.capabilities));
static OWN_PLACE: LazyLock<[Option<OsString>; 3]> = LazyLock::new(|| place_of("self"));

impl Owner {
    /// The user with this ID, in no container.
    pub const fn of_user(user: u32) -> Self {
        Self { user, place: 0 }
    }

    /// The owner of a process; `None`: there is no such process.
    ///
    /// A process of user 0 is root's only if it has all rights that this process has, in our user namespace: the root of a container has neither.
    pub fn of_process(pid: u32) -> Option<Self> {
        thread_local! {
            static LAST: Cell<Option<(u32, Owner, Instant)>> = const { Cell::new(None) };
        }
        let is_it = |&(last, _, since): &(u32, Self, Instant)| {
            last == pid && since.elapsed() < SAME_OWNER_FOR
        };
        if let Some((_, owner, _)) = LAST.get().filter(is_it) {
            return Some(owner);
        }
        let owner = Self::of_process_now(pid)?;
        // Root's process may become another user's at any time.
        LAST.set((!owner.is_trusted()).then(|| (pid, owner, Instant::now())));
        Some(owner)
    }

    /// The same, asked of the kernel anew.
    pub fn of_process_now(pid: u32) -> Option<Self> {
        let process = pid.to_string();
        let Rights { user, capabilities } = Rights::of(&process)?;
        // Another user may not look at namespaces, and needs not: that user's own processes are theirs anywhere.
        if !getuid().is_root() {
            return Some(Self::of_user(user));
        }
        let place = place_of(&process);
        let is_here = place == *OWN_PLACE;
        let has_all_rights = capabilities & *OWN_CAPABILITIES == *OWN_CAPABILITIES;
        // Without the right to see the namespace, we may not read the process either.
        let is_in_ours = place[0].is_none() || place[0] == OWN_PLACE[0];
        let is_roots = user == 0 && is_in_ours && has_all_rights;
        if is_roots || is_here && user != 0 {
            return Some(Self::of_user(user));
        }
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        Some(Self { user, place: hasher.finish() | 1 })
    }

    /// Whether the owner's processes have namespaces or a root directory of their own.
    pub fn is_elsewhere(self) -> bool {
        self.place != 0
    }

    /// Whether it is root, or the user who runs this.
    pub fn is_trusted(self) -> bool {
        self.place == 0 && (self.user == 0 || self.user == getuid().as_raw())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { user, place } = self;
        match place {
            0 => write!(f, "user {user}"),
            _ => write!(f, "user {user} in other namespaces"),
        }
    }
}

impl Account {
    /// The account of files of this user. Who has subordinate IDs (subuid(5)) may give files to each of them.
    pub fn of_files(user: u32) -> Self {
        static SUBORDINATES: LazyLock<Vec<Range<u32>>> =
            LazyLock::new(|| subordinates(&read_to_string("/etc/subuid").unwrap_or_default()));
        let range = SUBORDINATES.iter().find(|range| range.contains(&user));
        Self::User(range.map_or(user, |range| range.start))
    }

    /// The account of a process's owner.
    pub fn of_process(pid: u32, owner: Owner) -> Self {
        let outermost = |kind| Namespace::of_process(pid, kind)?.outermost_foreign();
        let maker = outermost(NamespaceKind::User).and_then(|it| it.owner());
        // Root makes the user namespaces of all containers of an engine that runs as root.
        if let Some(user) = maker.filter(|&user| !Owner::of_user(user).is_trusted()) {
            return Self::User(user);
        }
        outermost(NamespaceKind::Pid)
            .map_or_else(|| Self::of_files(owner.user), |it| Self::Container(it.id()))
    }
}

/// The ranges of IDs that /etc/subuid gives to users: lines `NAME:FIRST:COUNT`.
fn subordinates(text: &str) -> Vec<Range<u32>> {
    let range = |line: &str| {
        let mut numbers = line.split(':').skip(1).map(|number| number.trim().parse::<u32>());
        let (first, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

impl Rights {
    fn of(process: &str) -> Option<Self> {
        let status = read(format!("/proc/{process}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let line =
            |name| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let mut users = line("Uid")?.split_whitespace().map(|user| user.parse().ok());
        let (real, effective) = (users.next()??, users.next()??);
        // A set-user-ID program of root's has the files and the time of the user who started it.
        let user = if effective == 0 { real } else { effective };
        let capabilities = u64::from_str_radix(line("CapEff")?.trim(), 16).ok()?;
        Some(Self { user, capabilities })
    }
}

/// The user namespace, the mount namespace and the root directory. The kernel tells each without asking a file system.
fn place_of(process: &str) -> [Option<OsString>; 3] {
    ["ns/user", "ns/mnt", "root"]
        .map(|name| Some(read_link(format!("/proc/{process}/{name}")).ok()?.into_os_string()))
}

/// User and group of the worker that reads what belongs to `owner`. Not the owner's, because users may signal, renice and limit their own
/// processes, but an ID that no other process has. It opens files as the owner, and as this group if one is given.
pub fn ids_for(owner: Owner, file_group: Option<u32>) -> Ids {
    let id = |map| id_within(owner.user, &read_to_string(map).unwrap_or_default());
    let (user, group) = (id("/proc/self/uid_map"), id("/proc/self/gid_map"));
    Ids { user, group, file_user: owner.user, file_group: file_group.unwrap_or(group) }
}

/// The group of a process, if it has but one: a program that sets its group has the rights of a group that its user lacks.
pub fn group_of_process(pid: u32) -> Option<u32> {
    let status = read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Gid:"))?;
    let mut groups = line.split_whitespace().map(str::parse::<u32>);
    let first = groups.next()?.ok()?;
    groups.all(|other| other == Ok(first)).then_some(first)
}

/// One ID for each user, so that no worker is another's either. If the user namespace does not have this ID, returns the last one of the
/// namespace.
fn id_within(user: u32, map: &str) -> u32 {
    // The very last number is none.
    let own = FIRST_UNUSED | Some(user).filter(|&id| id < FIRST_UNUSED - 1).unwrap_or(0);
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first.saturating_add(count))
    });
    let ranges: Vec<_> = ranges.collect();
    let last = ranges.iter().map(|range| range.end.saturating_sub(1)).max();
    if ranges.iter().any(|range| range.contains(&own)) { own } else { last.unwrap_or(own) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A process that `setpriv` or `unshare` has changed, once it runs `cat`.
    fn changed(program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(program);
        let child = command.args(arguments).arg("cat").stdin(Stdio::piped()).spawn().unwrap();
        while !read(format!("/proc/{}/comm", child.id())).unwrap().starts_with(b"cat") {}
        child
    }

    fn owner_and_account(program: &str, arguments: &[&str]) -> (Owner, Account) {
        let mut child = changed(program, arguments);
        let owner = Owner::of_process(child.id()).unwrap();
        let account = Account::of_process(child.id(), owner);
        drop(child.stdin.take());
        child.wait().unwrap();
        (owner, account)
    }

    #[test]
    fn roots_process_has_all_rights() {
        let (root, account) = owner_and_account("setpriv", &["--no-new-privs"]);
        assert_eq!((root, account), (Owner::of_user(0), Account::User(0)));
        assert!(root.is_trusted());
        let (fewer, _) = owner_and_account("setpriv", &["--bounding-set=-sys_admin", "--"]);
        assert!(fewer.user == 0 && !fewer.is_trusted());
        let (of_user, _) = owner_and_account("setpriv", &["--ruid=1501"]);
        assert_eq!(of_user, Owner::of_user(1501));
        // A daemon that systemd gave mounts of its own, with all rights.
        let (daemon, _) = owner_and_account("unshare", &["--mount"]);
        assert_eq!(daemon, root);
    }

    #[test]
    fn container_users_are_other_owners() {
        let user = ["--reuid=1501", "--regid=1501", "--clear-groups"];
        let (plain, account) = owner_and_account("setpriv", &user);
        assert_eq!((plain, account), (Owner::of_user(1501), Account::User(1501)));
        let arguments = [&["--mount", "setpriv"], &user[..]].concat();
        let (mounts, account) = owner_and_account("unshare", &arguments);
        assert!(mounts.user == 1501 && mounts != plain && account == Account::User(1501));
    }

    #[test]
    fn subordinate_ids_are_ranges() {
        let found = subordinates("ann:100000:65536\n# x\nben:4294967000:65536\n");
        assert_eq!(found, [100_000..165_536, 4_294_967_000..u32::MAX]);
    }

    #[test]
    fn maker_of_namespace_pays() {
        let mut arguments = vec!["--reuid=1501", "--regid=1501", "--clear-groups", "unshare"];
        arguments.extend(["--user", "--map-root-user"]);
        let (owner, account) = owner_and_account("setpriv", &arguments);
        assert!(owner.user == 1501 && !owner.is_trusted());
        assert_eq!(account, Account::User(1501));
    }

    #[test]
    fn worker_user_ids_are_unique() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(id_within(1501, whole), 2_147_485_149);
        assert_ne!(id_within(1501, whole), id_within(1502, whole));
        for owner in [FIRST_UNUSED - 1, FIRST_UNUSED, u32::MAX - 1] {
            assert_eq!(id_within(owner, whole), FIRST_UNUSED, "{owner}");
        }
        assert_eq!(id_within(1501, "0 100000 1000\n1000 1000 64537\n"), 65536);
        assert_eq!(id_within(1501, ""), 2_147_485_149);
    }
}

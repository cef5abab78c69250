//! Which TCP ports a process listens on.
//!
//! The kernel lists a network namespace's listening sockets before all others, and a process's files by their numbers, of which
//! sockets that were opened at the start have low ones. So a bounded look finds them, however many connections there are. Each user has bounds
//! of their own: what one has open hides nothing of another's.

use crate::text;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Open files that are looked at of one process …
const MOST_FILES_EACH: usize = 4096;
/// … and of all processes of one user.
const MOST_FILES_OF_USER: usize = 1 << 15;
/// Network namespaces in which processes of one user are.
const MOST_NAMESPACES_OF_USER: usize = 64;
/// Listening sockets of one user in one network namespace …
const MOST_SOCKETS_OF_USER: usize = 1 << 14;
/// … and of all users.
const MOST_SOCKETS: usize = 1 << 18;
/// The state of a listening socket in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Looks at one process after another, and reads each network namespace once.
#[derive(Default)]
pub struct Listening {
    /// By namespace: the port of each listening socket, by the socket's inode.
    namespaces: HashMap<PathBuf, HashMap<String, u16>>,
    by_user: HashMap<Option<u32>, Looked>,
}

/// What was looked at of one user's processes so far.
#[derive(Default)]
struct Looked {
    files: usize,
    namespaces: usize,
}

impl Listening {
    /// TCP ports of a process of this user, ascending; none also where the caller may not look. `None`: the bounds of the user are reached.
    pub fn ports(&mut self, pid: u32, user: Option<u32>) -> Option<Vec<u16>> {
        let looked = self.by_user.entry(user).or_default();
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let Ok(namespace) = fs::read_link(directory.join("ns/net")) else {
            return Some(Vec::new());
        };
        if !self.namespaces.contains_key(&namespace) {
            if looked.namespaces >= MOST_NAMESPACES_OF_USER {
                return None;
            }
            looked.namespaces += 1;
        }
        let sockets = self.namespaces.entry(namespace).or_insert_with(|| sockets_of(&directory));
        if sockets.is_empty() {
            return Some(Vec::new());
        }
        let mut ports = BTreeSet::new();
        let files = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        for file in files.take(MOST_FILES_EACH) {
            looked.files += 1;
            if looked.files > MOST_FILES_OF_USER {
                return None;
            }
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode =
                target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
            ports.extend(inode.and_then(|inode| sockets.get(inode)));
        }
        Some(ports.into_iter().collect())
    }
}

/// Of the namespace of the process that has this directory.
fn sockets_of(directory: &Path) -> HashMap<String, u16> {
    let tables = ["net/tcp", "net/tcp6"].into_iter();
    let tables = tables.map(|table| text::lines(directory.join(table)).into_iter().flatten());
    tables.flat_map(listening).collect()
}

/// The inodes and the ports of the sockets that such a table begins with.
fn listening(table: impl Iterator<Item = String>) -> impl Iterator<Item = (String, u16)> {
    let mut by_user = HashMap::new();
    let sockets = table.skip(1).map_while(|line| socket(&line)).take(MOST_SOCKETS);
    let sockets = sockets.filter(move |socket| {
        let count = by_user.entry(socket.user.clone()).or_insert(0);
        *count += 1;
        *count <= MOST_SOCKETS_OF_USER
    });
    sockets.map(|socket| (socket.inode, socket.port))
}

/// A listening socket.
#[derive(Debug, PartialEq)]
struct Socket {
    user: String,
    inode: String,
    port: u16,
}

/// The socket of a line of /proc/net/tcp, if it listens.
fn socket(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTENS;
    let (user, inode) = (fields.get(7)?.to_string(), fields.get(9)?.to_string());
    let port = u16::from_str_radix(port, 16).ok()?;
    listens.then_some(Socket { user, inode, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    #[test]
    fn the_ports_of_both_protocols_are_found_and_no_connection_is_one() {
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
        let listened: BTreeSet<u16> = [Some(&four), six.as_ref().ok()]
            .into_iter()
            .flatten()
            .map(|socket| socket.local_addr().unwrap().port())
            .collect();
        let connection = TcpStream::connect(four.local_addr().unwrap()).unwrap();
        let found = Listening::default().ports(std::process::id(), None);
        let found: BTreeSet<u16> = found.unwrap().into_iter().collect();
        assert!(found.is_superset(&listened), "{found:?} {listened:?}");
        assert!(!found.contains(&connection.local_addr().unwrap().port()), "{found:?}");
    }

    #[test]
    fn a_process_that_is_gone_and_a_line_that_is_none_have_no_ports() {
        assert_eq!(Listening::default().ports(u32::MAX, None), Some(Vec::new()));
        for line in
            ["", "  0: x", "  0: 0100007F:18EB 0:0 01 0 0 0 0 0 7", "0: 0100007F:18EB 0:0 0A"]
        {
            assert_eq!(socket(line), None, "{line}");
        }
        let line = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0";
        let expected = Socket { user: "0".into(), inode: "77".into(), port: 6379 };
        assert_eq!(socket(line), Some(expected));
    }

    #[test]
    fn no_user_s_sockets_hide_another_s() {
        let line = |user: u32, inode: usize| {
            format!(
                " 0: 0100007F:18EB 0:0 0A 00000000:00000000 00:00000000 00000000 {user} 0 {inode} 1 0"
            )
        };
        let many = (0..MOST_SOCKETS_OF_USER + 9).map(|inode| line(1501, inode));
        let table = ["head".to_owned()].into_iter().chain(many).chain([line(1502, 1_000_000)]);
        let found: Vec<_> = listening(table).collect();
        assert_eq!(found.len(), MOST_SOCKETS_OF_USER + 1);
        assert_eq!(found.last(), Some(&("1000000".into(), 6379)));
    }

    #[test]
    fn what_one_user_has_open_takes_nothing_from_another() {
        let _listens = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut listening = Listening::default();
        let own = std::process::id();
        let looked = Looked { files: MOST_FILES_OF_USER, namespaces: MOST_NAMESPACES_OF_USER };
        listening.by_user.insert(Some(1501), looked);
        assert_eq!(listening.ports(own, Some(1501)), None);
        assert!(listening.ports(own, Some(1502)).is_some_and(|ports| !ports.is_empty()));
        assert_eq!(listening.ports(own, Some(1501)), None);
    }
}

//! Which TCP ports a process listens on.
//!
//! The kernel lists a network namespace's listening sockets before all others, and a process's files by their numbers, of which
//! sockets that were opened at the start have low ones. So a bounded look finds them, however many connections there are.

use crate::text;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Open files that are looked at: of one process, and of all together. A stranger may have any number.
const MOST_FILES_EACH: usize = 4096;
const MOST_FILES: usize = 1 << 16;
/// Listening sockets of one network namespace.
const MOST_SOCKETS: usize = 1 << 14;
const MOST_NAMESPACES: usize = 64;
/// The state of a listening socket in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Looks at one process after another, and reads each network namespace once.
#[derive(Default)]
pub struct Listening {
    /// By namespace: the port of each listening socket, by the socket's inode.
    namespaces: HashMap<PathBuf, HashMap<String, u16>>,
    /// Looked at so far.
    files: usize,
}

impl Listening {
    /// TCP ports, ascending; none also where this user may not look, or the bounds are reached.
    pub fn ports(&mut self, pid: u32) -> Vec<u16> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let Ok(namespace) = fs::read_link(directory.join("ns/net")) else { return Vec::new() };
        if self.namespaces.len() >= MOST_NAMESPACES && !self.namespaces.contains_key(&namespace) {
            return Vec::new();
        }
        let sockets = self.namespaces.entry(namespace).or_insert_with(|| sockets_of(&directory));
        if sockets.is_empty() {
            return Vec::new();
        }
        let left = MOST_FILES.saturating_sub(self.files).min(MOST_FILES_EACH);
        let files = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten().take(left);
        let mut ports = BTreeSet::new();
        for file in files {
            self.files += 1;
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode =
                target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
            ports.extend(inode.and_then(|inode| sockets.get(inode)));
        }
        ports.into_iter().collect()
    }
}

/// Of the namespace of the process that has this directory.
fn sockets_of(directory: &Path) -> HashMap<String, u16> {
    let lines = ["net/tcp", "net/tcp6"].into_iter().flat_map(|table| {
        let lines = text::lines(directory.join(table)).into_iter().flatten();
        lines.skip(1).map_while(|line| socket(&line)).take(MOST_SOCKETS)
    });
    lines.collect()
}

/// The inode and the port of a line of /proc/net/tcp, if that socket listens.
fn socket(line: &str) -> Option<(String, u16)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTENS;
    listens.then_some((fields.get(9)?.to_string(), u16::from_str_radix(port, 16).ok()?))
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
        let found: BTreeSet<u16> =
            Listening::default().ports(std::process::id()).into_iter().collect();
        assert!(found.is_superset(&listened), "{found:?} {listened:?}");
        assert!(!found.contains(&connection.local_addr().unwrap().port()), "{found:?}");
    }

    #[test]
    fn a_process_that_is_gone_and_a_line_that_is_none_have_no_ports() {
        assert_eq!(Listening::default().ports(u32::MAX), Vec::<u16>::new());
        for line in
            ["", "  0: x", "  0: 0100007F:18EB 0:0 01 0 0 0 0 0 7", "0: 0100007F:18EB 0:0 0A"]
        {
            assert_eq!(socket(line), None, "{line}");
        }
        let line = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0";
        assert_eq!(socket(line), Some(("77".into(), 6379)));
    }
}

//! Which allocator a process has, where it comes from, and how it was told to behave.

use crate::areas::{Area, bounded};
use borsh::{BorshDeserialize, BorshSerialize};
use memchr::memmem;

/// Allocators that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum AllocatorKind {
    /// Allocator of musl, another C library.
    Musl,
    /// By its library's name.
    Jemalloc,
    /// Allocator of gperftools.
    Tcmalloc,
    /// Microsoft's.
    Mimalloc,
    /// One that is linked into the program, known by its name only.
    InProgram,
}

/// File names of allocators, without directory.
const LIBRARIES: [(&str, AllocatorKind); 4] = [
    ("libjemalloc", AllocatorKind::Jemalloc),
    ("libtcmalloc", AllocatorKind::Tcmalloc),
    ("libmimalloc", AllocatorKind::Mimalloc),
    ("ld-musl-", AllocatorKind::Musl),
];

/// Variables that tell an allocator how to behave.
const VARIABLES: [&str; 7] = [
    "MALLOC_",
    "GLIBC_TUNABLES=",
    "JE_MALLOC_CONF=",
    "_RJEM_MALLOC_CONF=",
    "TCMALLOC_",
    "MIMALLOC_",
    "LD_PRELOAD=",
];

/// An allocator among the mapped files that takes the place of the C library's own, if it comes first in the search order. If there are
/// several, returns one that `preload` names (as LD_PRELOAD does), else the one at the highest address: the loader maps files in the search
/// order, the kernel from the top down. Programs may overwrite their environment, as redis does.
pub fn replacing_allocator<'a>(
    areas: &'a [Area],
    preload: &str,
) -> Option<(AllocatorKind, &'a Area)> {
    let found = areas.iter().filter_map(|area| {
        let name = base_name(&area.path);
        let known = LIBRARIES.iter().find(|(start, _)| name.starts_with(start));
        // musl has a file of this name if the loader's name is a link; glibc's file of this name is a script for the linker.
        let musl = (name == "libc.so").then_some(AllocatorKind::Musl);
        Some((known.map(|&(_, kind)| kind).or(musl)?, area))
    });
    found.max_by_key(|(_, area)| (is_preloaded(preload, &area.path), area.start))
}

/// Whether a list of names, as that of LD_PRELOAD, has the file. It may name a link: libtcmalloc.so.4 for libtcmalloc.so.4.5.10.
pub fn is_preloaded(preload: &str, path: &str) -> bool {
    let mut names = preload.split([':', ' ']).map(base_name);
    names.any(|name| !name.is_empty() && base_name(path).starts_with(name))
}

/// Whether the area is of glibc's library.
pub fn is_libc(area: &Area) -> bool {
    let name = base_name(&area.path);
    name == "libc.so.6" || name.starts_with("libc-2.") && name.ends_with(".so")
}

/// The writable areas of glibc's library.
pub fn data_of_libc(areas: &[Area]) -> Vec<&Area> {
    bounded(areas.iter().filter(|area| is_libc(area) && area.is_writable())).collect()
}

/// The file's name without directory, also of one that was replaced on disk.
pub fn base_name(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default()
}

/// The name by which a program was called, by its first argument: a link may have another name than the file behind it. A title
/// that a program shows there begins with its name (`nginx: worker process`, `redis-server *:6379`).
pub fn called_name<'a>(argument: &'a str, exe: &'a str) -> &'a str {
    let name = base_name(exe);
    // Paths may have spaces.
    if name == base_name(argument) || !exe.is_empty() && argument.starts_with(exe) {
        return name;
    }
    base_name(argument.split(' ').next().unwrap_or_default().trim_end_matches(':'))
}

/// Version and package, of `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
pub fn glibc_version(library: &[u8]) -> Option<((u32, u32), String)> {
    let banner = &library[memmem::find(library, b"GNU C Library ")?..];
    let line = banner.iter().take(300).position(|&byte| byte == b'\n' || byte == 0)?;
    let text = std::str::from_utf8(&banner[..line]).ok()?;
    let package = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let package = package.map_or(String::new(), |(package, _)| package.to_owned());
    let number = text.split_once(" version ")?.1;
    let mut numbers = number.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
    Some(((numbers.next()??, numbers.next()??), package))
}

/// jemalloc's version as its library says: `5.3.0-0-g54eaed1d…`, without the commit.
pub fn jemalloc_version(library: &[u8]) -> Option<String> {
    memmem::find_iter(library, b"-0-").find_map(|at| {
        let before = library[..at].iter().rev();
        let length = before.take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let version = std::str::from_utf8(&library[at - length..at]).ok()?;
        let is_followed = library.get(at + 3) == Some(&b'g');
        (is_followed && version.split('.').count() == 3).then(|| version.to_owned())
    })
}

/// The settings among the variables of /proc/PID/environ: what the process was started with.
pub fn settings(environ: &[u8]) -> Vec<(String, String)> {
    let is_known =
        |variable: &&[u8]| VARIABLES.iter().any(|known| variable.starts_with(known.as_bytes()));
    // Any number of zeros may lie between variables.
    let variables = environ.split(|&byte| byte == 0).filter(|variable| !variable.is_empty());
    let setting = |variable: &[u8]| {
        let variable = String::from_utf8_lossy(variable);
        variable.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    variables.filter(is_known).filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_name_ignores_shown_title() {
        for (argument, exe, name) in [
            ("/usr/bin/redis-server", "/usr/bin/redis-check-rdb", "redis-server"),
            ("/usr/bin/redis-server 127.0.0.1:6379", "/usr/bin/redis-check-rdb", "redis-server"),
            (
                "nginx: master process /usr/sbin/nginx -c /etc/nginx.conf",
                "/usr/sbin/nginx",
                "nginx",
            ),
            (
                "postgres: app db 10.0.0.1/32 idle",
                "/usr/lib/postgresql/15/bin/postgres",
                "postgres",
            ),
            ("./server", "/srv/server", "server"),
            ("/opt/My App/server", "/opt/My App/server", "server"),
            ("/opt/My App/server --type=a /b", "/opt/My App/server", "server"),
            ("", "/srv/server", ""),
        ] {
            assert_eq!(called_name(argument, exe), name, "{argument}");
        }
    }
}

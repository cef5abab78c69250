//! Finds libramson.so: next to the command or, if the command is one file alone, in the command itself, from which it is unpacked once.

use crate::output::remark;
use ramson_source::places;
use rustix::process::getuid;
use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[cfg(has_library)]
const EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("RAMSON_EMBEDDED_LIBRARY")));
#[cfg(not(has_library))]
const EMBEDDED: Option<&[u8]> = None;

/// A server that root starts may give up its user before an exec, after which it loads the library again.
const DIRECTORY_MODE_OF_ROOT: u32 = 0o755;
/// The directory with a user's profiles is made here, too.
const DIRECTORY_MODE_OF_USER: u32 = 0o700;
const FILE_MODE: u32 = 0o555;
/// Those who may write: the owner only.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SEARCHABLE_BY_ALL: u32 = 0o001;
/// Only owners may give another name to what is in such a directory.
const STICKY: u32 = 0o1000;
/// Readers know the library in a process by it.
const NAME: &str = "libramson.so";

/// The path of libramson.so, or why there is none.
pub fn find() -> Result<PathBuf, String> {
    match (places::library(), EMBEDDED) {
        (Err(_), Some(content)) if std::env::var_os("RAMSON_LIBRARY").is_none() => {
            unpack(content, &directories(), is_loaded)
        }
        (found, _) => found,
    }
}

/// The library, to be preloaded. `None`: there is no place for it, and the program runs all the same.
pub fn for_program(program: &Path) -> Result<Option<PathBuf>, String> {
    places::check_proc()?;
    let found = find().and_then(|library| {
        let bytes = library.as_os_str().as_encoded_bytes();
        if bytes.iter().any(|byte| b" :".contains(byte)) {
            return Err(format!(
                "{}: the loader cannot preload from a path with a space or colon. Move libramson.so",
                library.display()
            ));
        }
        Ok(library)
    });
    match found {
        // A library that the user named must be there.
        Err(message) if std::env::var_os("RAMSON_LIBRARY").is_none() => {
            remark(format_args!("{message}. {} runs without a profile", program.display()));
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// `first`, and behind it what is in our own environment.
pub fn with_own(first: &OsStr, variable: &str) -> OsString {
    let mut value = first.to_owned();
    if let Some(others) = std::env::var_os(variable).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Directories into which the library may be unpacked, best first.
fn directories() -> Vec<PathBuf> {
    if getuid().is_root() {
        return ["/var/lib/ramson", "/usr/local/lib/ramson", "/run/ramson"].map(Into::into).into();
    }
    let cache = places::symbol_cache().and_then(|symbols| Some(symbols.parent()?.join("lib")));
    [places::own_profile_directory().join("lib")].into_iter().chain(cache).collect()
}

/// Writes `content` into the first directory that belongs to this user alone and from which the loader takes it, unless it is there already.
fn unpack(
    content: &[u8],
    directories: &[PathBuf],
    is_loaded: impl Fn(&Path) -> io::Result<()>,
) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    let version = format!("{:016x}", hasher.finish());
    let mut failures = Vec::new();
    for directory in directories {
        match unpack_into(directory, &version, content, &is_loaded) {
            Ok(path) => return Ok(path),
            Err(error) => failures.push(format!("{}: {error}", directory.display())),
        }
    }
    let failures = failures.join("; ");
    Err(format!(
        "libramson.so cannot be unpacked: {failures}. Put it in a place from which programs may load it, and set RAMSON_LIBRARY to its path"
    ))
}

fn unpack_into(
    directory: &Path,
    version: &str,
    content: &[u8],
    is_loaded: &impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let directory = make(&make(directory)?.join(version))?;
    let path = directory.join(NAME);
    // This user wrote the file that is there, because no other user can.
    if fs::read(&path).is_ok_and(|known| known == content) {
        return Ok(path);
    }
    let temporary = directory.join(format!("{NAME}.{}", std::process::id()));
    let written = write(&temporary, content)
        .and_then(|()| is_loaded(&temporary))
        .and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(path)
}

/// Makes a directory, if it is missing, in which only this user can put a file, or replace one: nor may another one give what is
/// above it another name. Returns its path without links, which another user might turn elsewhere.
fn make(directory: &Path) -> io::Result<PathBuf> {
    let is_root = getuid().is_root();
    let mode = if is_root { DIRECTORY_MODE_OF_ROOT } else { DIRECTORY_MODE_OF_USER };
    DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    let is_link = fs::symlink_metadata(directory)?.is_symlink();
    let directory = directory.canonicalize()?;
    let facts = fs::symlink_metadata(&directory)?;
    let is_ours = facts.is_dir() && facts.uid() == getuid().as_raw();
    let is_shared = |facts: &Metadata| facts.mode() & WRITABLE_BY_OTHERS != 0;
    let above = directory.ancestors().skip(1).map(fs::metadata).collect::<io::Result<Vec<_>>>()?;
    let is_strange = |facts: &Metadata| {
        let is_trusted = [0, getuid().as_raw()].contains(&facts.uid());
        !is_trusted || is_shared(facts) && facts.mode() & STICKY == 0
    };
    if is_link || !is_ours || is_shared(&facts) || above.iter().any(is_strange) {
        return Err(io::Error::other("another user may write there"));
    }
    let is_closed = |facts: &Metadata| facts.mode() & SEARCHABLE_BY_ALL == 0;
    if is_root && above.iter().chain([&facts]).any(is_closed) {
        return Err(io::Error::other(
            "other users may not enter it, and a server may change its user",
        ));
    }
    Ok(directory)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(content)?;
    // The umask may have taken something away.
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}

/// Whether the loader takes it: not from a file system mounted noexec, for one. It says so on standard error, and goes on without.
fn is_loaded(library: &Path) -> io::Result<()> {
    let mut trial = Command::new("/proc/self/exe");
    trial.arg("--version").env("LD_PRELOAD", library).stdin(Stdio::null());
    // The profile that they describe is the program's.
    let is_its = |name: &OsStr| name.as_encoded_bytes().starts_with(b"RAMSON_");
    let names = std::env::vars_os().map(|(name, _)| name).filter(|name| is_its(name));
    names.for_each(|name| _ = trial.env_remove(name));
    let said = trial.output()?.stderr;
    if said.is_empty() {
        Ok(())
    } else {
        Err(io::Error::other("the loader loads nothing from there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that every user can enter, in a scratch directory that is then, too.
    fn open_directory(scratch: &tempfile::TempDir, name: &str) -> PathBuf {
        let open = || Permissions::from_mode(0o755);
        fs::set_permissions(scratch.path(), open()).unwrap();
        let path = scratch.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, open()).unwrap();
        path
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        let scratch = tempfile::TempDir::new().unwrap();
        let shared = scratch.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        let linked = scratch.path().join("linked");
        std::os::unix::fs::symlink("/", &linked).unwrap();
        let failure = unpack(b"library", &[shared.clone(), linked], |_| Ok(())).unwrap_err();
        assert_eq!(failure.matches("another user may write there").count(), 2, "{failure}");
        assert_eq!(fs::read_dir(shared).unwrap().count(), 0);
    }

    #[test]
    fn loaded_path_has_links_resolved() {
        let scratch = tempfile::TempDir::new().unwrap();
        let own = open_directory(&scratch, "own");
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let path = unpack(b"library", &[link.join("lib")], |_| Ok(())).unwrap();
        assert!(path.starts_with(own.canonicalize().unwrap().join("lib")), "{path:?}");
    }

    #[test]
    fn unloadable_library_is_removed() {
        let scratch = tempfile::TempDir::new().unwrap();
        let refuses = |_: &Path| Err(io::Error::other("noexec"));
        let open = open_directory(&scratch, "own");
        assert!(unpack_into(&open, "1", b"one", &refuses).is_err());
        assert_eq!(fs::read_dir(open.join("1")).unwrap().count(), 0);
    }

    #[test]
    fn next_directory_follows_unloadable_one() {
        let scratch = tempfile::TempDir::new().unwrap();
        let both = ["noexec", "other"].map(|name| open_directory(&scratch, name));
        let is_loaded = |path: &Path| {
            if path.starts_with(&both[0]) { Err(io::Error::other("noexec")) } else { Ok(()) }
        };
        let path = unpack(b"library", &both, is_loaded).unwrap();
        assert!(path.starts_with(&both[1]) && path.ends_with(NAME), "{path:?}");
    }

    #[test]
    fn directory_below_shared_one_is_refused() {
        let scratch = tempfile::TempDir::new().unwrap();
        let shared = open_directory(&scratch, "shared");
        let own = shared.join("own");
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        let failure = unpack(b"library", std::slice::from_ref(&own), |_| Ok(())).unwrap_err();
        assert!(failure.contains("another user may write there"), "{failure}");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        unpack(b"library", std::slice::from_ref(&own), |_| Ok(())).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&shared, Some(1501), None).expect("root runs this test");
        let failure = unpack(b"library", &[own], |_| Ok(())).unwrap_err();
        assert!(failure.contains("another user may write there"), "{failure}");
    }

    #[test]
    fn root_library_is_loadable_by_all() {
        let scratch = tempfile::TempDir::new().unwrap();
        let closed = open_directory(&scratch, "closed");
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let open = open_directory(&scratch, "open");
        let path = unpack(b"library", &[closed.join("ramson"), open.clone()], |_| Ok(())).unwrap();
        let chosen = if getuid().is_root() { open } else { closed };
        assert!(path.starts_with(chosen), "{path:?}");
    }

    #[test]
    fn other_content_is_replaced() {
        let scratch = tempfile::TempDir::new().unwrap();
        let directory = open_directory(&scratch, "own");
        let into = |content| unpack_into(&directory, "1", content, &|_: &Path| Ok(()));
        let (first, again) = (into(b"one").unwrap(), into(b"two").unwrap());
        assert_eq!((&first, fs::read(&again).unwrap().as_slice()), (&again, &b"two"[..]));
        assert_eq!(fs::metadata(again).unwrap().mode() & 0o777, FILE_MODE);
        assert_eq!(fs::read_dir(directory.join("1")).unwrap().count(), 1);
    }
}

//! Where libramson.so is: beside the command or, if that is one file alone, in the command itself, from which it is unpacked once.

use ramson_source::places;
use rustix::process::getuid;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
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

/// The path of libramson.so, or why there is none.
pub fn find() -> Result<PathBuf, String> {
    match (places::library(), EMBEDDED) {
        (Err(_), Some(content)) if std::env::var_os("RAMSON_LIBRARY").is_none() => {
            unpack(content, &directories())
        }
        (found, _) => found,
    }
}

/// Where it may be unpacked, best first.
fn directories() -> Vec<PathBuf> {
    if getuid().is_root() {
        return ["/var/lib/ramson", "/usr/local/lib/ramson", "/run/ramson"].map(Into::into).into();
    }
    let cache = places::symbol_cache().and_then(|symbols| Some(symbols.parent()?.join("lib")));
    [places::own_profile_directory().join("lib")].into_iter().chain(cache).collect()
}

/// Writes `content` into the first directory that belongs to this user alone and from which the loader takes it, unless it is there already.
fn unpack(content: &[u8], directories: &[PathBuf]) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    let name = format!("libramson-{:016x}.so", hasher.finish());
    let mut failures = Vec::new();
    for directory in directories {
        match unpack_into(directory, &name, content, is_loaded) {
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
    name: &str,
    content: &[u8],
    is_loaded: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mode = if getuid().is_root() { DIRECTORY_MODE_OF_ROOT } else { DIRECTORY_MODE_OF_USER };
    DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    let facts = fs::symlink_metadata(directory)?;
    if !facts.is_dir() || facts.uid() != getuid().as_raw() || facts.mode() & WRITABLE_BY_OTHERS != 0
    {
        return Err(io::Error::other("another user may write there"));
    }
    let path = directory.join(name);
    // What is there was written by this user, as nobody else can.
    if fs::read(&path).is_ok_and(|known| known == content) {
        return Ok(path);
    }
    let temporary = directory.join(format!("{name}.{}", std::process::id()));
    let written = write(&temporary, content)
        .and_then(|()| is_loaded(&temporary))
        .and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(path)
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
    let said = trial.output()?.stderr;
    match said.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other("the loader takes nothing from there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_may_write_is_not_used() {
        let scratch = tempfile::TempDir::new().unwrap();
        let shared = scratch.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        let linked = scratch.path().join("linked");
        std::os::unix::fs::symlink("/", &linked).unwrap();
        let failure = unpack(b"library", &[shared.clone(), linked]).unwrap_err();
        assert_eq!(failure.matches("another user may write there").count(), 2, "{failure}");
        assert_eq!(fs::read_dir(shared).unwrap().count(), 0);
    }

    #[test]
    fn what_the_loader_does_not_take_is_not_left() {
        let scratch = tempfile::TempDir::new().unwrap();
        let refuses = |_: &Path| Err(io::Error::other("noexec"));
        assert!(unpack_into(scratch.path(), "name", b"one", refuses).is_err());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_this_name_with_another_content_is_replaced() {
        let scratch = tempfile::TempDir::new().unwrap();
        let directory = scratch.path().join("own");
        let into = |content| unpack_into(&directory, "name", content, |_| Ok(()));
        let (first, again) = (into(b"one").unwrap(), into(b"two").unwrap());
        assert_eq!((&first, fs::read(&again).unwrap().as_slice()), (&again, &b"two"[..]));
        assert_eq!(fs::metadata(again).unwrap().mode() & 0o777, FILE_MODE);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    }
}

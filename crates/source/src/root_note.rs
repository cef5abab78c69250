//! Which root directory a process has, written into its profile while it runs: afterwards, only that tells where its binaries are.

use crate::file::{mapped_header, open_to_write};
use crate::maps::{bytes_of, file_of_map, maps};
use crate::theirs::have_written;
use ramson_apart::{NOBODY, Owner, for_process};
use ramson_format::{ROOT_OFFSET, Root as Note};
use ramson_paths::{Root, RootIdentity};
use ramson_process::{other_root, told_root};
use ramson_reader::Header;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The place of the files of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootFate {
    /// In our own root directory, as far as is known.
    Own,
    /// In another one, which is still there.
    Present(PathBuf),
    /// In another one, which is not found any more; where it was, if that was told.
    Gone(Option<PathBuf>),
    /// In another one, at whose path is another one now.
    Replaced(PathBuf),
}

/// Tells the profile of running process `pid`, of which this is the header and the place, which root directory that has, if it is not
/// ours. Without the right to write there, nothing is told.
pub fn note_root(pid: u32, header: &mut Header, origin: &str) {
    if header.root.is_some() {
        return;
    }
    let Some(other) = other_root(pid) else { return };
    let RootIdentity { device, inode, birth_ns } = other.identity;
    let path = other.path.as_ref().map_or(&[][..], |path| path.as_os_str().as_bytes());
    let note = Note::new(path, device, inode, birth_ns);
    header.root = Some(Box::new(note));
    let note = (pid, origin.to_owned(), header.identity(), note.to_bytes().to_vec());
    // A report without it is as good as before.
    let _ = match for_process(pid) {
        Some(by) => have_written(&by, &note).ok(),
        None => write_note(note),
    };
}

/// A note: the process, the place and the identity of its profile, and the bytes.
pub type WrittenNote = (u32, String, (u32, u64, u64), Vec<u8>);

/// Writes it, with the right to write there.
pub fn write_note((pid, origin, identity, bytes): WrittenNote) -> Option<()> {
    let owner = Owner::of_process(pid)?;
    let mut its = maps(pid).ok()?.filter(|map| map.may_be_profile() && map.path == origin);
    // Only what it has mapped and its user owns: another file may claim to be the same profile.
    let found = its.find_map(|map| {
        let found = file_of_map(pid, &map)?;
        let is_users = found.facts.owner.user == owner.user;
        let found = bytes_of(found);
        let is_it = || Header::read(&found).is_ok_and(|header| header.identity() == identity);
        (is_users && is_it()).then_some(found)
    })?;
    open_to_write(&found.file).ok()?.write_all_at(&bytes, ROOT_OFFSET).ok()
}

/// The same of a process that may have no profile, or none in a file yet. Returns where the file is from here, as far as that is known.
pub fn note_root_of(pid: u32) -> Option<PathBuf> {
    other_root(pid)?;
    let (mut header, origin) = mapped_header(pid).filter(|(_, origin)| origin.starts_with('/'))?;
    note_root(pid, &mut header, &origin);
    let root = Path::new(OsStr::from_bytes(header.root?.path())).to_owned();
    // After a chroot, the kernel shows paths from our root directory.
    let is_from_here = Path::new(&origin).starts_with(&root);
    Some(if is_from_here { origin.into() } else { root.join(origin.trim_start_matches('/')) })
}

/// Tells what became of the root directory of a process that has ended, by its header, and the place and owner of its profile.
pub fn root_fate(header: &Header, origin: &str, owner: Option<Owner>) -> RootFate {
    let Some(note) = &header.root else {
        return usual_root(Path::new(origin)).map_or(RootFate::Own, RootFate::Present);
    };
    let noted = RootIdentity { device: note.device, inode: note.inode, birth_ns: note.birth_ns };
    let own = Root::at(Path::new("/")).and_then(|root| root.identity()).ok();
    if own == Some(noted) {
        return RootFate::Own;
    }
    let path = PathBuf::from(OsStr::from_bytes(note.path()));
    if !path.is_absolute() {
        return RootFate::Gone(None);
    }
    match told_root(&path, Some(owner.unwrap_or(NOBODY))) {
        Some(found) if found == noted => RootFate::Present(path),
        Some(_) => RootFate::Replaced(path),
        None => RootFate::Gone(Some(path)),
    }
}

/// The root directory in which a profile is at its usual place, if that is not ours.
fn usual_root(profile: &Path) -> Option<PathBuf> {
    let profile = std::path::absolute(profile).ok()?;
    let directory = profile.parent()?;
    let user = directory.file_name()?.to_str()?.strip_prefix("ramson-")?;
    let root = directory.parent()?.parent()?.parent()?;
    let is_usual = user.bytes().all(|byte| byte.is_ascii_digit())
        && directory.parent() == Some(&root.join("var/tmp"));
    // The user may have typed a path with links.
    Root::at(root).ok().filter(|_| is_usual && root.parent().is_some())?.path()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_place_tells_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let of = |inner: &str| usual_root(&root.join(inner));
        assert_eq!(of("var/tmp/ramson-0/1-2.ramson"), Some(root.clone()));
        for other in [
            "ramson-0/1-2.ramson",
            "var/tmp/ramson-x/1.ramson",
            "var/tmp/1-2.ramson",
            "/var/tmp/ramson-0/1-2.ramson",
            "/",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn root_fate_is_told_by_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("root");
        std::fs::create_dir(&path).unwrap();
        let of = |path: &Path| {
            let RootIdentity { device, inode, birth_ns } =
                Root::told(path).unwrap().identity().unwrap();
            let note = Note::new(path.as_os_str().as_bytes(), device, inode, birth_ns);
            Header { root: Some(Box::new(note)), ..Header::default() }
        };
        let noted = of(&path);
        assert_eq!(root_fate(&noted, "x", None), RootFate::Present(path.clone()));
        assert_eq!(root_fate(&of(Path::new("/")), "x", None), RootFate::Own);
        std::fs::rename(&path, path.with_file_name("other")).unwrap();
        assert_eq!(root_fate(&noted, "x", None), RootFate::Gone(Some(path.clone())));
        std::fs::create_dir(&path).unwrap();
        assert_eq!(root_fate(&noted, "x", None), RootFate::Replaced(path));
        let unfound = Header { root: Some(Box::new(Note::new(b"", 1, 2, 3))), ..Header::default() };
        assert_eq!(root_fate(&unfound, "x", None), RootFate::Gone(None));
        assert_eq!(root_fate(&Header::default(), "x", None), RootFate::Own);
    }
}

//! Sums profiles of ended processes in their directory. A death at any moment loses nothing, and nothing counts twice: profiles are put
//! aside before the sum that has them is whole, and are removed before it takes its place; who comes next ends what was begun. Until
//! then what was put aside is not listed.
//!
//! All of it is done under the directory's lock.

use super::prune::is_called_as_the_library_does;
use crate::output_file::replace_in;
use ramson_paths::Directory;
use ramson_source::{Recording, Sum, read_file};
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::io;

/// Behind the name of a profile that is put aside.
const ASIDE: &str = ".summed";
/// Behind the name of a sum that has all that is put aside.
const WHOLE: &str = ".whole";
/// Behind the name of a file that is being written.
const PARTIAL: &str = ".partial";

/// Whether a file is called as sums are.
pub fn is_sum(name: &OsStr) -> bool {
    let key = name.to_str().and_then(|name| name.strip_prefix("sum-")?.strip_suffix(".ramson"));
    key.is_some_and(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn sum_name(key: u64) -> OsString {
    format!("sum-{key:016x}.ramson").into()
}

fn with(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}

/// Adds profiles of the directory to the sum that has this key, and removes them. Returns how many. Profiles that cannot be read stay.
pub fn sum(directory: &Directory, key: u64, names: &[OsString], mut sum: Sum) -> u64 {
    let target = sum_name(key);
    match read(directory, &target) {
        Some(before) => sum.add(&before),
        None if directory.has(&target) => return 0,
        None => {}
    }
    let mut added = Vec::new();
    for name in names.iter().filter(|name| **name != target) {
        let Some(recording) = read(directory, name) else { continue };
        sum.add(&recording);
        added.push(name);
    }
    let summed = put_in_place(directory, &target, &added, &sum.to_bytes());
    if summed.is_err() {
        put_back(directory, &added);
        return 0;
    }
    added.len() as u64
}

fn read(directory: &Directory, name: &OsStr) -> Option<Recording> {
    let opened = directory.open_file(name).ok()?;
    read_file(&directory.path().join(name), &opened.file).ok()
}

fn put_in_place(
    directory: &Directory,
    target: &OsStr,
    added: &[&OsString],
    content: &[u8],
) -> io::Result<()> {
    for name in added {
        directory.rename(name, &with(name, ASIDE))?;
    }
    let whole = with(target, WHOLE);
    replace_in(directory, &whole, None, |out| out.write_all(content))?;
    // From here on it is done, whoever does it.
    for name in added {
        let _ = directory.remove(&with(name, ASIDE));
    }
    let _ = directory.rename(&whole, target);
    Ok(())
}

fn put_back(directory: &Directory, added: &[&OsString]) {
    for name in added {
        let _ = directory.rename(&with(name, ASIDE), name);
    }
}

/// Ends what a process of this user left that died while it summed or compacted.
pub fn finish(directory: &Directory) {
    let Ok(names) = directory.names() else { return };
    let is_left = |name: &OsString| [ASIDE, WHOLE, PARTIAL].iter().any(|it| ends_with(name, it));
    let left: Vec<OsString> = names.filter(is_left).collect();
    let left = left.into_iter().filter(|name| is_own(directory, name));
    let is_profile = |name: &OsStr| is_sum(name) || is_called_as_the_library_does(name);
    let mut aside = Vec::new();
    let mut whole = None;
    for name in left {
        let without = |ending| without(&name, ending).filter(|name| is_profile(name));
        if let Some(before) = without(ASIDE) {
            aside.push((name, before));
        } else if let Some(target) = without(WHOLE) {
            whole = Some((name, target));
        } else if partial_of(&name).is_some_and(|name| is_profile(name.as_ref())) {
            let _ = directory.remove(&name);
        }
    }
    for (name, before) in aside {
        let _ = match whole {
            Some(_) => directory.remove(&name),
            None => directory.rename(&name, &before),
        };
    }
    if let Some((name, target)) = whole {
        let _ = directory.rename(&name, &target);
    }
}

fn is_own(directory: &Directory, name: &OsStr) -> bool {
    directory.open_file(name).is_ok_and(|opened| opened.facts.owner.user == geteuid().as_raw())
}

fn ends_with(name: &OsStr, ending: &str) -> bool {
    name.as_encoded_bytes().ends_with(ending.as_bytes())
}

fn without(name: &OsStr, ending: &str) -> Option<OsString> {
    name.to_str()?.strip_suffix(ending).map(OsString::from)
}

/// Returns the NAME of NAME.PID.partial or NAME.whole.PID.partial.
fn partial_of(name: &OsStr) -> Option<&str> {
    let (name, _) = name.to_str()?.strip_suffix(PARTIAL)?.rsplit_once('.')?;
    Some(name.strip_suffix(WHOLE).unwrap_or(name))
}

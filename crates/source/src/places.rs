//! Places where ramson keeps things: profiles, cached symbols, the library.

use ramson_paths::{Directory, Refusal};
use rustix::process::getuid;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const SHARED: &str = "/var/tmp";
/// Directory of root's profiles if another user has taken their directory's name in /var/tmp.
const ROOTS_OWN: &str = "/var/lib/ramson-0";

/// Fails where /proc is not mounted, as in a root directory that was only unpacked.
pub fn check_proc() -> Result<(), String> {
    match Path::new("/proc/self/exe").symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err("/proc: not mounted, and ramson needs it. Mount it: mount -t proc proc /proc"
                .into())
        }
    }
}

/// Directories in which this user's profiles may lie; root looks at everybody's.
pub fn profile_directories() -> Vec<PathBuf> {
    let own = env::var_os("RAMSON_DIR").map(PathBuf::from);
    if !getuid().is_root() {
        return own.into_iter().chain([usual_directory()]).collect();
    }
    let entries = fs::read_dir(SHARED).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut all: Vec<PathBuf> = paths.filter(|path| usual_owner(path).is_some()).collect();
    all.push(ROOTS_OWN.into());
    all.sort();
    own.into_iter().chain(all).collect()
}

/// Those of them that are there, opened; and of each that is not its user's, a line that says so.
pub fn opened_profile_directories() -> (Vec<Directory>, Vec<String>) {
    let mut opened = Vec::new();
    let mut lines = Vec::new();
    for path in profile_directories() {
        match open_directory(&path) {
            Ok(directory) => opened.push(directory),
            Err(Refusal::Missing) => {}
            Err(refusal) => lines.push(format!("{}: left out: {refusal}", path.display())),
        }
    }
    (opened, lines)
}

/// Opens a directory with profiles. One of the usual name must be that user's own, and only his files count; any other one was chosen by the
/// user who runs this.
pub fn open_directory(path: &Path) -> Result<Directory, Refusal> {
    let Some(owner) = usual_owner(path) else { return Directory::open_chosen(path) };
    let directory = Directory::open(path, owner)?;
    if directory.owner() == owner {
        Ok(directory)
    } else {
        Err(Refusal::OtherOwner(directory.owner()))
    }
}

/// Opens the directory of a file, and the file's name in it.
pub fn open_directory_of(file: &Path) -> Result<(Directory, &OsStr), Refusal> {
    let name = file.file_name().ok_or(Refusal::Missing)?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((open_directory(parent.unwrap_or(Path::new(".")))?, name))
}

/// The user whose directory has this name.
fn usual_owner(path: &Path) -> Option<u32> {
    if path == Path::new(ROOTS_OWN) {
        return Some(0);
    }
    let name = path.strip_prefix(SHARED).ok()?.to_str()?;
    let user = name.strip_prefix("ramson-")?;
    let is_number = user.bytes().all(|byte| byte.is_ascii_digit());
    user.parse().ok().filter(|_| is_number)
}

/// The one of them in which this user's programs put their profiles.
pub fn own_profile_directory() -> PathBuf {
    env::var_os("RAMSON_DIR").map_or_else(usual_directory, PathBuf::from)
}

fn usual_directory() -> PathBuf {
    usual_directory_of(getuid().as_raw())
}

/// The one of them in which a user's programs put their profiles where no variable names another.
pub fn usual_directory_of(user: u32) -> PathBuf {
    let shared = Path::new(SHARED).join(format!("ramson-{user}"));
    let is_taken = user == 0 && objection(&shared, user).is_some();
    if is_taken { ROOTS_OWN.into() } else { shared }
}

/// Why programs of `user` put no profiles into a directory that is there.
pub fn objection(path: &Path, user: u32) -> Option<String> {
    let of_user = usual_owner(path);
    let is_usual = of_user.is_some();
    let opened = match of_user {
        Some(owner) => Directory::open(path, owner),
        None => Directory::open_chosen(path),
    };
    let directory = match opened {
        Ok(directory) => directory,
        Err(Refusal::Missing) => return None,
        Err(refusal) => return Some(refusal.to_string()),
    };
    let owner = directory.owner();
    if !directory.stores_files() {
        return Some("its file system cannot store files".into());
    }
    if is_usual && owner != user {
        return Some(format!("it belongs to user {owner}"));
    }
    if is_usual && !directory.is_private() {
        return Some("other users may enter it; its mode must be 0700".into());
    }
    (!directory.may_be_written_by(user)).then(|| format!("user {user} may not write to it"))
}

/// The directory that keeps answers about binaries from one report to the next.
pub fn symbol_cache() -> Option<PathBuf> {
    Some(cache()?.join("symbols"))
}

/// The directory that keeps debug files from servers.
pub fn fetched_debug_files() -> Option<PathBuf> {
    Some(cache()?.join("debuginfod"))
}

fn cache() -> Option<PathBuf> {
    Some(base_directory("XDG_CACHE_HOME", ".cache")?.join("ramson"))
}

/// The history: what `RAMSON_HISTORY` names, else a place that stays when the machine starts anew.
pub fn history() -> Option<PathBuf> {
    if let Some(path) = set("RAMSON_HISTORY") {
        return Some(path);
    }
    let state = if getuid().is_root() {
        PathBuf::from("/var/lib")
    } else {
        base_directory("XDG_STATE_HOME", ".local/state")?
    };
    Some(state.join("ramson/history.db"))
}

fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// As the XDG base directory specification has them.
fn base_directory(variable: &str, in_home: &str) -> Option<PathBuf> {
    let named = set(variable).filter(|path| path.is_absolute());
    named.or_else(|| Some(set("HOME")?.join(in_home)))
}

/// libramson.so: where `RAMSON_LIBRARY` says, beside this program, or in the usual place relative to it.
pub fn library() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("RAMSON_LIBRARY") {
        let path = PathBuf::from(path);
        return path.canonicalize().map_err(|error| {
            format!("{}: {error}. RAMSON_LIBRARY must name libramson.so", path.display())
        });
    }
    let program =
        env::current_exe().map_err(|error| format!("cannot find ramson's own file: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = [
        "libramson.so",
        "../lib/libramson.so",
        "../lib/ramson/libramson.so",
        "../guest/libramson.so",
    ];
    candidates
        .iter()
        .find_map(|candidate| directory.join(candidate).canonicalize().ok())
        .ok_or_else(|| {
            format!(
                "libramson.so is not next to {}. Put it there, or set RAMSON_LIBRARY to its path",
                program.display()
            )
        })
}

//! Where ramson keeps things: profiles, cached symbols, the library.

use rustix::process::getuid;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const SHARED: &str = "/var/tmp";

/// Directories in which this user's profiles lie; root looks at everybody's.
pub fn profile_directories() -> Vec<PathBuf> {
    let own = env::var_os("RAMSON_DIR").map(PathBuf::from);
    if !getuid().is_root() {
        return own.into_iter().chain([usual_directory()]).collect();
    }
    let is_usual = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let user = name.to_str().and_then(|name| name.strip_prefix("ramson-"));
        user.is_some_and(|user| !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_digit()))
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let entries = fs::read_dir(SHARED).into_iter().flatten().flatten().filter(is_usual);
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    own.into_iter().chain(all).collect()
}

/// The one of them in which this user's programs put their profiles.
pub fn own_profile_directory() -> PathBuf {
    env::var_os("RAMSON_DIR").map_or_else(usual_directory, PathBuf::from)
}

fn usual_directory() -> PathBuf {
    Path::new(SHARED).join(format!("ramson-{}", getuid().as_raw()))
}

/// Where answers about binaries are kept from one report to the next.
pub fn symbol_cache() -> Option<PathBuf> {
    Some(cache()?.join("symbols"))
}

/// Where debug files from servers are kept.
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
    let state = match getuid().is_root() {
        true => PathBuf::from("/var/lib"),
        false => base_directory("XDG_STATE_HOME", ".local/state")?,
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
    let program = env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
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
                "libramson.so is not beside {}. Put it there, or set RAMSON_LIBRARY to its path",
                program.display()
            )
        })
}

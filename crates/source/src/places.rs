//! Where ramson keeps things: profiles, cached symbols, the library.

use rustix::process::getuid;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in which this user's profiles lie; root looks at everybody's.
pub fn profile_directories() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> =
        env::var_os("RAMSON_DIR").map(PathBuf::from).into_iter().collect();
    let shared = Path::new("/var/tmp");
    let uid = getuid().as_raw();
    if uid != 0 {
        directories.push(shared.join(format!("ramson-{uid}")));
        return directories;
    }
    let entries = fs::read_dir(shared).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix("ramson-"));
            digits.is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            }) && entry.file_type().is_ok_and(|kind| kind.is_dir())
        })
        .map(|entry| entry.path())
        .collect();
    all.sort();
    directories.extend(all);
    directories
}

/// The one of them in which this user's programs put their profiles.
pub fn own_profile_directory() -> PathBuf {
    let default = || PathBuf::from(format!("/var/tmp/ramson-{}", getuid().as_raw()));
    env::var_os("RAMSON_DIR").map_or_else(default, PathBuf::from)
}

/// Where answers about binaries are kept from one report to the next.
pub fn symbol_cache() -> Option<PathBuf> {
    Some(cache()?.join("symbols"))
}

/// Where debug files from servers are kept.
pub fn fetched_debug_files() -> Option<PathBuf> {
    Some(cache()?.join("debuginfod"))
}

/// The history: what `RAMSON_HISTORY` names, else a place that stays when the machine starts anew.
pub fn history() -> Option<PathBuf> {
    let is_set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = is_set("RAMSON_HISTORY") {
        return Some(path.into());
    }
    let state = match is_set("XDG_STATE_HOME").map(PathBuf::from) {
        _ if getuid().is_root() => PathBuf::from("/var/lib"),
        Some(state) if state.is_absolute() => state,
        _ => PathBuf::from(is_set("HOME")?).join(".local/state"),
    };
    Some(state.join("ramson/history.db"))
}

fn cache() -> Option<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME") {
        Some(cache) if Path::new(&cache).is_absolute() => PathBuf::from(cache),
        _ => PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?).join(".cache"),
    };
    Some(cache.join("ramson"))
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

//! Why a program left no profile: the cause where it is known, else what to look at.

use super::watch::Ended;
use ramson_source::places::{objection, own_profile_directory, usual_directory_of};
use rustix::process::{Resource, getrlimit, getuid};
use std::env;
use std::path::{Path, PathBuf};

/// Goes after "ramson: ". `output` is where the profile was to be.
pub fn reason(output: Option<&Path>, ended: &Ended) -> String {
    let user = ended.user.unwrap_or(getuid().as_raw());
    let directory = directory_for(output, user);
    let shown = directory.display();
    let objection = objection(&directory, user);
    let has_changed = user != getuid().as_raw();
    if let Some(objection) = objection {
        let who = if has_changed {
            format!("the program changed to user {user}, and ")
        } else {
            String::new()
        };
        return format!(
            "no profile: {who}{shown}: {objection}. Set RAMSON_DIR to a directory of user {user}"
        );
    }
    let unknown = "no profile was made, and ramson does not know why";
    let Some(surroundings) = &ended.surroundings else {
        return if has_changed {
            format!("{unknown}: the program changed to user {user}. Look at {shown}")
        } else {
            "no profile: the program ended at once, and most likely allocated too little to be sampled. Try a smaller --interval".into()
        };
    };
    if let Some(root) = &surroundings.root {
        let place = beneath(root, &directory);
        let parent = place.parent().unwrap_or(root);
        // Without /proc, a process does not know whether a filter forbids to make a file.
        let needed = [parent, &beneath(root, Path::new("/proc/self"))];
        let missing = needed.into_iter().find(|needed| needed.symlink_metadata().is_err());
        return match missing {
            Some(missing) => format!(
                "no profile: the program changed its root directory, and {} does not exist. Provide it, or record the program without that change",
                missing.display()
            ),
            None => format!(
                "{unknown}: the program changed its root directory. Look at {}, and try a smaller --interval",
                place.display()
            ),
        };
    }
    if surroundings.may_be_elsewhere || has_changed {
        return format!(
            "{unknown}: the program changed its user, or has namespaces of its own, where {shown} may be another directory. \
             Set RAMSON_DIR to one that it can write"
        );
    }
    match tight_limit() {
        Some(option) => {
            format!("{unknown}: its limit \"ulimit {option}\" may be too low. Raise it")
        }
        None => {
            "no profile: the program allocated too little to be sampled. Try a smaller --interval"
                .into()
        }
    }
}

/// The option of ulimit(1) for a limit, which the program has from us, under which there may be no profile.
fn tight_limit() -> Option<&'static str> {
    const LEAST: [(Resource, u64, &str); 4] = [
        (Resource::Fsize, 64 << 20, "-f"),
        (Resource::Nofile, 32, "-n"),
        (Resource::As, 128 << 20, "-v"),
        (Resource::Data, 128 << 20, "-d"),
    ];
    let is_tight = |&(resource, least, _): &(Resource, u64, &str)| {
        getrlimit(resource).current.is_some_and(|limit| limit < least)
    };
    LEAST.into_iter().find(is_tight).map(|(_, _, option)| option)
}

/// Directory of the profiles that a program made after it had changed its root directory.
pub fn directory_in_its_root(ended: &Ended) -> Option<PathBuf> {
    let root = ended.surroundings.as_ref()?.root.as_ref()?;
    let user = ended.user.unwrap_or(getuid().as_raw());
    Some(beneath(root, &directory_for(None, user)))
}

fn directory_for(output: Option<&Path>, user: u32) -> PathBuf {
    match output.and_then(Path::parent) {
        Some(directory) => directory.to_path_buf(),
        None if env::var_os("RAMSON_DIR").is_some() => own_profile_directory(),
        None => usual_directory_of(user),
    }
}

fn beneath(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The profile of the program itself, if nothing is left in it.
pub fn emptied(output: Option<&Path>, ended: &Ended) -> Option<PathBuf> {
    let directory = own_profile_directory();
    let path = output.map_or_else(
        || directory.join(format!("{}-{}.ramson", ended.pid, ended.start_ticks)),
        Path::to_path_buf,
    );
    path.metadata().is_ok_and(|facts| facts.len() == 0).then_some(path)
}

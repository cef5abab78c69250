//! Under a seccomp filter libramson makes only the calls of the loader, unless a trial has shown that it
//! may make all of its own. This module makes the trial, with a program that can be spared: ramson itself.

use crate::output::remark;
use ramson_source::places;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The seccomp filters that ramson was started under, and the program will be.
pub enum Filters {
    None,
    /// Number of filters, which allow all calls of libramson.
    Harmless(u64),
    /// The filters forbid a call of libramson, or ramson cannot tell.
    Harmful,
}

impl Filters {
    pub fn find(library: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        // Linux counts them since 5.9.
        match (field("Seccomp:"), field("Seccomp_filters:")) {
            (Some(0), _) => Self::None,
            (_, Some(filters)) if are_harmless(library, filters) => Self::Harmless(filters),
            _ => Self::Harmful,
        }
    }

    pub fn pass_on(&self, command: &mut Command) {
        if let Self::Harmless(filters) = self {
            command.env("RAMSON_SECCOMP", filters.to_string());
        }
    }

    /// Says where the profile of `program` will be if not in a file. True if that was said.
    pub fn warn(&self, program: &Path) -> bool {
        let is_harmful = matches!(self, Self::Harmful);
        if is_harmful {
            remark(format_args!(
                "{}: its seccomp filter may kill it for creating a file, so the profile is only in memory and is lost \
                 when the program ends. Read it before that: ramson report PID",
                program.display()
            ));
        }
        is_harmful
    }
}

fn are_harmless(library: &Path, filters: u64) -> bool {
    // A directory in which the profile will be a file, and one in which no file can be made.
    let directories: [PathBuf; 2] = [places::own_profile_directory(), "/dev/null/none".into()];
    directories.iter().all(|directory| is_harmless(library, directory, filters))
}

fn is_harmless(library: &Path, directory: &Path, filters: u64) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let child = Command::new(program)
        .arg("--version")
        .env("LD_PRELOAD", library)
        .env("RAMSON_DIR", directory)
        .env("RAMSON_INTERVAL", "1")
        .env("RAMSON_SECCOMP", filters.to_string())
        .env_remove("RAMSON_OUTPUT")
        .env_remove("RAMSON_KEEP")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let prefix = format!("{}-", child.id());
    let is_harmless = child.wait().is_ok_and(|status| status.success());
    if !is_harmless {
        // A child that the filter killed leaves its profile behind.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    is_harmless
}

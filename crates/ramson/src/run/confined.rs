//! Under a seccomp filter libramson makes only the calls of the loader, unless a trial has shown that it
//! may make all of its own. This module makes the trial, with a program that can be spared: ramson itself.

use crate::flags::Switch;
use crate::output::remark;
use ramson_source::places;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The seccomp filters that ramson was started under, and the program will be.
pub enum Filters {
    None,
    /// Number of filters, which allow all calls of libramson, but perhaps for those that write hooks inside.
    Harmless {
        filters: u64,
        denies_inside: bool,
    },
    /// The filters forbid a call of libramson, or ramson cannot tell.
    Harmful,
}

impl Filters {
    /// Tries libramson; with hooks inside if `is_inside`.
    pub fn find(library: &Path, is_inside: bool) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        // Linux counts them since 5.9.
        let filters = match (field("Seccomp:"), field("Seccomp_filters:")) {
            (Some(0), _) => return Self::None,
            (_, Some(filters)) => filters,
            _ => return Self::Harmful,
        };
        if is_inside && are_harmless(library, filters, Switch::On) {
            Self::Harmless { filters, denies_inside: false }
        } else if are_harmless(library, filters, Switch::Off) {
            Self::Harmless { filters, denies_inside: is_inside }
        } else {
            Self::Harmful
        }
    }

    pub fn pass_on(&self, command: &mut Command) {
        if let Self::Harmless { filters, denies_inside } = self {
            command.env("RAMSON_SECCOMP", filters.to_string());
            if *denies_inside {
                command.env("RAMSON_INSIDE", Switch::Off.value());
            }
        }
    }

    /// Says where the profile of `program` will be if not in a file, and what will not be in it. True if the first was said.
    pub fn warn(&self, program: &Path) -> bool {
        let program = program.display();
        match self {
            Self::Harmful => remark(format_args!(
                "{program}: its seccomp filter may kill it for creating a file, so the profile is only in memory and is lost \
                 when the program ends. Read it before that: ramson report PID"
            )),
            Self::Harmless { denies_inside: true, .. } => remark(format_args!(
                "{program}: its seccomp filter may kill it for code that is made while it runs, so allocators inside it are not recorded"
            )),
            Self::Harmless { .. } | Self::None => {}
        }
        matches!(self, Self::Harmful)
    }
}

fn are_harmless(library: &Path, filters: u64, inside: Switch) -> bool {
    // A directory in which the profile will be a file, and one in which no file can be made.
    let directories: [PathBuf; 2] = [places::own_profile_directory(), "/dev/null/none".into()];
    directories.iter().all(|directory| is_harmless(library, directory, filters, inside))
}

fn is_harmless(library: &Path, directory: &Path, filters: u64, inside: Switch) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let child = Command::new(program)
        .arg("--version")
        .env("LD_PRELOAD", library)
        .env("RAMSON_DIR", directory)
        .env("RAMSON_INTERVAL", "1")
        .env("RAMSON_SECCOMP", filters.to_string())
        .env("RAMSON_INSIDE", inside.value())
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

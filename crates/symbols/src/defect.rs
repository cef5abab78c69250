//! Parts that are missing from a binary's symbols, and what to do about them.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::Failure;

use crate::rooted::{read_option, read_path, write_buf, write_option};

/// Why frames of a binary have no name, or names without lines. Displays as one line: object, finding, next step.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum SymbolDefect {
    /// There is no file at the binary's path, and no debug file by its build ID.
    BinaryMissing {
        /// As the profile names it.
        path: String,
        /// As the profile names it; may be empty.
        build_id: String,
    },
    /// The file at the binary's path is another build; it was not used.
    BuildIdDiffers {
        /// The file that was looked at.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        /// The profile's build ID.
        wanted: String,
        /// The file's; empty if it has none.
        found: String,
        /// A debug file of the wanted build that names came from, if there was one.
        #[borsh(serialize_with = "write_option", deserialize_with = "read_option")]
        used: Option<PathBuf>,
    },
    /// No function names, or only those that the binary exports.
    NoSymbols {
        /// As the profile names it.
        path: String,
        /// As the profile names it; may be empty.
        build_id: String,
        /// Exported functions have names.
        are_exports_named: bool,
    },
    /// Function names, but no DWARF: no source lines and no inlined calls.
    NoLines {
        /// As the profile names it.
        path: String,
        /// As the profile names it; may be empty.
        build_id: String,
    },
    /// There is DWARF, but for less than half of the addresses that were asked for and have a name.
    FewLines {
        /// As the profile names it.
        path: String,
        /// As the profile names it; may be empty.
        build_id: String,
        /// Addresses with a source line.
        with_lines: usize,
        /// Addresses with a function name.
        named: usize,
    },
    /// DWARF was split (by `dwz`, or by the compiler into `.dwo` files), and a part is not there: some names or
    /// inlined calls are missing.
    SupplementMissing {
        /// The debug file that refers to it.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        /// As the debug file names it.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        supplement: PathBuf,
        /// Build ID of the supplement; empty for a `.dwo` file.
        build_id: String,
    },
    /// The file is damaged, cut, or not ours to read.
    Unreadable {
        /// The file that was looked at.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        /// The fault of the file.
        reason: String,
    },
    /// The file was to be read in a process of its own, which gave no answer.
    NotRead {
        /// The file.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        /// Why.
        failure: Failure,
    },
    /// Debug information told of more than real programs have: more calls inlined into each other, or longer names. The excess is cut.
    Excess {
        /// Frames that were cut off stacks.
        frames: u64,
        /// Names that lost their end.
        names: u64,
    },
    /// Nothing names what is in these: neither their files nor names that were looked up before were found after the process had ended.
    ObjectsLost {
        /// As the profile names them.
        paths: Vec<String>,
        /// Root directory that the files were in.
        root: LostRoot,
    },
    /// A map of code compiled at run time is there, but is not to be used.
    PerfMapRefused {
        /// `perf-PID.map`.
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Code compiled at run time has no names, and the runtime could have told them.
    NoPerfMap {
        /// Distinct addresses.
        addresses: usize,
        /// The runtime's executable.
        runtime: String,
        /// A sentence without the last full stop: what makes it tell.
        remedy: String,
    },
    /// A debuginfod server could not be asked; it is left out from then on.
    ServerFailed {
        /// As in `DEBUGINFOD_URLS`.
        url: String,
        /// Reason of the failure.
        reason: String,
    },
}

/// The root directory of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum LostRoot {
    /// Is still there, or ours.
    Present,
    /// Another one than ours, which is not found any more; where it was, if that is known.
    Gone(
        #[borsh(serialize_with = "write_option", deserialize_with = "read_option")] Option<PathBuf>,
    ),
    /// Another one is at its path.
    Replaced(#[borsh(serialize_with = "write_buf", deserialize_with = "read_path")] PathBuf),
}

impl fmt::Display for SymbolDefect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.line(None))
    }
}

impl SymbolDefect {
    /// The path of the binary whose symbols are not installed.
    pub fn binary(&self) -> Option<&str> {
        match self {
            Self::BinaryMissing { path, .. }
            | Self::NoSymbols { path, .. }
            | Self::NoLines { path, .. }
            | Self::FewLines { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What is missing, and what to do, for one line. `package` has the symbols, if the system knows it.
    pub fn line(&self, package: Option<&str>) -> String {
        let mut line = String::new();
        self.write(&mut line, package).expect("a string takes all");
        // Paths in foreign files may have any bytes: no line is to be forged by them, and no terminal steered.
        line.replace(char::is_control, "\u{fffd}")
    }

    fn write(&self, out: &mut String, package: Option<&str>) -> fmt::Result {
        match self {
            Self::BinaryMissing { path, build_id } => {
                write!(out, "{path}: not on this machine. {}", symbols_of(path, build_id, package))
            }
            Self::BuildIdDiffers { path, wanted, found, used } => {
                write_replaced(out, path, [wanted, found], used.as_deref())
            }
            Self::NoSymbols { path, build_id, are_exports_named } => {
                let finding = if *are_exports_named {
                    "stripped (only exported functions have names)"
                } else {
                    "no symbols"
                };
                write!(out, "{path}: {finding}. {}", symbols_of(path, build_id, package))
            }
            Self::NoLines { path, build_id } => {
                write!(out, "{path}: function names but no source lines. ")?;
                write_lines_of(out, path, build_id, package)
            }
            Self::FewLines { path, build_id, with_lines, named } => {
                write!(out, "{path}: source lines for only {with_lines} of {named} addresses. ")?;
                write_lines_of(out, path, build_id, package)
            }
            Self::SupplementMissing { path, supplement, build_id } => {
                write_missing(out, path, supplement, build_id)
            }
            Self::Unreadable { path, reason } => {
                write!(out, "{}: cannot read symbols ({reason}). ", path.display())?;
                write!(out, "Check the file and its permissions, or pass --debug-path with a copy")
            }
            Self::NotRead { path, failure } => {
                write!(out, "{}: no names: {failure}. {}", path.display(), failure.next_step())
            }
            Self::Excess { frames, names } => write!(
                out,
                "debug information: {frames} frames and {names} names exceed what real programs have and were cut. Totals are unchanged"
            ),
            Self::ObjectsLost { paths, root } => write_lost(out, paths, root),
            Self::PerfMapRefused { path, reason } => {
                let path = path.display();
                write!(out, "{path}: not used ({reason}). Remove it and restart the program")
            }
            Self::NoPerfMap { addresses, runtime, remedy } => {
                write!(out, "{runtime}: {addresses} addresses of compiled code have no names. ")?;
                write!(out, "{remedy}")
            }
            Self::ServerFailed { url, reason } => {
                write!(out, "{url}: no debug files from this server ({reason}). ")?;
                write!(
                    out,
                    "Check DEBUGINFOD_URLS; DEBUGINFOD_TIMEOUT and DEBUGINFOD_MAXTIME allow more seconds"
                )
            }
        }
    }
}

fn write_missing(out: &mut String, path: &Path, supplement: &Path, build_id: &str) -> fmt::Result {
    let path = path.display();
    let supplement = supplement.display();
    write!(out, "{path}: its debug information needs {supplement}, which is missing")?;
    match build_id {
        "" => write!(out, ". Keep the .dwo files, or put a .dwp file next to it"),
        _ => write!(out, " (build ID {build_id}). Install the rest of its debug package"),
    }
}

/// `[wanted, found]` are build IDs.
fn write_replaced(
    out: &mut String,
    path: &Path,
    [wanted, found]: [&str; 2],
    used: Option<&Path>,
) -> fmt::Result {
    let found = match found {
        "" => "no build ID".to_owned(),
        _ => format!("build ID {found}"),
    };
    write!(out, "{}: replaced since the profile was taken ({found}", path.display())?;
    write!(out, ", profiled {wanted}); not used. ")?;
    match used {
        Some(used) => write!(out, "Names are from {}", used.display()),
        None => {
            write!(out, "Restart the program, or pass --debug-path with symbols of the old build")
        }
    }
}

fn write_lost(out: &mut String, paths: &[String], root: &LostRoot) -> fmt::Result {
    const MOST: usize = 3;
    let name = |path: &String| path.rsplit('/').next().map(str::to_owned);
    let shown: Vec<String> = paths.iter().take(MOST).filter_map(name).collect();
    out.push_str(&shown.join(", "));
    if paths.len() > MOST {
        write!(out, " and {} more", paths.len() - MOST)?;
    }
    match root {
        LostRoot::Present => out.write_str(
            ": without names, because they were replaced or removed since the profile was taken. Pass --debug-path with symbols of the old builds, \
             or --sysroot with the root directory that the program saw",
        ),
        LostRoot::Gone(path) => {
            let path = path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
            write!(
                out,
                ": the program's root directory{path} is gone, so functions that no report named before have no \
                 names. Pass --sysroot with a copy of it"
            )
        }
        LostRoot::Replaced(path) => write!(
            out,
            ": {}, the program's root directory, has been replaced, so functions that no report named before have no \
             names. Pass --sysroot with a copy of the old one",
            path.display()
        ),
    }
}

/// Of a binary that no package has, the user may be the one who builds it.
fn write_lines_of(
    out: &mut String,
    path: &str,
    build_id: &str,
    package: Option<&str>,
) -> fmt::Result {
    if package.is_none() {
        out.write_str("Build it with -g. ")?;
    }
    out.write_str(&symbols_of(path, build_id, package))
}

fn symbols_of(path: &str, build_id: &str, package: Option<&str>) -> String {
    if let Some(package) = package {
        return format!("Install {package}, or pass --debuginfod or --debug-path");
    }
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    match build_id.get(..12) {
        Some(prefix) => format!(
            "Install the debug symbols of {file} (build ID {prefix}…), pass --debuginfod or --debug-path"
        ),
        None => {
            format!("Install the debug symbols of {file} or pass --debug-path")
        }
    }
}

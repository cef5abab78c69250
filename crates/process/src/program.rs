//! Which file a command is, and whether a library can be preloaded into it.

use crate::binary::Content;
use crate::search::{Found, Search};
use crate::{Binary, watched};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Architecture, Object};
use ramson_apart::proc::is_inside;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Shell that runs a script that does not name its interpreter, as execvp(3) does.
const SHELL: &str = "/bin/sh";
/// Most interpreters of interpreters that the kernel follows.
const MAX_SCRIPTS: usize = 5;
const KERNEL_RELEASE: &str = "/proc/sys/kernel/osrelease";
/// The first that knows MADV_WIPEONFORK.
const OLDEST_KERNEL: (u32, u32) = (4, 14);
/// Works on every process.
const DOCTOR: &str = "Without a profile, \"ramson explain PID\" explains its memory";
const SETS_IDS: &str = "set-user-ID or set-group-ID, so the loader preloads nothing";
/// Of a Go program that is statically linked.
pub const STATIC_GO: &str = "a Go program without C, so there is nothing to preload into";
const GO_PROFILE: &str = "Go's own heap profile is read while it runs: \"ramson report PID\"";
/// As much of a binary as has its headers and interpreter.
const HEAD_BYTES: u64 = 64 << 10;

/// A program that can be started.
pub struct Program {
    /// Path at which the program was found.
    pub path: PathBuf,
    /// Why it cannot be profiled, and what to do.
    pub obstacle: Option<Obstacle>,
}

/// Why a program cannot be profiled. Displays as two sentences without the last full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Reason why the program cannot be profiled.
    pub finding: String,
    /// Action that can be taken instead.
    pub remedy: String,
}

impl Obstacle {
    /// Two sentences without full stops.
    pub fn new(finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { finding: finding.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}. {}", self.finding, self.remedy)
    }
}

/// A program that cannot be started.
pub enum Problem {
    /// There is no such file.
    NotFound(String),
    /// It may not be executed.
    NotExecutable(String),
}

/// Finds a command as a shell would.
pub fn find(command: &OsStr) -> Result<Program, Problem> {
    let path = locate(command).ok_or_else(|| {
        Problem::NotFound(format!("{}: no such command in PATH", command.to_string_lossy()))
    })?;
    let shown = path.display();
    let error = path.metadata().err().map(|error| error.kind());
    if error.is_some_and(|kind| kind != io::ErrorKind::NotADirectory) {
        return Err(Problem::NotFound(format!("{shown}: no such file")));
    }
    if !is_executable(&path) {
        let what = if path.is_dir() { "a directory" } else { "not executable" };
        return Err(Problem::NotExecutable(format!("{shown}: {what}. Pass a program")));
    }
    let obstacle =
        obstacle(&path).or_else(|| obstacle_of_kernel(&fs::read_to_string(KERNEL_RELEASE).ok()?));
    Ok(Program { obstacle, path })
}

fn locate(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(command.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let candidates = || std::env::split_paths(&path).map(|directory| directory.join(command));
    candidates()
        .find(|path| is_executable(path))
        .or_else(|| candidates().find(|path| path.exists()))
}

/// Why this kernel, of which this is the release, can run no program under ramson, if so.
fn obstacle_of_kernel(release: &str) -> Option<Obstacle> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let version = (number()?, number()?);
    (version < OLDEST_KERNEL).then(|| {
        let finding = format!(
            "Linux {} cannot keep forked children out of their parent's profile: ramson needs 4.14",
            release.trim()
        );
        Obstacle::new(finding, DOCTOR)
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The binary that runs a program: the file itself, or what runs a script.
pub fn binary_of(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_SCRIPTS {
        let runs = match read_head(&path) {
            Some(head) if head.starts_with(b"#!") => interpreter_of_script(&head[2..]),
            // A script that does not say what runs it.
            Some(head) if !head.starts_with(&elf::ELFMAG) => Some(SHELL.into()),
            // The kernel may execute what its user may not read.
            _ => None,
        };
        match runs {
            Some(runs) => path = runs,
            None => break,
        }
    }
    path
}

/// Why a program cannot be profiled, if so. Follows scripts to their interpreter and looks at that.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    let path = binary_of(path);
    privileges_gained(&path).or_else(|| obstacle_of_binary(&read_head(&path)?))
}

fn read_head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

fn interpreter_of_script(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let interpreter = PathBuf::from(OsStr::from_bytes(words.next()?));
    // env(1) looks up its first argument.
    let command = words.find(|word| !word.starts_with(b"-"));
    let command = command.filter(|_| interpreter.ends_with("env"));
    Some(command.and_then(|command| locate(OsStr::from_bytes(command))).unwrap_or(interpreter))
}

/// Whether a process runs a program of 32 bits; one that cannot be read is none.
pub fn is_32_bit(pid: u32) -> bool {
    Binary::executable(pid)
        .is_some_and(|binary| matches!(binary.search(Search::Is32Bit), Found::Yes))
}

/// Why the program that a process runs cannot be profiled, if so.
pub fn obstacle_of_running(pid: u32) -> Option<Obstacle> {
    let is_ours = watched::owner_of(pid).ok()?.is_none();
    let privileges = is_ours.then(|| privileges_gained(Path::new(&format!("/proc/{pid}/exe"))));
    privileges.flatten().or_else(|| {
        let found = Binary::executable(pid)?.search(Search::Obstacle).all_texts();
        let [finding, remedy] = found.try_into().ok()?;
        Some(Obstacle { finding, remedy })
    })
}

/// The same of a program's file, as finding and remedy. Nothing more is asked of its file system, which may never answer: the bits count on a
/// mount with nosuid, too. File capabilities change nothing for root.
pub(crate) fn obstacle_in(content: &Content) -> Vec<String> {
    let mode = content.mode();
    let sets_ids = is_inside() && (mode & 0o4000 != 0 || mode & 0o2010 == 0o2010);
    let obstacle = if sets_ids {
        Some(Obstacle::new(SETS_IDS, "Run a copy of the program without the bit"))
    } else {
        content.piece(0).and_then(|head| obstacle_of_binary(&head))
    };
    obstacle.map_or_else(Vec::new, |it| vec![it.finding, it.remedy])
}

/// Finds the rights that a program gets and its user lacks, by the rules of bprm_fill_uid and cap_bprm_creds_from_file in the kernel: the loader is
/// in secure mode then (`AT_SECURE`). For root, a file's capabilities change nothing.
fn privileges_gained(path: &Path) -> Option<Obstacle> {
    if rustix::fs::statvfs(path)
        .is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
    {
        return None;
    }
    let metadata = fs::metadata(path).ok()?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let may_gain = !rustix::thread::no_new_privs().unwrap_or(false);
    let mode = metadata.mode();
    let sets_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let sets_group = mode & 0o2010 == 0o2010 && metadata.gid() != group.as_raw();
    if may_gain && (sets_user || sets_group) {
        // For its owner, the bit changes nothing.
        let remedy = if sets_user {
            format!("Run ramson as user {}: sudo -u '#{0}' ramson run", metadata.uid())
        } else {
            "Run a copy of the program without the bit".into()
        };
        return Some(Obstacle::new(SETS_IDS, remedy));
    }
    let has_capabilities = capabilities_of(path)
        .is_some_and(|(is_effective, permitted)| is_effective || may_gain && permitted != 0);
    (has_capabilities && !user.is_root()).then(|| {
        let finding = "it has capabilities (getcap FILE), so the loader preloads nothing";
        Obstacle::new(
            finding,
            "Run ramson as root, for whom capabilities change nothing, or run a copy of the program without them",
        )
    })
}

/// Whether a file's capabilities are in effect at once, and which it permits: `struct vfs_cap_data` of linux/capability.h.
fn capabilities_of(path: &Path) -> Option<(bool, u64)> {
    const EFFECTIVE: u32 = 1;
    let mut value = [0; 24];
    rustix::fs::getxattr(path, "security.capability", &mut value[..]).ok()?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| value[at + byte]));
    Some((word(0) & EFFECTIVE != 0, u64::from(word(12)) << 32 | u64::from(word(4))))
}

fn obstacle_of_binary(head: &[u8]) -> Option<Obstacle> {
    if head.get(4) == Some(&elf::ELFCLASS32.0) {
        let finding = "a 32-bit program; ramson profiles only 64-bit ones";
        return Some(Obstacle::new(finding, "Profile a build for x86-64"));
    }
    let header = elf::FileHeader64::<object::Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        let architecture =
            ElfFile64::<object::Endianness>::parse(head).map(|file| file.architecture());
        let name = architecture.unwrap_or(Architecture::Unknown);
        let finding = format!(
            "a program for another architecture ({name:?}); this ramson profiles only x86-64"
        );
        return Some(Obstacle::new(finding, "Profile a build for x86-64"));
    }
    let headers = header.program_headers(endian, head).ok()?;
    let interpreter =
        headers.iter().find_map(|header| header.interpreter(endian, head).ok().flatten());
    match interpreter {
        None if headers.iter().any(|header| has_go_note(header, endian, head)) => {
            Some(Obstacle::new(STATIC_GO, GO_PROFILE))
        }
        None => Some(Obstacle::new(
            "statically linked, so nothing can be preloaded",
            "Link it dynamically (without -static; Rust: -C target-feature=-crt-static); until then, \"ramson explain PID\" explains its memory",
        )),
        Some(loader) if loader.windows(4).any(|part| part == b"musl") => Some(Obstacle::new(
            "linked with musl; ramson profiles only programs with glibc",
            "Build it for glibc (Rust: --target x86_64-unknown-linux-gnu; in a container: a Debian image in place of Alpine)",
        )),
        Some(_) => None,
    }
}

/// Whether a program header is of the note that Go's linker writes.
fn has_go_note(
    header: &elf::ProgramHeader64<object::Endianness>,
    endian: object::Endianness,
    head: &[u8],
) -> bool {
    let notes = header.notes(endian, head).ok().flatten();
    let mut notes = notes.into_iter().flatten().map_while(Result::ok);
    notes.any(|note| note.name() == b"Go")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_interpreter_is_found_through_env() {
        assert_eq!(interpreter_of_script(b" /bin/sh -e\nx"), Some("/bin/sh".into()));
        let through_env = interpreter_of_script(b"/usr/bin/env sh\n").unwrap();
        assert!(through_env.ends_with("sh"), "{through_env:?}");
    }

    #[test]
    fn old_kernels_are_an_obstacle() {
        for old in ["3.10.0-1160.el7.x86_64\n", "4.13.99", "2.6.32"] {
            assert!(
                obstacle_of_kernel(old).is_some_and(|why| why.finding.contains("needs 4.14")),
                "{old}"
            );
        }
        for new in ["4.14.0-1-amd64\n", "4.19", "5.4.0", "6.18.44-fc", "10.0", "", "linux", "4"] {
            assert_eq!(obstacle_of_kernel(new), None, "{new}");
        }
    }

    #[test]
    fn damaged_program_never_panics() {
        assert_eq!(obstacle(Path::new("/bin/ls")), None);
        let head = read_head(Path::new("/bin/ls")).unwrap();
        for length in (0..4096).step_by(7) {
            obstacle_of_binary(&head[..length]);
        }
    }
}

//! Which allocators a process has, and whose statistics can be read.

use crate::areas::anonymous_bytes;
use crate::asked::STATISTICS;
use crate::glibc::{self, Effort, Statistics};
use crate::go_variables::Runtime;
use crate::identify::{self, AllocatorKind};
use crate::part::Part;
use crate::search::{Found, Search};
use crate::{Area, Binary, ProcessMemory, executable, program, watched};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, proc};
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Beside another allocator, the C library's own counts from this part of the anonymous memory on.
const LEAST_SHARE: f64 = 0.1;
/// Follows the name of an allocator that is linked into the executable.
pub const IN_EXECUTABLE: &str = " in the executable";
/// How such an allocator is recorded.
pub const INSIDE_ON: &str = "\"ramson run --inside on\" records it";
/// The same in a program that runs without ramson, or is attached to.
pub const ATTACH_INSIDE: &str = "\"ramson attach --inside\" records it";
/// The kernel starts no program with more arguments and variables; one that runs may show any length.
const MOST_VARIABLES_BYTES: u64 = 6 << 20;

/// All that are there.
#[derive(Default, Serialize, schemars::JsonSchema, BorshSerialize, BorshDeserialize)]
pub struct Allocators {
    /// The C library's own.
    pub glibc: Option<Allocator>,
    /// One that is mapped or linked into the executable beside it.
    #[serde(serialize_with = "without_kind")]
    #[schemars(with = "Option<Allocator>")]
    pub other: Option<(AllocatorKind, Allocator)>,
    /// Variables that the process was started with.
    #[serde(rename = "environment", serialize_with = "as_map")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub settings: Vec<(String, String)>,
    /// Version of the C library.
    #[serde(skip)]
    pub version: Option<(u32, u32)>,
    /// The executable is of 32 bits.
    #[serde(skip)]
    pub is_32_bit: bool,
    /// It is a Go program, whose runtime has its variables there.
    #[serde(skip)]
    pub go: Option<Runtime>,
}

/// One of them.
#[derive(Clone, Serialize, schemars::JsonSchema, BorshSerialize, BorshDeserialize)]
pub struct Allocator {
    /// Name and version.
    pub name: String,
    /// The file, and whether it was preloaded.
    pub origin: String,
    /// The file.
    #[serde(skip)]
    pub path: String,
    /// The variable of the environment that configures a jemalloc inside the executable.
    pub variable: Option<String>,
}

/// Statistics that an allocator reported about itself when ramson asked it.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Figures {
    /// Its function.
    pub function: &'static str,
    /// By the allocator's own names. Bytes.
    #[serde(serialize_with = "as_map")]
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub figures: Vec<(&'static str, u64)>,
    /// The parts of RSS that follow from it; last what is most likely to be in part not resident.
    #[serde(skip)]
    pub parts: Vec<(Part, u64)>,
    /// The thread on which it was asked …
    pub tid: i32,
    /// … its name …
    #[serde(skip)]
    pub thread: String,
    /// … and how long that was stopped.
    #[serde(rename = "stopped_ms", serialize_with = "milliseconds")]
    #[schemars(with = "f64")]
    pub stopped: Duration,
}

fn without_kind<S: Serializer>(
    other: &Option<(AllocatorKind, Allocator)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&other.as_ref().map(|(_, allocator)| allocator), serializer)
}

fn as_map<S: Serializer, K: Serialize, V: Serialize>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_micros() as f64 / 1e3)
}

/// Why there are no statistics.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub enum Missing {
    /// The memory may not be read, so that it is not known either which allocator has it.
    Denied {
        /// The finding.
        why: String,
        /// The next step.
        next: String,
    },
    /// They are another allocator's.
    Unreadable(AllocatorKind),
    /// The C library's cannot be read.
    Refused(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Denied { why, next } => write!(f, "{why}. {next}"),
            Self::Unreadable(kind) => f.write_str(unreadable(*kind)),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl Allocators {
    /// Those of process `pid`.
    pub fn of(pid: u32, areas: &[Area]) -> Self {
        let environ = watched::start(pid, "environ", MOST_VARIABLES_BYTES).unwrap_or_default();
        let settings = identify::settings(&environ);
        let preload = settings.iter().find(|(name, _)| name == "LD_PRELOAD");
        let preload = preload.map_or("", |(_, list)| list);
        let library = areas.iter().find(|area| identify::is_libc(area));
        let version = library.and_then(|library| {
            match Binary::mapped(pid, library)?.search(Search::GlibcVersion) {
                Found::Version(version, package) => Some((version, package)),
                _ => None,
            }
        });
        let name = match &version {
            Some(((major, minor), package)) => format!("glibc {major}.{minor} ({package})"),
            None => "glibc of unknown version".into(),
        };
        let glibc = library.map(|library| Allocator::new(name, preload, &library.path));
        Self {
            glibc,
            other: other(pid, areas, preload),
            version: version.map(|(version, _)| version),
            is_32_bit: program::is_32_bit(pid),
            settings,
            go: Runtime::of(pid).and_then(Result::ok),
        }
    }

    /// Whether a library of its own replaces the C library's malloc.
    pub fn is_replaced(&self) -> bool {
        self.other.as_ref().is_some_and(|(kind, _)| *kind != AllocatorKind::InProgram)
    }

    /// The one that is linked into the executable, which is recorded only if that was asked for at its start.
    pub fn inside(&self) -> Option<&Allocator> {
        match &self.other {
            Some((AllocatorKind::InProgram, allocator)) => Some(allocator),
            _ => None,
        }
    }

    /// The C library's statistics, or why they cannot be read or do not matter.
    pub fn statistics(
        &self,
        memory: &ProcessMemory,
        areas: &[Area],
        effort: Effort,
    ) -> Result<Statistics, Missing> {
        if let ProcessMemory::Theirs(by, pid) = memory {
            return self.their_statistics(by, *pid, effort);
        }
        let library = identify::data_of_libc(areas);
        let statistics = self
            .readable_version()
            .and_then(|version| glibc::read(memory, areas, &library, version, effort));
        let Some((kind, _)) = self.other else { return statistics.map_err(Missing::Refused) };
        let least_bytes = LEAST_SHARE * anonymous_bytes(areas) as f64;
        statistics
            .ok()
            .filter(|statistics| statistics.taken_bytes() as f64 >= least_bytes)
            .ok_or(Missing::Unreadable(kind))
    }

    /// The same, read by a worker.
    fn their_statistics(
        &self,
        by: &Apart,
        pid: u32,
        effort: Effort,
    ) -> Result<Statistics, Missing> {
        let said =
            |failure: Failure| Missing::Refused(format!("{failure}. {}", failure.next_step()));
        let told: Result<Statistics, Missing> =
            by.ask_for(STATISTICS, &(pid, self, effort)).map_err(said)?;
        let is_possible = told.as_ref().ok().is_none_or(Statistics::is_possible);
        if is_possible { told } else { Err(said(Failure::BadAnswer)) }
    }

    fn readable_version(&self) -> Result<(u32, u32), String> {
        let why = match self.version {
            _ if self.glibc.is_none() => "no C library is mapped, so its allocator is not known",
            _ if self.is_32_bit => "a 32-bit program, whose malloc ramson cannot read",
            Some(version) => return Ok(version),
            None => "the C library's file cannot be read, so its version is not known",
        };
        Err(why.into())
    }
}

fn other(pid: u32, areas: &[Area], preload: &str) -> Option<(AllocatorKind, Allocator)> {
    if let Some((kind, area)) = identify::replacing_allocator(areas, preload) {
        let is_jemalloc = kind == AllocatorKind::Jemalloc;
        let library = is_jemalloc.then(|| Binary::mapped(pid, area)).flatten();
        let version = library.and_then(|library| library.search(Search::JemallocVersion).text());
        let name = format!("{kind:?}").to_lowercase();
        let name = version.map_or(name.clone(), |version| format!("{name} {version}"));
        return Some((kind, Allocator::new(name, preload, &area.path)));
    }
    let may_be_static = !areas.iter().any(identify::is_libc);
    let name = executable::allocator_in_executable(pid, may_be_static)?;
    let path = proc::link(&format!("{pid}/exe")).ok()?.display().to_string();
    let variable = || Binary::executable(pid)?.search(Search::JemallocVariable).text();
    let variable = (name == "jemalloc").then(variable).flatten();
    Some((AllocatorKind::InProgram, Allocator { variable, ..Allocator::inside(name, path) }))
}

impl Allocator {
    pub(crate) fn inside(name: String, path: String) -> Self {
        Self { name, origin: "in the executable".into(), path, variable: None }
    }

    /// Why ramson records nothing of it, for one that is linked into the executable: `its allocator, jemalloc, is linked into …`.
    pub fn unseen(&self) -> String {
        self.unseen_because(INSIDE_ON)
    }

    /// The same, with another reason than that nobody asked for it.
    pub fn unseen_because(&self, why: &str) -> String {
        format!("its allocator, {}, is linked into the executable: {why}", self.name)
    }

    /// Variables with which the program is started so that the allocator returns free memory; `None`: it has none.
    pub fn returning(&self) -> Option<String> {
        let variable = self.variable.as_deref().unwrap_or("MALLOC_CONF");
        Some(match self.name.split(' ').next()? {
            "jemalloc" => {
                format!("{variable}=background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0")
            }
            "tcmalloc" => "TCMALLOC_AGGRESSIVE_DECOMMIT=1".into(),
            "mimalloc" => "MIMALLOC_PURGE_DELAY=0 (before 2.1: MIMALLOC_RESET_DELAY=0)".into(),
            _ => return None,
        })
    }

    /// Variables with which the allocator prints its statistics when the program exits.
    pub fn reporting(&self) -> Option<String> {
        let variable = self.variable.as_deref().unwrap_or("MALLOC_CONF");
        Some(match self.name.split(' ').next()? {
            "jemalloc" => format!("{variable}=stats_print:true"),
            "tcmalloc" => "MALLOCSTATS=1".into(),
            "mimalloc" => "MIMALLOC_SHOW_STATS=1".into(),
            _ => return None,
        })
    }

    fn new(name: String, preload: &str, path: &str) -> Self {
        let is_preloaded = identify::is_preloaded(preload, path);
        let origin = if is_preloaded { format!("preloaded, {path}") } else { path.to_owned() };
        Self { name, origin, path: path.to_owned(), variable: None }
    }
}

/// Says what ramson cannot know of another allocator from outside.
fn unreadable(kind: AllocatorKind) -> &'static str {
    match kind {
        AllocatorKind::Jemalloc => {
            "jemalloc's arenas cannot be read from outside: its free memory (dirty and muzzy pages, tcaches) is part of the \
             anonymous memory. --ask makes it report its statistics, on a thread that is stopped for that; \
             MALLOC_CONF=stats_print:true prints them at exit"
        }
        AllocatorKind::Tcmalloc => {
            "tcmalloc's page heap cannot be read from outside: its free memory is part of the anonymous memory. --ask makes it report \
             its statistics, on a thread that is stopped for that; MALLOCSTATS=1 prints them at exit"
        }
        AllocatorKind::Mimalloc => {
            "mimalloc's segments cannot be read from outside: its free memory is part of the anonymous memory. The program can call \
             mi_stats_print; MIMALLOC_SHOW_STATS=1 prints the same at exit"
        }
        AllocatorKind::Musl => {
            "musl's malloc cannot be read from outside: its free memory is part of the anonymous memory"
        }
        AllocatorKind::InProgram => {
            "an allocator inside the executable cannot be read from outside: its free memory is part of the anonymous memory"
        }
    }
}

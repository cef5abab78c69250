//! Programs that keep memory for one cause each (`tests/programs/keeps.c`), and what `ramson explain` says of them.

use crate::program_with;
use crate::servers::*;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every part of RSS.
const PARTS: [&str; 34] = [
    "live",
    "allocated_before_the_attach_or_not_seen",
    "free_top",
    "free_whole_pages",
    "free_in_used_pages",
    "free_fastbins",
    "free_tcaches",
    "freed_lazily",
    "allocator_metadata",
    "held_by_allocator",
    "free_whole_pages_inside",
    "free_in_used_pages_inside",
    "go_live",
    "go_not_collected",
    "go_unused",
    "free_in_go",
    "inherited_from_parent",
    "copied_from_parent",
    "mmap",
    "stacks",
    "stacks_of_ended_threads",
    "thread_local_variables",
    "stacks_of_goroutines",
    "go_runtime",
    "code",
    "data",
    "files",
    "shared_memory",
    "kernel",
    "ramson",
    "other_anonymous",
    "huge_page_padding",
    "not_walked",
    "changed_during_measurement",
];
/// Every term of RSS, in its order.
pub const TERMS: [&str; 18] = [
    "live",
    "allocated_before_the_attach_or_not_seen",
    "free_in_allocator",
    "freed_lazily",
    "allocator_metadata",
    "held_by_allocator",
    "go_heap",
    "free_in_go",
    "inherited_from_parent",
    "mmap",
    "stacks",
    "code_and_data",
    "files",
    "shared_memory",
    "kernel",
    "ramson",
    "other_anonymous",
    "changed_during_measurement",
];
/// Bytes.
pub const MIB: f64 = 1048576.0;

/// A program that keeps memory for one cause, and what it said last.
pub struct Keeping {
    /// The program.
    pub running: Running,
    /// File that its output goes to.
    pub log: PathBuf,
}

impl Keeping {
    /// Starts it with a changed environment, and waits until it keeps.
    pub fn start(scratch: &Scratch, arguments: &[&str], set: impl Fn(&mut Command)) -> Self {
        let program = program_with("keeps.c", "keeps", &["-Wno-deprecated-declarations"]);
        Self::start_program(scratch, program, arguments, set)
    }

    /// The same program, built otherwise.
    pub fn start_program(
        scratch: &Scratch,
        program: PathBuf,
        arguments: &[&str],
        set: impl Fn(&mut Command),
    ) -> Self {
        // Programs with the same arguments may differ in their environment.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let log = scratch.path(&format!("log-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
        let mut command = clean(program);
        command.args(arguments);
        set(&mut command);
        let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
        let keeping = Self { running: Running::start(&mut command, &log, is_ready), log };
        // Those of `busy` never do.
        let has_quiet_threads = !arguments.contains(&"busy");
        keeping.until_it_waits(has_quiet_threads);
        keeping
    }

    /// On its way there, pages of files come. `all`: not only the first thread.
    fn until_it_waits(&self, all: bool) {
        let sleeps = |tid: u32| {
            let stat = fs::read(format!("/proc/{}/task/{tid}/stat", self.pid())).unwrap();
            String::from_utf8_lossy(&stat)
                .rsplit_once(") ")
                .is_some_and(|(_, fields)| fields.starts_with('S'))
        };
        wait_until("it waits", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let names = threads.map(|thread| thread.unwrap().file_name());
            let mut tids = names.map(|name| name.to_str().unwrap().parse().unwrap());
            tids.all(|tid: u32| tid != self.pid() && !all || sleeps(tid))
        });
    }

    /// Starts it.
    pub fn plain(scratch: &Scratch, arguments: &[&str]) -> Self {
        Self::start(scratch, arguments, |_| {})
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// The number that it said last on a line `name number`.
    #[track_caller]
    pub fn said(&self, name: &str) -> f64 {
        let text = fs::read_to_string(&self.log).unwrap();
        let mut lines = text.lines().rev();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Has it call `malloc_trim`.
    pub fn trim(&self) {
        self.tell("USR1");
    }

    /// Has it say again what it keeps.
    pub fn ask(&self) {
        self.tell("USR2");
    }

    fn tell(&self, signal: &str) {
        let count = |text: &str| text.matches("ready").count();
        let before = count(&fs::read_to_string(&self.log).unwrap());
        self.running.signal(signal);
        wait_until("it says so", || count(&fs::read_to_string(&self.log).unwrap()) > before);
        self.until_it_waits(false);
    }

    /// By smaps, as explain sums it.
    pub fn rss(&self) -> f64 {
        sum_of(&fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap(), "Rss:")
    }

    /// The present bits of all pages of anonymous memory.
    pub fn present_pages(&self) -> Vec<(u64, bool)> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let pagemap = File::open(format!("/proc/{}/pagemap", self.pid())).unwrap();
        let mut pages = Vec::new();
        for line in maps.lines().filter(|line| !line.contains('/') && !line.contains("[v")) {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let page = |text| u64::from_str_radix(text, 16).unwrap() / 4096;
            for page in page(start)..page(end) {
                let mut entry = [0; 8];
                pagemap.read_exact_at(&mut entry, page * 8).unwrap();
                pages.push((page, entry[7] & 0x80 != 0));
            }
        }
        pages
    }
}

fn sum_of(smaps: &str, key: &str) -> f64 {
    let values = smaps.lines().filter_map(|line| line.strip_prefix(key));
    values.map(|value| value.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0).sum()
}

/// Returns the answer of explain for a process, with every chunk walked.
#[track_caller]
pub fn explain(scratch: &Scratch, pid: u32) -> Json {
    explain_with(scratch, pid, &["--exact"])
}

/// Returns the answer of explain for a process, and fails unless its parts add up.
#[track_caller]
pub fn explain_with(scratch: &Scratch, pid: u32, options: &[&str]) -> Json {
    let mut command = ramson(scratch);
    let outcome =
        finish(command.args(["explain", "--json", &pid.to_string()]).args(options)).good();
    let json = Json::parse(&outcome.text());
    assert_adds_up(&json);
    json
}

/// A part of RSS.
pub fn part(json: &Json, name: &str) -> f64 {
    json.number(&format!("parts.{name}"))
}

/// Fails unless RSS is the sum of its parts.
#[track_caller]
pub fn assert_adds_up(json: &Json) {
    let sum: f64 = PARTS.iter().map(|name| part(json, name)).sum();
    assert_eq!(sum, json.number("rss.bytes"), "{json:?}");
    assert_terms_add_up(json);
    let changed = "changed_during_measurement";
    let negative = PARTS.iter().find(|&&name| name != changed && part(json, name) < 0.0);
    assert_eq!(negative, None, "{json:?}");
}

/// A term of RSS; bytes.
pub fn term(json: &Json, name: &str) -> f64 {
    json.number(&format!("rss.terms.{name}.value"))
}

/// Fails unless RSS is the sum of its terms.
#[track_caller]
pub fn assert_terms_add_up(json: &Json) {
    let sum: f64 = TERMS.iter().map(|name| term(json, name)).sum();
    assert_eq!(sum, json.number("rss.bytes"), "{json:?}");
}

/// The sum over the arenas.
pub fn arenas(json: &Json, key: &str) -> f64 {
    json.list("statistics.arenas").iter().map(|arena| arena.number(key)).sum()
}

/// Fails unless every number is the one that the allocator itself has. The process must be idle.
#[track_caller]
pub fn assert_agrees(keeping: &Keeping, json: &Json) {
    assert_eq!(json.number("rss.bytes"), keeping.rss());
    assert_eq!(part(json, "changed_during_measurement"), 0.0, "{json:?}");
    assert_eq!(part(json, "not_walked"), 0.0);
    assert_eq!(json.number("statistics.not_walked_share"), 0.0);
    assert_eq!(arenas(json, "system_bytes"), keeping.said("arena "));
    assert_eq!(arenas(json, "free_bytes"), keeping.said("fordblks "));
    assert_eq!(arenas(json, "fastbins.bytes"), keeping.said("fsmblks "));
    assert_eq!(json.number("statistics.mapped_chunks.bytes"), keeping.said("hblkhd "));
    assert_eq!(json.number("statistics.mapped_chunks.chunks"), keeping.said("hblks "));
    // Beside the chunks in use there are only the headers of heaps.
    let in_use = arenas(json, "in_use.bytes") - arenas(json, "fastbins.bytes");
    let headers = keeping.said("uordblks ") - in_use;
    assert!((0.0..=4096.0 * arenas(json, "heaps")).contains(&headers), "{headers} {json:?}");
}

//! Files in /proc that make their reader wait for the process, which may never come to an end: its maps wait for whatever a thread of it does
//! to them, and its arguments and variables may be in memory behind which a file system of its user is.
//!
//! A worker opens and reads the files of others' processes, where the waiting can be ended.

use crate::asked::BYTES;
use crate::text;
use ramson_apart::{Apart, Failure, Owner, for_process, proc};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of mounts that are read. A user may have 100,000 of them, each upon the last one and with paths of 4 KiB: the kernel takes minutes to
/// tell them.
const MOST_MOUNTS_BYTES: u64 = 1 << 20;
/// The same of a file that is read line by line: the maps of a process with 65,530 mappings have less.
const MOST_BYTES: u64 = 64 << 20;
/// How long one that did not answer is not asked again.
const SILENCE_LASTS: Duration = Duration::from_secs(60);

/// Processes that could not be read.
static SILENT: Mutex<BTreeMap<u32, Silence>> = Mutex::new(BTreeMap::new());

struct Silence {
    since: Instant,
    failure: Failure,
}

/// The first bytes of the file `name` of process `pid`.
pub fn start(pid: u32, name: &str, most_bytes: u64) -> io::Result<Vec<u8>> {
    match opened_as_ours(pid, name)? {
        Err(by) => {
            let bytes = by.ask_for::<Result<Vec<u8>, i32>>(BYTES, &(pid, name, most_bytes));
            let bytes = bytes.map_err(|failure| noted(pid, failure))?;
            bytes.map_err(io::Error::from_raw_os_error)
        }
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(most_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
    }
}

/// Opens a file of /proc of a process that this process may read itself, or returns who reads it. The owner is asked for once more when the
/// file is open, which is then of the program that ran before: a user's process may be root's for a moment.
pub fn opened_as_ours(pid: u32, name: &str) -> io::Result<Result<File, Apart>> {
    if let Some(by) = owner_of(pid)? {
        return Ok(Err(by));
    }
    let file = proc::open(&format!("{pid}/{name}"))?;
    Ok(owner_of(pid)?.map_or(Ok(file), Err))
}

/// Returns the mounts where process `pid` runs (mountinfo of proc(5)), as far as `MOST_MOUNTS_BYTES` go.
pub fn mounts(pid: u32) -> String {
    let text = start(pid, "mountinfo", MOST_MOUNTS_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Its lines, as far as `MOST_BYTES` go.
pub fn lines(pid: u32, name: &str) -> io::Result<impl Iterator<Item = String>> {
    Ok(text::lines_of(io::Cursor::new(start(pid, name, MOST_BYTES)?)))
}

/// Who reads what belongs to the owner of process `pid`; `None`: this process does. Fails if the process did not answer lately.
pub fn owner_of(pid: u32) -> io::Result<Option<Apart>> {
    let Some(by) = for_process(pid) else { return Ok(None) };
    match silent_lately(pid) {
        Some(failure) => Err(failure.into()),
        None => Ok(Some(by)),
    }
}

/// The processes that could not be read lately: a line for each, and for all that were not tried, because their owner's others took too long.
pub fn silent() -> Vec<String> {
    let mut silent = locked();
    silent.retain(|_, silence| silence.since.elapsed() < SILENCE_LASTS);
    let is_tried = |(_, silence): &(&u32, &Silence)| silence.failure != Failure::UsedUp;
    let (tried, others): (Vec<_>, Vec<_>) = silent.iter().partition(is_tried);
    let mut untried: BTreeMap<String, usize> = BTreeMap::new();
    for (&pid, _) in others {
        if let Some(owner) = Owner::of_process(pid) {
            *untried.entry(owner.to_string()).or_default() += 1;
        }
    }
    let failure = Failure::UsedUp;
    let next = failure.next_step();
    let untried = untried
        .iter()
        .map(|(owner, count)| format!("{} of {owner}: {failure}. {next}", processes(*count)));
    tried.into_iter().filter_map(|(&pid, silence)| line(pid, silence)).chain(untried).collect()
}

/// The line about one that could not be read lately.
pub fn silence_of(pid: u32) -> Option<String> {
    let silent = locked();
    line(pid, silent.get(&pid).filter(|silence| silence.since.elapsed() < SILENCE_LASTS)?)
}

/// It, or a worker in its stead, did not answer.
pub fn note(pid: u32, failure: &Failure) {
    if matches!(failure, Failure::Stuck(_) | Failure::UsedUp) {
        noted(pid, failure.clone());
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

fn line(pid: u32, silence: &Silence) -> Option<String> {
    let name = text::read(format!("/proc/{pid}/comm")).ok()?;
    let Silence { failure, .. } = silence;
    Some(format!("process {pid} ({}): {failure}. {}", name.trim(), failure.next_step()))
}

/// Why a process is not waited for again.
fn silent_lately(pid: u32) -> Option<Failure> {
    let is_silent = |silence: &&Silence| {
        matches!(silence.failure, Failure::Stuck(_)) && silence.since.elapsed() < SILENCE_LASTS
    };
    locked().get(&pid).filter(is_silent).map(|silence| silence.failure.clone())
}

/// The same, as an error.
pub fn noted(pid: u32, failure: Failure) -> io::Error {
    if !matches!(failure, Failure::Gone | Failure::Denied) {
        locked().insert(pid, Silence { since: Instant::now(), failure: failure.clone() });
    }
    failure.into()
}

fn locked() -> MutexGuard<'static, BTreeMap<u32, Silence>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

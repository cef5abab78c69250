//! Files in /proc that make their reader wait for the process, which may never come to an end: its maps wait for whatever a thread of it does
//! to them, and its arguments and variables may be in memory behind which a file system of its user is.
//!
//! The files of others' processes are opened and read in a helper, where the waiting can be ended.

use crate::text;
use ramson_apart::{Apart, Failure, Owner, for_process};
use ramson_paths::Refusal;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of mounts that are read. A user may have 100,000 of them, each upon the last one and with paths of 4 KiB: the kernel takes minutes to
/// tell them.
const MOST_MOUNTS_BYTES: u64 = 1 << 20;
/// Bytes of the buffer for lines.
const BUFFER_BYTES: usize = 64 << 10;
/// How long one that did not answer is not asked again.
const SILENCE_LASTS: Duration = Duration::from_secs(60);

/// Processes that could not be read.
static SILENT: Mutex<BTreeMap<u32, Silence>> = Mutex::new(BTreeMap::new());

struct Silence {
    since: Instant,
    failure: Failure,
}

/// Such a file, open.
pub struct ProcessFile(Reader);

enum Reader {
    Here(File),
    Apart { pid: u32, by: Apart, file: File, bytes: Vec<u8>, at: usize },
}

/// The file `name` of process `pid`.
pub fn open(pid: u32, name: &str) -> io::Result<ProcessFile> {
    let (file, by) = open_file(pid, name)?;
    Ok(ProcessFile(match by {
        None => Reader::Here(file),
        Some(by) => Reader::Apart { pid, by, file, bytes: Vec::new(), at: 0 },
    }))
}

/// The same, and who reads it if this process does not.
pub fn open_file(pid: u32, name: &str) -> io::Result<(File, Option<Apart>)> {
    let path = format!("/proc/{pid}/{name}");
    let Some(by) = for_process(pid) else { return Ok((File::open(path)?, None)) };
    let file = wait_for(pid, &by, move || File::open(path))??;
    Ok((file, Some(by)))
}

/// Its first bytes.
pub fn start(pid: u32, name: &str, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(pid, name)?.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the mounts where process `pid` runs (mountinfo of proc(5)), as far as `MOST_MOUNTS_BYTES` go.
pub fn mounts(pid: u32) -> String {
    let text = start(pid, "mountinfo", MOST_MOUNTS_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Its lines.
pub fn lines(pid: u32, name: &str) -> io::Result<impl Iterator<Item = String>> {
    Ok(text::lines_of(BufReader::with_capacity(BUFFER_BYTES, open(pid, name)?)))
}

/// Returns the result of `act`, which may wait for process `pid`, unless that takes too long.
pub fn wait_for_process<T: Send + 'static>(
    pid: u32,
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match for_process(pid) {
        Some(by) => wait_for(pid, &by, act),
        None => Ok(act()),
    }
}

/// Returns the file of process `pid` that `open` opens, unless the file system does not answer.
pub fn opened<T>(pid: u32, open: impl FnOnce() -> Result<T, Refusal>) -> io::Result<T> {
    if let Some(failure) = silent_lately(pid) {
        return Err(failure.into());
    }
    let opened = open().map_err(|refusal| match refusal {
        Refusal::Apart(failure) => noted(pid, failure),
        other => other.into(),
    })?;
    locked().remove(&pid);
    Ok(opened)
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

/// It, or a helper in its stead, did not answer.
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

fn wait_for<T: Send + 'static>(
    pid: u32,
    by: &Apart,
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if let Some(failure) = silent_lately(pid) {
        return Err(failure.into());
    }
    let done = by.wait_for(act).map_err(|failure| noted(pid, failure))?;
    locked().remove(&pid);
    Ok(done)
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
    locked().insert(pid, Silence { since: Instant::now(), failure: failure.clone() });
    failure.into()
}

fn locked() -> MutexGuard<'static, BTreeMap<u32, Silence>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for ProcessFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pid, by, file, bytes, at) = match &mut self.0 {
            Reader::Here(file) => return file.read(buffer),
            Reader::Apart { pid, by, file, bytes, at } => (*pid, by, file, bytes, at),
        };
        if *at == bytes.len() {
            *bytes = by.read(file).map_err(|failure| noted(pid, failure))?;
            *at = 0;
        }
        let count = (&bytes[*at..]).read(buffer)?;
        *at += count;
        Ok(count)
    }
}

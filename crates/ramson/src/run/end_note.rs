//! Writes into a profile how its process ended. Only `ramson run` does, and only once the process is gone.

use super::watch::Ended;
use ramson_analysis::end::in_log;
use ramson_analysis::end::kernel_log::KernelLog;
use ramson_format::{END_OFFSET, state};
use ramson_process::clock::{monotonic_ns, unix_ns};
use ramson_reader::{End, Header, Way};
use ramson_source::places::open_directory_of;
use ramson_source::{Recording, open_to_write};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The kernel counts a kill first, and sends the signal, then writes its log: it may be a moment behind.
const LOG_ATTEMPTS: usize = 20;
const LOG_PAUSE: Duration = Duration::from_millis(10);

/// Tells each of the run's dead profiles how its process ended, as far as that is known: the program itself from its status, its
/// earlier images, and what the kernel's log has of its children.
pub fn note_ends(profiles: &mut [Recording], ended: &Ended) {
    let is_programs = |source: &Recording| {
        let header = &source.snapshot.header;
        let (start, ended_start) = (header.process_start_ticks, ended.start_ticks);
        header.pid == ended.pid && (start == ended_start || start == 0 || ended_start == 0)
    };
    // The first is as of a timer tick, and images may follow each other within one.
    let start = |source: &Recording| {
        let header = &source.snapshot.header;
        (header.start_monotonic_ns, header.start_cycles_ns)
    };
    let last_start = profiles.iter().filter(|source| is_programs(source)).map(start).max();
    let process = |source: &Recording| {
        let header = &source.snapshot.header;
        (header.pid, header.process_start_ticks)
    };
    let mut last_starts = HashMap::new();
    for source in profiles.iter() {
        let last = last_starts.entry(process(source)).or_insert(start(source));
        *last = start(source).max(*last);
    }
    let replaced = End { realtime_ns: 0, ..End::of(Way::Replaced) };
    // Thousands of records: read where a death needs it.
    let log: LazyCell<KernelLog> = LazyCell::new(KernelLog::read);
    for source in profiles.iter_mut().filter(|source| source.running.is_none()) {
        let header = &source.snapshot.header;
        let end = if !is_programs(source) {
            if header.state == state::EXITED {
                continue;
            }
            match last_starts.get(&process(source)) {
                Some(last) if start(source) < *last => Some(replaced),
                _ => in_log(source, &log),
            }
        } else if Some(start(source)) < last_start {
            Some(replaced)
        } else {
            Some(with_log(source, ended.end, &log))
        };
        if let Some(end) = end {
            let header = &mut source.snapshot.header;
            // Ages are those at the death, which may be long after the last sample.
            if end.realtime_ns > 0 {
                let ago_ns = unix_ns().saturating_sub(end.realtime_ns);
                let died_ns = monotonic_ns().saturating_sub(ago_ns);
                header.last_monotonic_ns = header.last_monotonic_ns.max(died_ns);
            }
            header.end = Some(Box::new(end));
            // A report without it is as good as before.
            let _ = write(source, &end);
        }
    }
}

/// Adds what the kernel's log says, waiting for it if a counter tells that it must be there.
fn with_log(source: &Recording, end: End, first: &LazyCell<KernelLog>) -> End {
    const SIGKILL: Way = Way::Signalled(9);
    // The log has only deaths by signals.
    if !matches!(end.way, Way::Signalled(_)) {
        return end;
    }
    let mut later: Option<KernelLog> = None;
    for _ in 0..LOG_ATTEMPTS {
        let log = later.as_ref().unwrap_or_else(|| LazyCell::force(first));
        let logged = in_log(source, log).filter(|logged| logged.way == end.way);
        let is_whole = logged.is_some_and(|logged| logged.killed_rss_bytes > 0);
        if is_whole || end.way != SIGKILL || end.oom_kills == 0 || !log.is_readable {
            return End {
                is_named_in_log: logged.is_some_and(|logged| logged.is_named_in_log),
                killed_rss_bytes: logged.map_or(0, |logged| logged.killed_rss_bytes),
                ..end
            };
        }
        sleep(LOG_PAUSE);
        later = Some(KernelLog::read());
    }
    end
}

fn write(source: &Recording, end: &End) -> std::io::Result<()> {
    let (directory, name) = open_directory_of(Path::new(&source.origin))?;
    let file = directory.open_file(name)?.file;
    // Its directory may be another user's.
    let identity = Header::read(&file).map(|header| header.identity());
    if !identity.is_ok_and(|identity| identity == source.snapshot.header.identity()) {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let file = open_to_write(&file)?;
    let last_ns = source.snapshot.header.last_monotonic_ns.to_le_bytes();
    file.write_all_at(&last_ns, offset_of!(ramson_format::Header, last_monotonic_ns) as u64)?;
    file.write_all_at(&end.to_bytes(), END_OFFSET)
}

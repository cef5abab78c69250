//! `/metrics`: what Prometheus scrapes. Totals of each running process, the terms of its RSS, its largest stacks and their growth, within a budget of
//! series.

use crate::sources::{Entries, Entry, Sources};
use ramson_analysis::attachment;
use ramson_analysis::hash;
use ramson_analysis::members::RowGrowth;
use ramson_analysis::naming::Names;
use ramson_analysis::question::{Document, Question};
use ramson_analysis::report::{Report, View, report};
use ramson_analysis::stack_table::StackRow;
use ramson_analysis::summary::Subject;
use ramson_analysis::terms::Terms;
use ramson_analysis::timeline::{Row, row};
use ramson_encode::openmetrics::{self, Family, Labels};
use ramson_encode::series::{Moment, Series, half_width};
use ramson_profile::Estimate;
use ramson_source::{Failure, Members, Opened, Recording, open_all};
use rustix::process::getuid;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stacks of one process, and of all together. Each has up to four series.
const MOST_STACKS_EACH: usize = 10;
const MOST_STACKS: usize = 1000;
/// Processes that are told of; those with the largest RSS.
const MOST_PROCESSES: usize = 500;
/// After so long no further process is read: Prometheus waits 10 s.
const MOST_READING: Duration = Duration::from_secs(8);
/// Between two readings is a pause of so many times the time that one took.
const PAUSES: u32 = 50;
/// Letters of a function's name.
const MOST_LETTERS: usize = 200;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// A process as it is now, or at a moment of its history.
pub struct Process {
    totals: Series,
    /// Otherwise the figures of live memory are those of the end of sampling, and growth is not known.
    is_sampled: bool,
    terms: Option<Terms>,
    growth: Option<Estimate>,
    stacks: Vec<(u64, Stack)>,
}

/// Stacks of the same functions.
struct Stack {
    function: String,
    live: Estimate,
    growth: Option<Estimate>,
}

/// The last answer. It is given again for `PAUSES` times as long as it took to make it, so that less than 2% of a core reads processes, however
/// often they are scraped.
#[derive(Default)]
pub struct Metrics {
    kept: Mutex<Option<Arc<Kept>>>,
    reading: Mutex<()>,
}

struct Kept {
    body: Vec<u8>,
    at: Instant,
    took: Duration,
}

impl Metrics {
    /// Answers a scrape of all that is served and runs.
    pub fn scrape(&self, sources: &Sources, names: &Names) -> Result<Vec<u8>, Failure> {
        let kept = self.kept(sources, names)?;
        let mut body = kept.body.clone();
        for (family, time) in [(READ, kept.took), (AGE, kept.at.elapsed())] {
            let value = [(Labels::default(), time.as_secs_f64())];
            openmetrics::family(&family, value, &mut body)?;
        }
        openmetrics::end(&mut body)?;
        Ok(body)
    }

    fn kept(&self, sources: &Sources, names: &Names) -> Result<Arc<Kept>, Failure> {
        let last = || self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_fresh = |kept: &Arc<Kept>| kept.at.elapsed() < kept.took * PAUSES;
        // While one scrape reads, others are given what there is: waiting, they would keep the page from being answered.
        let _reading = match (self.reading.try_lock(), last()) {
            (Ok(reading), _) => reading,
            (Err(_), Some(old)) => return Ok(old),
            (Err(_), None) => self.reading.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if let Some(fresh) = last().filter(is_fresh) {
            return Ok(fresh);
        }
        let made = Arc::new(Kept::read(sources, names)?);
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.clone());
        Ok(made)
    }
}

impl Kept {
    fn read(sources: &Sources, names: &Names) -> Result<Self, Failure> {
        let begun = Instant::now();
        let Entries { sources: entries, unreadable } = sources.entries()?;
        let mut known = HashSet::new();
        let is_new =
            |entry: &Entry| entry.is_running && entry.pid.is_some_and(|pid| known.insert(pid));
        let mut running: Vec<Entry> = entries.into_iter().filter(is_new).collect();
        // Those of other users last: they may be slow on purpose.
        running.sort_by_key(|entry| {
            entry.user.is_some_and(|user| ![0, getuid().as_raw()].contains(&user))
        });
        let stacks = stacks_each(running.len().min(MOST_PROCESSES));
        let mut all = Vec::new();
        for entry in running.iter().take(MOST_PROCESSES) {
            if begun.elapsed() > MOST_READING {
                break;
            }
            // One that ends meanwhile is missing.
            all.extend(
                open_all(&[&entry.source]).and_then(|found| process(found, names, stacks)).ok(),
            );
        }
        let mut body = Vec::new();
        families(&all, &mut body)?;
        let own = [(RUNNING, running.len()), (TOLD, all.len()), (UNREADABLE, unreadable.len())];
        for (family, value) in own {
            openmetrics::family(&family, [(Labels::default(), value as f64)], &mut body)?;
        }
        let at = Instant::now();
        Ok(Self { body, at, took: at - begun })
    }
}

/// Reads each of these processes, as `ramson export` does.
pub fn read(all: Vec<Recording>, names: &Names) -> Result<Vec<Process>, Failure> {
    let stacks = stacks_each(all.len());
    let members = |recording| Members { opened: vec![Opened::Recording(recording)], unprofiled: 0 };
    all.into_iter().map(|recording| process(members(recording), names, stacks)).collect()
}

/// Writes a whole document.
pub fn write(all: &[Process], out: &mut dyn Write) -> io::Result<()> {
    families(all, out)?;
    openmetrics::end(out)
}

fn stacks_each(processes: usize) -> usize {
    (MOST_STACKS / processes.max(1)).clamp(1, MOST_STACKS_EACH)
}

fn process(mut members: Members, names: &Names, stacks: usize) -> Result<Process, Failure> {
    // All rows: those that grow need not be large.
    let question = Question::parse(Document::Report, Vec::new(), names.clone(), [("rows", "0")])?;
    let report = report(&mut members, &question)?;
    let [Opened::Recording(recording)] = members.opened.as_slice() else {
        return Err(Failure::not_found("not a process"));
    };
    let rss = match &report.subject {
        Subject::Recording(summary) => summary.rss.as_ref(),
        _ => None,
    };
    let row = row(recording, rss);
    let is_sampled = attachment::ended_ago_ns(recording).is_none();
    let growth = known(report.growth).filter(|_| is_sampled);
    let mut stacks = chosen(report, stacks);
    if !is_sampled {
        stacks.iter_mut().for_each(|(_, stack)| stack.growth = None);
    }
    Ok(Process {
        is_sampled,
        terms: row.terms,
        growth,
        stacks,
        totals: Series {
            name: recording.name().to_owned(),
            pid: recording.pid(),
            moments: vec![moment(row)],
            marks: Vec::new(),
        },
    })
}

/// `None`: it cannot be told yet.
fn known(growth: RowGrowth) -> Option<Estimate> {
    growth.live_per_hour.or((!growth.is_undecided).then_some(Estimate::exact(0.0)))
}

/// The stacks that grow most, then the largest.
fn chosen(report: Report, most: usize) -> Vec<(u64, Stack)> {
    let View::Stacks(table) = report.view else { return Vec::new() };
    let mut all: HashMap<u64, Stack> = HashMap::new();
    for row in table.rows.iter().filter(|row| row.value.value > 0.0) {
        let growth = row.growth.map(|growth| growth.per_hour);
        // Rows of the same functions differ in their lines.
        let stack = all.entry(stack_hash(row)).or_insert_with(|| Stack {
            function: function(row),
            live: Estimate::exact(0.0),
            growth: None,
        });
        stack.live += row.value;
        stack.growth = stack.growth.into_iter().chain(growth).reduce(Add::add);
    }
    let mut all: Vec<(u64, Stack)> = all.into_iter().collect();
    let order = |(hash, stack): &(u64, Stack)| {
        let growth = stack.growth.map_or(0.0, |growth| growth.value);
        (Reverse(growth.round() as i64), Reverse(stack.live.value.round() as i64), *hash)
    };
    all.sort_by_key(order);
    all.truncate(most);
    all
}

fn function(row: &StackRow) -> String {
    let name = row.frames.first().map_or("(stacks not recorded)", |frame| &frame.name);
    name.chars().take(MOST_LETTERS).collect()
}

/// The same for the same functions, in each process, on each host, over restarts.
fn stack_hash(row: &StackRow) -> u64 {
    hash::hash(row.frames.iter().map(|frame| frame.name.as_bytes()))
}

/// A row of a timeline, as files have it.
pub fn moment(row: Row) -> Moment {
    Moment {
        time_unix_ns: row.time_unix_ns,
        rss: row.rss,
        live: row.live,
        free: row.free,
        held: row.held,
        live_samples: row.live_samples,
        allocated: row.allocated,
        triggers: row.triggers,
        is_after_gap: row.gaps.is_some(),
    }
}

fn families(all: &[Process], out: &mut dyn Write) -> io::Result<()> {
    openmetrics::totals(all.iter().map(|process| &process.totals), false, out)?;
    let labels = |process: &Process| openmetrics::labels(&process.totals);
    let terms = all.iter().flat_map(|process| {
        let terms = process.terms.iter().flat_map(Terms::known);
        terms.map(|(term, bytes)| (labels(process).with("term", term), bytes as f64))
    });
    openmetrics::family(&TERM, terms, out)?;
    let sampled = all.iter().map(|process| (labels(process), f64::from(process.is_sampled)));
    openmetrics::family(&SAMPLED, sampled, out)?;
    let growth = |value: fn(Estimate) -> Option<f64>| {
        let of = move |process: &Process| Some((labels(process), value(process.growth?)?));
        all.iter().filter_map(of)
    };
    openmetrics::family(&GROWTH, growth(per_second), out)?;
    openmetrics::family(&GROWTH_HALF_WIDTH, growth(half_width_per_second), out)?;
    let stacks = |value: fn(&Stack) -> Option<f64>| {
        all.iter().flat_map(move |process| {
            process.stacks.iter().filter_map(move |(hash, stack)| {
                let labels = labels(process)
                    .with("stack", &format!("{hash:016x}"))
                    .with("function", &stack.function);
                Some((labels, value(stack)?))
            })
        })
    };
    openmetrics::family(&STACK, stacks(|stack| Some(stack.live.value.round())), out)?;
    openmetrics::family(&STACK_HALF_WIDTH, stacks(|stack| half_width(stack.live)), out)?;
    openmetrics::family(&STACK_GROWTH, stacks(|stack| per_second(stack.growth?)), out)?;
    let half_widths = stacks(|stack| half_width_per_second(stack.growth?));
    openmetrics::family(&STACK_GROWTH_HALF_WIDTH, half_widths, out)
}

fn per_second(per_hour: Estimate) -> Option<f64> {
    Some((per_hour.value / SECONDS_PER_HOUR).round())
}

fn half_width_per_second(per_hour: Estimate) -> Option<f64> {
    half_width(per_hour).map(|bytes| (bytes / SECONDS_PER_HOUR).ceil())
}

const TERM: Family =
    Family::gauge("ramson_rss_term_bytes", "bytes", "A term of RSS; the terms add up to it.");
const SAMPLED: Family = Family::gauge(
    "ramson_sampled",
    "",
    "1 while the process is sampled. 0 after a detach, and while sampling is off: live memory is shown as it was then.",
);
const GROWTH: Family = Family::gauge(
    "ramson_live_growth_bytes_per_second",
    "",
    "Growth of live bytes; 0 if it is not beyond chance. Absent while there is too little data to tell.",
);
const GROWTH_HALF_WIDTH: Family = Family::gauge(
    "ramson_live_growth_half_width_bytes_per_second",
    "",
    "Half the width of the 95% interval of ramson_live_growth_bytes_per_second.",
);
const STACK: Family = Family::gauge(
    "ramson_stack_live_bytes",
    "bytes",
    "Live bytes of a stack that grows or is one of the largest, estimated. The stack label is a hash of its functions' names.",
);
const STACK_HALF_WIDTH: Family = Family::gauge(
    "ramson_stack_live_half_width_bytes",
    "bytes",
    "Half the width of the 95% interval of ramson_stack_live_bytes.",
);
const STACK_GROWTH: Family = Family::gauge(
    "ramson_stack_growth_bytes_per_second",
    "",
    "Growth of a stack that is a leak suspect.",
);
const STACK_GROWTH_HALF_WIDTH: Family = Family::gauge(
    "ramson_stack_growth_half_width_bytes_per_second",
    "",
    "Half the width of the 95% interval of ramson_stack_growth_bytes_per_second.",
);
const RUNNING: Family = Family::gauge("ramson_processes", "", "Running processes with a profile.");
const TOLD: Family =
    Family::gauge("ramson_scraped_processes", "", "Processes that have series in this answer.");
const UNREADABLE: Family =
    Family::gauge("ramson_unreadable_profiles", "", "Profiles that cannot be read.");
const READ: Family =
    Family::gauge("ramson_read_seconds", "seconds", "Time that it took to read the processes.");
const AGE: Family = Family::gauge("ramson_age_seconds", "seconds", "Time since they were read.");

//! `ramson leaks`: which stacks are suspects, with the evidence.

mod object;
mod options;
mod stacks;
mod table;

pub use options::{LeaksOptions, parse_duration};

use crate::assemble::{Detail, Named, assemble};
use crate::failure::Failure;
use crate::mark;
use crate::own::{self, heading};
use crate::rss::Resident;
use crate::shared;
use crate::source::Source;
use crate::text;
use ramson_format::Kind;
use ramson_leaks::{Finding, Settings, Suppressions, Verdict, judge};
use ramson_profile::format::format_duration;
use ramson_profile::{FrameName, SampleType};
use rustix::time::{ClockId, clock_gettime};
use stacks::NamedStack;
use std::collections::HashSet;
use std::fs;
use std::time::Duration;

/// A profile and the moment that it shows.
pub struct Moment {
    pub source: Source,
    /// On the clock of the profile's times.
    pub now_ns: u64,
}

/// One stack, judged.
pub struct Suspect {
    pub stack: NamedStack,
    pub finding: Finding,
}

/// All that was found.
pub struct Findings {
    /// Worst first.
    pub suspects: Vec<Suspect>,
    /// Not among them: stacks that a suppression matches, and those that the baseline has as growing already.
    pub suppressed: usize,
    pub known: usize,
}

pub fn leaks(options: &LeaksOptions) -> Result<u8, Failure> {
    if options.filters.use_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: leaks judges whole stacks. Choose by frames (--focus, --show …)",
        ));
    }
    let suppressions = read_suppressions(options)?;
    let (earlier, moment) = moments(options)?;
    let named =
        assemble(&moment.source, &options.source.names, Detail::Numbered, Some(Kind::Heap))?;
    let running = moment.source.running;
    let source = &moment.source;
    let resident = running.and_then(|pid| {
        let resident = Resident::of(pid, &source.origin, &source.snapshot.extents)?;
        Some(resident.with_kept_free(pid, &source.origin))
    });
    let head = heading(&moment.source, &named.profile, resident.as_ref());
    let live = named.profile.total(SampleType::InuseSpace);
    let mut findings = judged(&moment, earlier.as_ref(), named, options)?;
    findings.hide(&suppressions);
    if let Some(baseline) = &options.baseline {
        let baseline = Moment::of(mark::open(baseline, &moment.source)?);
        let named =
            assemble(&baseline.source, &options.source.names, Detail::Numbered, Some(Kind::Heap))?;
        findings.hide_known(&judged(&baseline, None, named, options)?);
    }
    if options.json {
        let object = object::object(&moment, &findings, options.top, live, resident.as_ref());
        text::print(&format!("{object}\n"))?;
    } else {
        text::print(&(head + &table::table(&findings, options.top)))?;
    }
    match options.fail_on.as_ref().and_then(|gate| gate.finding(&findings)) {
        Some(finding) => {
            text::remark(finding);
            Ok(3)
        }
        None => Ok(0),
    }
}

impl Moment {
    /// A running process is looked at now, what is left of a dead one shows its last sample.
    fn of(source: Source) -> Self {
        let last_ns = source.snapshot.header.last_monotonic_ns;
        let now_ns = match source.running {
            Some(_) => last_ns.max(clock_ns()),
            None => last_ns,
        };
        Self { source, now_ns }
    }
}

fn clock_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The moment to judge, and an earlier one if growth is to be measured.
fn moments(options: &LeaksOptions) -> Result<(Option<Moment>, Moment), Failure> {
    let wanted = &options.source.source;
    let first = Moment::of(own::open(wanted)?);
    if first.source.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{wanted}: leaks judges a moment, not a range. Pass its end, and its beginning with --since SRC@MOMENT"
        )));
    }
    if let Some(window_ns) = options.window {
        let Some(pid) = first.source.running else {
            return Err(Failure::usage(format!(
                "{wanted}: its process does not run, so --window cannot watch it. Compare with a mark: --since MARK"
            )));
        };
        text::hint(&format!("watching process {pid} for {}", format_duration(window_ns)));
        std::thread::sleep(Duration::from_nanos(window_ns));
        let second = Moment::of(own::open(wanted)?);
        return paired(first, second, wanted);
    }
    match &options.since {
        None => Ok((None, first)),
        Some(since) => {
            let earlier = Moment::of(mark::open(since, &first.source)?);
            paired(earlier, first, since)
        }
    }
}

fn paired(
    earlier: Moment,
    later: Moment,
    object: &str,
) -> Result<(Option<Moment>, Moment), Failure> {
    let is_same = shared::is_same_process(&earlier.source.snapshot, &later.source.snapshot);
    if !is_same || earlier.now_ns > later.now_ns {
        return Err(Failure::usage(format!(
            "{object}: not an earlier moment of the same process. Growth is measured between two moments of one; \
             --baseline compares with another process"
        )));
    }
    Ok((Some(earlier), later))
}

fn judged(
    moment: &Moment,
    earlier: Option<&Moment>,
    mut named: Named,
    options: &LeaksOptions,
) -> Result<Findings, Failure> {
    options.filters.apply(&mut named.profile, SampleType::InuseSpace)?;
    let stacks = stacks::stacks(moment, earlier, &named.profile);
    let settings = Settings { min_age_ns: options.min_age, stacks: stacks.len() };
    let judge = |stack: NamedStack| {
        let finding = judge(&stack.history, &settings);
        Suspect { stack, finding }
    };
    let mut suspects: Vec<Suspect> = stacks.into_iter().map(judge).collect();
    suspects.sort_by(|a, b| {
        let key = |suspect: &Suspect| (suspect.finding.verdict, suspect.weight());
        let ((a, a_weight), (b, b_weight)) = (key(a), key(b));
        a.cmp(&b).then(b_weight.total_cmp(&a_weight))
    });
    Ok(Findings { suspects, suppressed: 0, known: 0 })
}

impl Suspect {
    /// What ranks within a verdict: what grows by its growth, the rest by its live bytes.
    fn weight(&self) -> f64 {
        match (self.finding.verdict, self.finding.growth) {
            (Verdict::Growing, Some(growth)) => growth.per_hour.value,
            _ => self.finding.inuse_space.value,
        }
    }
}

impl Findings {
    /// Those that are growing.
    pub fn growing(&self) -> impl Iterator<Item = &Suspect> {
        self.suspects.iter().filter(|suspect| suspect.finding.verdict == Verdict::Growing)
    }

    fn hide(&mut self, suppressions: &Suppressions) {
        let before = self.suspects.len();
        self.suspects.retain(|suspect| suppressions.matching(suspect.stack.searched()).is_none());
        self.suppressed = before - self.suspects.len();
    }

    fn hide_known(&mut self, baseline: &Self) {
        let names = |suspect: &Suspect| -> Vec<FrameName> {
            suspect.stack.frames.iter().map(|(frame, _)| frame.clone()).collect()
        };
        let known: HashSet<Vec<FrameName>> = baseline.growing().map(names).collect();
        let before = self.suspects.len();
        self.suspects.retain(|suspect| !known.contains(&names(suspect)));
        self.known = before - self.suspects.len();
    }
}

fn read_suppressions(options: &LeaksOptions) -> Result<Suppressions, Failure> {
    let Some(path) = &options.suppressions else { return Ok(Suppressions::default()) };
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{shown}: {error}. Pass a text file with lines leak:PATTERN"))
    })?;
    Suppressions::parse(&text).map_err(|bad| {
        Failure::usage(format!("{shown}: {bad}. Correct it, or make it a comment with #"))
    })
}

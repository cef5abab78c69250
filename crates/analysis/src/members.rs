//! Several processes as one: a row for each, and their sums.

use crate::extents::MmapSums;
use crate::rss::Rss;
use crate::summary::{ForeignSummary, Subject};
use ramson_process::processes;
use ramson_process::stat::Stat;
use ramson_profile::Estimate;
use serde::Serialize;
use std::cmp::Ordering;

/// One of several processes, in a line.
#[derive(Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Process ID; `None`: another tool's file does not say.
    #[serde(skip)]
    pub pid: Option<u32>,
    /// Name of the program, or of the file.
    #[serde(skip)]
    pub name: String,
    /// Resident bytes at the moment that is shown, or as they were last seen.
    #[serde(skip)]
    pub rss: Option<u64>,
    /// Resident bytes that no other process has mapped; `None`: not known, as of a dead process.
    #[serde(skip)]
    pub private: Option<u64>,
    /// Live bytes of the heap.
    #[serde(skip)]
    pub live: Option<Estimate>,
    /// Whether what is live grows.
    #[serde(flatten)]
    pub growth: RowGrowth,
    /// Since the process began; `None` where it does not run any more, and for a moment of the past.
    pub age_ns: Option<u64>,
    /// As it is now, else as it began.
    pub command_line: Vec<String>,
}

/// Growth of what is live of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RowGrowth {
    /// Bytes per hour: of all stacks together, if they are judged to be growing, else of the leak suspects; null: none of them grows, or it is
    /// not known.
    pub live_per_hour: Option<Estimate>,
    /// It is not known yet whether it grows.
    pub is_undecided: bool,
}

/// The answer for one of several processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Each<T> {
    /// The process in one line.
    #[serde(flatten)]
    pub row: Row,
    /// The answer, as for a single process.
    #[serde(flatten)]
    pub answer: T,
}

/// Facts about several processes together.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Sum {
    /// RSS of the processes that run, as far as ramson can read it. Shared pages count in each process, but for `pss`.
    pub rss: Option<Rss>,
    /// Resident bytes of all, as far as they are known.
    pub rss_bytes: Option<u64>,
    /// Live bytes of the heap, by the profiles.
    pub live: Estimate,
    /// The same in requested bytes.
    pub live_requested: Estimate,
    /// Latest of the moments that are shown from a history, in nanoseconds since 1970.
    pub past_unix_ns: Option<u64>,
    /// Memory that the programs mapped themselves.
    pub mmap: MmapSums,
    /// Processes that were named and have no profile.
    pub unprofiled: usize,
    /// Those with the most private memory first.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

impl RowGrowth {
    /// Takes the growth of all that is live, else that of the leak suspects. `may_grow`: others cannot be judged yet.
    pub fn of(whole: Option<Estimate>, suspects: Option<Estimate>, may_grow: bool) -> Self {
        let live_per_hour = whole.or(suspects);
        Self { live_per_hour, is_undecided: live_per_hour.is_none() && may_grow }
    }
}

/// Says how many processes that were named are not in the answer; `None`: all are.
pub fn unprofiled_text(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some(
            "1 more selected process has no profile (not recorded, or nothing sampled yet)".into(),
        ),
        count => Some(format!(
            "{count} more selected processes have no profile (not recorded, or nothing sampled yet)"
        )),
    }
}

impl Row {
    fn of(subject: &Subject) -> Self {
        let summary = match subject {
            Subject::Recording(summary) => summary,
            Subject::Foreign(ForeignSummary { origin, live, .. }) => {
                return Self { name: origin.clone(), live: *live, ..Self::default() };
            }
            Subject::Sum(_) => return Self::default(),
        };
        let name = summary.name.clone();
        let mut row = if summary.is_running {
            Self::of_process(summary.pid, name)
        } else {
            Self { pid: Some(summary.pid), name, ..Self::default() }
        };
        let last_rss = row.rss.or_else(|| summary.end.as_ref()?.last_rss);
        row.rss = match &summary.history {
            Some(past) => past.rss,
            None => summary.rss.as_ref().map(|rss| rss.bytes).or(last_rss),
        };
        row.private = summary.rss.as_ref().map(|rss| rss.private);
        if row.command_line.is_empty() {
            row.command_line.clone_from(&summary.command);
        }
        Self { live: Some(summary.live), ..row }
    }

    /// Describes a running process of which nothing more is known.
    pub fn of_process(pid: u32, name: String) -> Self {
        let stat = Stat::of(pid);
        Self {
            pid: Some(pid),
            name,
            rss: stat.and_then(|stat| stat.rss),
            private: None,
            live: None,
            growth: RowGrowth::default(),
            age_ns: stat.map(|stat| processes::age_ns(stat.start_ticks)),
            command_line: processes::command(pid),
        }
    }

    /// Those with the most private memory first, or where that is not known, with the largest RSS.
    pub fn order(&self, other: &Self) -> Ordering {
        let live = |row: &Self| row.live.map_or(0.0, |live| live.value);
        let own = |row: &Self| row.private.or(row.rss);
        let by_rss = own(other).cmp(&own(self));
        by_rss.then(live(other).total_cmp(&live(self))).then(self.pid.cmp(&other.pid))
    }

    /// `redis-server (pid 4711)`.
    pub fn name_and_pid(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} (pid {pid})", self.name),
            None => self.name.clone(),
        }
    }
}

/// The answers about each, those with the most private memory first; what is said of their sum; and what each of them lacks. `said` are an
/// answer's subject, its defects and its row's growth.
pub fn together<T>(
    answers: Vec<T>,
    unprofiled: usize,
    said: impl Fn(&T) -> (&Subject, &Vec<String>, RowGrowth),
) -> (Vec<Each<T>>, Subject, Vec<String>) {
    let row = |answer: &T| {
        let (subject, _, growth) = said(answer);
        Row { growth, ..Row::of(subject) }
    };
    let each = |answer| Each { row: row(&answer), answer };
    let mut all: Vec<Each<T>> = answers.into_iter().map(each).collect();
    all.sort_by(|a, b| a.row.order(&b.row));
    let rows: Vec<Row> = all.iter().map(|each| each.row.clone()).collect();
    let summaries = all.iter().filter_map(|each| match said(&each.answer).0 {
        Subject::Recording(summary) => Some(summary),
        _ => None,
    });
    let rss: Vec<&Rss> = summaries.clone().filter_map(|summary| summary.rss.as_ref()).collect();
    let past = summaries.clone().filter_map(|summary| summary.history.as_ref());
    let sum = Sum {
        rss: Rss::sum(&rss),
        rss_bytes: rows.iter().filter_map(|row| row.rss).reduce(|sum, bytes| sum + bytes),
        live: rows.iter().filter_map(|row| row.live).map(Estimate::settled).sum(),
        live_requested: all.iter().filter_map(|each| said(&each.answer).0.live_requested()).sum(),
        past_unix_ns: past.map(|past| past.time_ns).max(),
        mmap: summaries.map(|summary| &summary.mmap).sum(),
        unprofiled,
        rows,
    };
    let defects = all.iter().flat_map(|each| {
        let place = each.row.name_and_pid();
        said(&each.answer).1.iter().map(move |defect| format!("{place}: {defect}"))
    });
    let defects = defects.chain(unprofiled_text(unprofiled)).collect();
    (all, Subject::Sum(sum), defects)
}

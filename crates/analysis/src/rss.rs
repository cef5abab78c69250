//! The first line of every summary: what the kernel counts as resident, in terms that add up to it.

use crate::calibration::{Calibration, calibrate};
use crate::extents::{self, Residence};
use crate::inside;
use ramson_format::{PRELOADED_FAMILY, flags};
use ramson_process::allocators::Allocators;
use ramson_process::glibc::{Arena, Effort, MOST_WALKED_BYTES, Statistics};
use ramson_process::identify::AllocatorKind;
use ramson_process::rss::{self, Explained, Reading, Request};
use ramson_process::stat;
use ramson_process::{Part, Term};
use ramson_profile::format::{format_amount, format_bytes, format_estimate, format_term};
use ramson_profile::{Estimate, NORMAL_QUANTILE_975, SampleUnit};
use ramson_reader::{Counting, Snapshot};
use ramson_source::{Opened, Recording};
use serde::{Serialize, Serializer};
use std::ops::Add;

/// A smaller share of RSS is no term of a short line …
const LEAST_SHARE: f64 = 0.01;
/// … and no more than these are, the sum of the others included.
const MOST_TERMS: usize = 4;
/// A peak that exceeds RSS by this part of it is worth a word.
const HIGHER_PART: u64 = 10;
/// Resident live bytes that differ by no more from all live bytes are not shown.
const SAME_SHARE: f64 = 0.01;

/// A process's resident memory.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Rss {
    /// Resident bytes that the kernel counts: the sum of the terms.
    pub bytes: u64,
    /// RSS with each shared page divided by how often it is mapped: of several processes, what they really use.
    pub pss: u64,
    /// Bytes of RSS on pages that nobody else has mapped.
    pub private: u64,
    /// The largest RSS so far (VmHWM); null: not known, or a sum of several processes.
    pub peak_bytes: Option<u64>,
    /// Every term of `Term::ALL`, in its order.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "std::collections::BTreeMap<String, Estimate>")]
    terms: Vec<Estimate>,
    /// The terms are of the moment of `bytes`, and not read while these changed too fast.
    is_settled: bool,
    /// The live bytes are the allocator's own figure, and not the profile's estimate.
    #[serde(rename = "live_is_counted")]
    pub is_live_counted: bool,
    /// All live bytes, resident or not, in usable bytes: the figure that reports print. Null: there is no profile.
    live: Option<Estimate>,
    /// Those of allocators inside objects.
    #[serde(skip)]
    live_inside: Estimate,
    /// Name of the allocators inside objects, which hold what no statistics tell of.
    #[serde(skip)]
    inside: Option<&'static str>,
    /// Whether this is calibrated by the allocator's total.
    pub calibration: Calibration,
    /// How the snapshot's live bytes are to be counted so that they add up to `live`.
    #[serde(skip)]
    pub counting: Counting,
    /// The allocator's total, where it calibrates: changes between two moments are calibrated by its change.
    #[serde(skip)]
    pub total: Option<Estimate>,
    /// Part of the profile's live bytes that is not resident: never touched, or swapped out. Null if there is none. Null also if ramson
    /// did not look because the estimate is not above the resident bytes.
    live_not_resident: Option<Estimate>,
    /// Whose memory the free bytes are: `malloc` (the C library's), or the name of another allocator.
    pub allocator: String,
    /// Memory that the allocator holds, or else the other anonymous memory, may be live: allocated before an attach, or not seen.
    pub may_hold_live: bool,
    /// `attach`, `fork` or, of several processes, `either`: the process may have allocated memory before this event, which the profile
    /// does not have. Null: the profile has all.
    pub before: Option<Before>,
    /// The process that forked this one, if it still runs, and both run one program: its profile has what this one inherited. Null also in
    /// a sum of several processes.
    pub parent: Option<u64>,
    /// The parts, for those who look further.
    #[serde(skip)]
    pub explained: Explained,
    /// Bytes that a trim of glibc's arenas would return; `None` if their statistics are not known.
    #[serde(skip)]
    pub releasable: Option<u64>,
}

/// An allocator inside an object that has told its figures.
#[derive(Clone, Copy)]
pub struct Asked {
    /// For people.
    pub name: &'static str,
    /// Number of its samples' family, if the profile has some.
    pub family: Option<u8>,
}

/// The event before the first allocation that a profile can have: the process ran already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// ramson attached to the process.
    Attach,
    /// The parent forked the process.
    Fork,
    /// One or the other, in a sum of several processes.
    Either,
}

/// `before the attach`.
impl std::fmt::Display for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Attach => "the attach",
            Self::Fork => "the fork",
            Self::Either => "the attach or the fork",
        })
    }
}

impl Rss {
    /// Reads the RSS of a recording's process, and calibrates the recording's live bytes by it; `None`: there is no process to ask.
    pub fn of_recording(recording: &mut Recording, is_one_of_many: bool) -> Option<Self> {
        let Recording { running, origin, snapshot, .. } = recording;
        let rss = Self::read_with((*running)?, origin, snapshot, &mut None, is_one_of_many)?;
        snapshot.counting = rss.counting;
        Some(rss)
    }

    /// The same of any source.
    pub fn of_opened(opened: &mut Opened, is_one_of_many: bool) -> Option<Self> {
        match opened {
            Opened::Recording(recording) => Self::of_recording(recording, is_one_of_many),
            Opened::Foreign(_) => None,
        }
    }

    /// Reads the RSS of a running process; `None` if the kernel does not let us look. `profile` is the profile's file. Fills in
    /// `allocators` if they are `None`.
    pub fn read(
        pid: u32,
        profile: &str,
        snapshot: &Snapshot,
        allocators: &mut Option<Allocators>,
    ) -> Option<Self> {
        Self::read_with(pid, profile, snapshot, allocators, false)
    }

    /// The same of a process that is not recorded.
    pub fn of_unrecorded(pid: u32) -> Option<Self> {
        let mut allocators = None;
        let request = Request {
            effort: Effort::Survey(MOST_WALKED_BYTES),
            profile: None,
            extents: &[],
            blocks: &[],
            blocks_inside: &[],
            is_one_of_many: false,
        };
        let reading = rss::read(pid, &mut allocators, &request).ok()?;
        Some(Self::of(&reading, None, allocators.as_ref(), None).with_peak_of(pid))
    }

    fn read_with(
        pid: u32,
        profile: &str,
        snapshot: &Snapshot,
        allocators: &mut Option<Allocators>,
        is_one_of_many: bool,
    ) -> Option<Self> {
        let own = extents::without_go(snapshot);
        let snapshot = own.as_deref();
        let (blocks, blocks_inside) = snapshot.map(extents::blocks).unwrap_or_default();
        let request = Request {
            effort: Effort::Survey(MOST_WALKED_BYTES),
            profile: snapshot.map(|_| profile),
            extents: &snapshot.map(extents::ranges).unwrap_or_default(),
            blocks: &blocks,
            blocks_inside: &blocks_inside,
            is_one_of_many,
        };
        let reading = rss::read(pid, allocators, &request).ok()?;
        Some(Self::of(&reading, snapshot, allocators.as_ref(), None).with_peak_of(pid))
    }

    /// Adds the largest RSS that the process had.
    pub fn with_peak_of(self, pid: u32) -> Self {
        let (_, peak) = stat::rss_and_peak(pid);
        Self { peak_bytes: Some(peak).filter(|&peak| peak > 0), ..self }
    }

    /// Divides a reading of a process's memory into terms. If the allocator's statistics do not tell what is live, the profile's estimate
    /// does: it is taken out of the anonymous memory of which no more is known. `asked` is the allocator inside an object by whose figures the
    /// reading is divided.
    pub fn of(
        reading: &Reading,
        snapshot: Option<&Snapshot>,
        allocators: Option<&Allocators>,
        asked: Option<Asked>,
    ) -> Self {
        let Reading { explained, statistics, memory, is_forked, .. } = reading;
        // Go's samples have no addresses of blocks; its own figures are among those that are read.
        let own = snapshot.and_then(extents::without_go);
        let snapshot = own.as_deref();
        let has_other = allocators.is_some_and(|it| it.other.is_some());
        let counting = snapshot.map(|snapshot| calibrate(snapshot, reading, has_other));
        let calibration = match counting {
            Some(Ok(_)) => Calibration::Calibrated,
            Some(Err(why)) => why,
            None => Calibration::NoTotal,
        };
        let (counting, total) = counting.and_then(Result::ok).unzip();
        let counting = counting.unwrap_or_default();
        let live = snapshot.map(|snapshot| extents::live_heap_as(snapshot, counting));
        let residence = || {
            let memory = memory.as_ref()?;
            Some(extents::residence(snapshot?, memory, live?))
        };
        // After an attach or a fork, only a look at the blocks tells memory that was not seen from untouched blocks.
        let is_attached = snapshot.is_some_and(|it| it.header.flags & flags::ATTACHED != 0);
        let before = if is_attached {
            Some(Before::Attach)
        } else {
            snapshot.filter(|_| *is_forked).map(|_| Before::Fork)
        };
        let live = live.map(|live| (live, before.is_some()));
        let statistics = statistics.as_ref().ok();
        let rss = Self::divided(explained.clone(), statistics, live, &residence, allocators);
        let mut rss = Self { calibration, counting, total, ..rss };
        if rss.allocator == "malloc" {
            rss.inside = snapshot.and_then(inside::name_of_all);
        }
        if let Some(asked) = asked {
            rss.inside = Some(asked.name);
            if statistics.is_none() {
                rss.allocator = asked.name.into();
            }
        }
        rss.live_inside = snapshot.map(extents::live_inside).unwrap_or_default();
        // Without statistics of the C library, what lives in it is not counted either.
        let is_counted = |family| match asked {
            Some(asked) if asked.family == Some(family) => true,
            Some(_) if statistics.is_none() => false,
            _ => family == PRELOADED_FAMILY,
        };
        let uncounted = snapshot.map(|it| extents::live_of(it, |family| !is_counted(family)));
        let uncounted = uncounted.filter(|live| rss.is_live_counted && live.value > 0.0);
        uncounted.into_iter().for_each(|live| rss.take_uncounted(live));
        if statistics.is_some_and(Statistics::is_surveyed) {
            rss.correct_survey();
        }
        Self { parent: reading.details.parent, ..rss }.since(before)
    }

    /// A survey's error in what is live is the opposite of those in what is free, and in the sizes in front of blocks. Calibrated live bytes
    /// are more certain.
    fn correct_survey(&mut self) {
        // The total says nothing of allocators inside objects.
        if self.live_inside.value > 0.0 {
            return;
        }
        let (Some(live), Some(total)) = (self.live, self.total) else { return };
        if total.variance == 0.0 || total.value == 0.0 {
            return;
        }
        let terms = [Term::Live, Term::Free, Term::Metadata];
        let [counted, free, metadata] = terms.map(|term| self.term(term));
        let excess = (total.value - live.value) * counted.value / total.value;
        let of_free = (excess * (free.error_variance() / total.variance).min(1.0)).round();
        let of_free = of_free.clamp(-free.value.max(0.0), counted.value.max(0.0));
        let of_metadata = (excess - of_free).round();
        let most = (counted.value - of_free).max(0.0);
        let of_metadata = of_metadata.clamp(-metadata.value.max(0.0), most);
        self.explained.transfer(Part::Live, Part::FreeChunks, of_free as i64);
        self.explained.transfer(Part::Live, Part::Metadata, of_metadata as i64);
        let variance = live.error_variance();
        let left = counted.value - of_free - of_metadata;
        self.terms[Term::Live as usize] = Estimate::new(left, variance);
        let of_free_variance = free.error_variance().min(variance);
        self.terms[Term::Free as usize] = Estimate::new(free.value + of_free, of_free_variance);
        self.terms[Term::Metadata as usize].value += of_metadata;
    }

    /// Takes live bytes of allocators that have not counted them out of the memory of which no more is known.
    fn take_uncounted(&mut self, live: Estimate) {
        let all = self.live.map_or(0.0, |live| live.value);
        let missing = self.live_not_resident.map_or(0.0, |missing| missing.value);
        let share = if all > 0.0 { 1.0 - missing / all } else { 1.0 };
        let resident = Estimate { value: live.value * share, ..live };
        let variances = take_live(&mut self.explained, resident);
        for term in [Term::Live, Term::Held, Term::Other] {
            let added = variances.iter().find(|of| of.0 == term).map_or(0.0, |of| of.1);
            let variance = self.term(term).error_variance() + added;
            self.terms[term as usize] = Estimate::new(self.explained.term(term) as f64, variance);
        }
    }

    /// `live` says beside the estimate whether its residence must be known in any case.
    fn divided(
        mut explained: Explained,
        statistics: Option<&Statistics>,
        live: Option<(Estimate, bool)>,
        residence: &dyn Fn() -> Option<Residence>,
        allocators: Option<&Allocators>,
    ) -> Self {
        let is_live_counted = explained.part(Part::Live) != 0;
        let surveyed = |half_width: fn(&Statistics) -> f64| {
            (statistics.map_or(0.0, half_width) / NORMAL_QUANTILE_975).powi(2)
        };
        let mut variances = vec![
            (Term::Live, surveyed(Statistics::live_half_width_95_bytes)),
            (Term::Free, surveyed(Statistics::half_width_95_bytes)),
        ];
        let mut live_not_resident = None;
        if let Some((live, is_asked)) = live {
            let most = if is_live_counted {
                explained.part(Part::Live) as f64 + live.half_width_95()
            } else {
                rest(&explained) as f64
            };
            let residence = if is_asked || live.value > most { residence() } else { None };
            let missing = residence.map(|parts| parts.missing);
            live_not_resident = missing.filter(|missing| missing.value >= 1.0);
            if !is_live_counted {
                variances =
                    take_live(&mut explained, residence.map_or(live, |parts| parts.resident));
            }
        }
        // With statistics, what is free is glibc's, whatever else is linked.
        let other = allocators.filter(|_| statistics.is_none()).and_then(|it| it.other.as_ref());
        let other = other.map_or(AllocatorKind::InProgram, |&(kind, _)| kind);
        let of_term = |&(term, _): &(Term, &str)| {
            Estimate::new(
                explained.term(term) as f64,
                variances.iter().find(|of| of.0 == term).map_or(0.0, |of| of.1),
            )
        };
        Self {
            bytes: explained.rss,
            pss: explained.pss,
            private: explained.private,
            peak_bytes: None,
            is_settled: !explained.is_unsettled,
            terms: Term::ALL.iter().map(of_term).collect(),
            is_live_counted,
            live: live.map(|(live, _)| live),
            live_inside: Estimate::default(),
            inside: None,
            calibration: Calibration::NoTotal,
            counting: Counting::default(),
            total: None,
            live_not_resident,
            allocator: match other {
                AllocatorKind::InProgram => "malloc".into(),
                other => format!("{other:?}").to_lowercase(),
            },
            may_hold_live: false,
            before: None,
            parent: None,
            explained,
            releasable: statistics.map(|it| it.sum(Arena::releasable_bytes)),
        }
    }

    /// Sets the event before which the process ran already. Takes memory that the profile does not have out of the live bytes that the
    /// allocator counts: the process had allocated it before that event, or allocates it unseen.
    pub fn since(mut self, before: Option<Before>) -> Self {
        self.before = before;
        self.may_hold_live = before == Some(Before::Attach) && !self.is_live_counted;
        let is_known_whole = !self.is_live_counted || self.calibration == Calibration::Calibrated;
        if let Some(live) = self.live.filter(|_| !is_known_whole) {
            self.set_unseen_apart(live);
        }
        self
    }

    fn set_unseen_apart(&mut self, live: Estimate) {
        let counted = self.terms[Term::Live as usize];
        let not_resident = self.live_not_resident.unwrap_or_default();
        let seen = (live.value - not_resident.value).round().clamp(0.0, counted.value);
        let variance = live.error_variance() + counted.variance;
        let unseen = Estimate::new(counted.value - seen, variance);
        self.explained.transfer(Part::Live, Part::Unseen, unseen.value as i64);
        self.terms[Term::Live as usize] = Estimate::new(seen, live.error_variance());
        self.terms[Term::Unseen as usize] = unseen;
    }

    /// Sums each term over several processes. Shared pages count in each. `None`: there is no process.
    pub fn sum(all: &[&Self]) -> Option<Self> {
        let first = all.first()?;
        let is_one_allocator = all.iter().all(|rss| rss.allocator == first.allocator);
        let of_term = |&(term, _): &(Term, &str)| all.iter().map(|rss| rss.term(term)).sum();
        Some(Self {
            bytes: all.iter().map(|rss| rss.bytes).sum(),
            pss: all.iter().map(|rss| rss.pss).sum(),
            private: all.iter().map(|rss| rss.private).sum(),
            peak_bytes: None,
            is_settled: all.iter().all(|rss| rss.is_settled),
            terms: Term::ALL.iter().map(of_term).collect(),
            is_live_counted: all.iter().all(|rss| rss.is_live_counted),
            // Without the profiles of some, only resident bytes are known of all.
            live: if all.iter().all(|rss| rss.live.is_some()) {
                all.iter().filter_map(|rss| rss.live).map(Estimate::settled).reduce(Add::add)
            } else {
                None
            },
            live_inside: all.iter().map(|rss| rss.live_inside).sum(),
            inside: first.inside.filter(|_| all.iter().all(|rss| rss.inside == first.inside)),
            calibration: Calibration::Several,
            counting: Counting::default(),
            total: None,
            live_not_resident: all.iter().filter_map(|rss| rss.live_not_resident).reduce(Add::add),
            allocator: if is_one_allocator { first.allocator.clone() } else { "allocators".into() },
            may_hold_live: all.iter().any(|rss| rss.may_hold_live),
            before: all
                .iter()
                .filter_map(|rss| rss.before)
                .reduce(|one, other| if one == other { one } else { Before::Either }),
            parent: None,
            explained: all.iter().map(|rss| &rss.explained).sum(),
            releasable: all.iter().filter_map(|rss| rss.releasable).reduce(Add::add),
        })
    }

    /// A term's bytes, with their interval where they are an estimate.
    pub fn term(&self, term: Term) -> Estimate {
        self.terms[term as usize]
    }

    /// `RSS 132 MiB = live 108 MiB (±13%) + files 10.9 MiB + …`: the terms in their order, zeros left out.
    pub fn line(&self) -> String {
        self.line_of(&self.shown())
    }

    /// The same with the live bytes, the largest other terms, and the sum of the rest as `other`.
    pub fn short_line(&self) -> String {
        let shown = self.shown();
        let size = |&(term, bytes): &(Term, Estimate)| match term {
            Term::Live if self.live.is_some() => f64::INFINITY,
            // The live bytes may be all there is.
            Term::Unseen if !bytes.is_significant() => 0.0,
            _ => bytes.value.abs(),
        };
        let mut sizes: Vec<f64> = shown.iter().map(size).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        // Besides the live bytes and the rest.
        let last = sizes.get(MOST_TERMS - 2).copied().unwrap_or(0.0);
        let least = last.max(LEAST_SHARE * self.bytes as f64);
        let (large, small): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|one| size(one) >= least);
        if small.is_empty() {
            return self.line_of(&large);
        }
        let rest: f64 = small.iter().map(|(_, bytes)| bytes.value).sum();
        let sign = if rest < 0.0 { '−' } else { '+' };
        format!("{} {sign} other {}", self.line_of(&large), format_bytes(rest.abs()))
    }

    /// Terms that are not nothing, in their order. The live bytes are one wherever a profile has some.
    fn shown(&self) -> Vec<(Term, Estimate)> {
        let terms = Term::ALL.iter().map(|&(term, _)| (term, self.term(term)));
        let has_live = self.live.is_some_and(|live| live.value != 0.0);
        let is_shown =
            |(term, of): &(Term, Estimate)| of.value != 0.0 || *term == Term::Live && has_live;
        terms.filter(is_shown).collect()
    }

    fn line_of(&self, terms: &[(Term, Estimate)]) -> String {
        let mut line = format!("RSS {}", format_bytes(self.bytes as f64));
        let is_higher = |peak: &u64| *peak >= self.bytes + self.bytes / HIGHER_PART;
        if let Some(peak) = self.peak_bytes.filter(is_higher) {
            line += &format!(" ({} at its peak)", format_bytes(peak as f64));
        }
        if self.explained.is_unsettled {
            line += " (the kernel's total; memory changes faster than its parts can be read)";
        }
        line += " =";
        for (index, &(term, estimate)) in terms.iter().enumerate() {
            let sign = match index {
                _ if estimate.value < 0.0 => " −",
                0 => "",
                _ => " +",
            };
            let shown = Estimate { value: estimate.value.abs(), ..estimate };
            let bytes = match term {
                Term::Live => self.live_words(),
                // Lost live bytes are in one of the other terms, so that each of those is an upper bound.
                _ if shown.is_part() => format!("≤ {}", format_bytes(shown.value)),
                _ => format_term(shown),
            };
            line += &format!("{sign} {} {bytes}", self.word(term));
        }
        line
    }

    /// Returns live bytes as every screen has them, behind the resident ones, which are the term, if these are another figure.
    pub fn live_words(&self) -> String {
        let resident = self.term(Term::Live);
        let Some(live) = self.live else { return format_term(resident) };
        let text = live_text(live);
        if self.is_live_resident() {
            return text;
        }
        format!("{} resident of {text}", format_bytes(resident.value))
    }

    /// Whether live bytes are resident but for a part that is not shown.
    pub fn is_live_resident(&self) -> bool {
        let resident = self.term(Term::Live).value;
        let reads_same = |live| format_amount(live, SampleUnit::Bytes) == format_bytes(resident);
        let is_same = |live: Estimate| (live.value - resident).abs() <= SAME_SHARE * live.value;
        self.live.is_none_or(|live| is_same(live) || reads_same(live))
    }

    /// Whose the memory is that an allocator holds beyond live blocks, where no statistics tell more.
    pub fn holder(&self) -> &str {
        self.inside.unwrap_or(&self.allocator)
    }

    /// Whether an allocator inside an object has told what it has free, beside the C library's statistics.
    pub fn is_inside_divided(&self) -> bool {
        [Part::InsidePages, Part::InsideChunks].iter().any(|&part| self.explained.part(part) > 0)
    }

    /// Whether other anonymous memory may be the allocator's: where another allocator than glibc's does not tell, only live samples show
    /// which areas are its own.
    pub fn may_be_allocators(&self) -> bool {
        !self.is_live_counted && self.allocator != "malloc"
    }

    /// Whether `explain --ask` learns from the allocator how much of its memory is free.
    pub fn can_be_asked(&self) -> bool {
        matches!(&*self.allocator, "jemalloc" | "tcmalloc")
    }

    /// Whether most of what is an allocator's own is a Go program's runtime's.
    fn is_of_go(&self) -> bool {
        let of = |part| self.explained.part(part);
        of(Part::GoRuntime) > of(Part::Metadata)
    }

    /// Every term's name and bytes, in their order: they add up to `bytes`.
    pub fn words(&self) -> impl Iterator<Item = (String, Estimate)> {
        Term::ALL.iter().map(|&(term, _)| (self.word(term), self.term(term)))
    }

    /// Returns the name of a term.
    pub fn word(&self, term: Term) -> String {
        match term {
            Term::Unseen => match self.before {
                Some(Before::Fork) => "inherited from parent or not seen".into(),
                Some(before) => format!("allocated before {before} or not seen"),
                None => "not seen".into(),
            },
            Term::Free => format!("free in {}", self.allocator),
            Term::Held if self.is_inside_divided() => format!("free in {}", self.holder()),
            Term::Held if self.may_hold_live => {
                format!("held by {}: allocated before the attach, or free", self.holder())
            }
            Term::Held => format!("held by {}", self.holder()),
            Term::Live if self.explained.term(Term::GoHeap) > 0 => "live in malloc".into(),
            Term::GoHeap => "Go heap".into(),
            Term::GoFree => "free in Go".into(),
            Term::Metadata if self.is_of_go() => "Go's runtime".into(),
            Term::Other if self.may_be_allocators() => {
                format!("other anonymous or {}'s", self.allocator)
            }
            _ => Term::ALL[term as usize].1.replace('_', " "),
        }
    }
}

/// Anonymous memory of which the profile's estimate may be a part.
fn rest(explained: &Explained) -> i64 {
    [Part::Held, Part::Anonymous].iter().map(|&part| explained.part(part).max(0)).sum()
}

/// Takes live memory out of the memory of which no more is known, first where its blocks are. Returns the terms' variances.
fn take_live(explained: &mut Explained, live: Estimate) -> Vec<(Term, f64)> {
    let variance = live.error_variance();
    let mut variances = vec![(Term::Live, variance)];
    let mut left = live.value.round() as i64;
    for part in [Part::Held, Part::Anonymous, Part::Padding] {
        let there = explained.part(part).max(0);
        let taken = there.min(left);
        explained.transfer(part, Part::Live, taken);
        let term = if part == Part::Held { Term::Held } else { Term::Other };
        if taken > 0 && taken < there {
            variances.push((term, variance));
        }
        left -= taken;
        // If the allocator's areas fall short of the estimate by no more than its error, nothing is left to take elsewhere.
        if part == Part::Held && there > 0 && !live.is_part() && left as f64 <= live.half_width_95()
        {
            left = 0;
        }
    }
    variances
}

fn by_name<S: Serializer>(terms: &[Estimate], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Term::ALL.iter().map(|(_, name)| name).zip(terms))
}

/// Live bytes with their interval. Without a live sample there is no estimate.
pub fn live_text(live: Estimate) -> String {
    if live.is_nothing() {
        "0 B (no live samples)".into()
    } else {
        format_estimate(live, SampleUnit::Bytes)
    }
}

#[cfg(test)]
#[path = "rss_tests.rs"]
mod tests;
#[cfg(test)]
pub use tests::{half_unseen, of_areas};

//! Changes between two sources, and whether they are more than chance.

use crate::named::{Detail, Kinds, assemble, common_sample_type, take_sum};
use crate::naming::Names;
use crate::overlap;
use crate::question::Question;
use crate::report::unit;
use ramson_format::Kind;
use ramson_profile::{Diff, DiffTable, Estimate, Granularity, Profile, SampleType};
use ramson_source::{Failure, Members, Opened, Recording, open_all};
use serde::Serialize;

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// `total` is the change.
    #[serde(flatten)]
    pub table: DiffTable,
    /// Unit of the values.
    pub unit: &'static str,
    /// The earlier source.
    pub old: Side,
    /// The later one.
    pub new: Side,
    /// Both are moments of one process: samples that are live in both cancel.
    pub is_same_process: bool,
    /// Rows before some were left out.
    #[serde(skip)]
    pub all_rows: usize,
}

/// One of two sources.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Side {
    /// Name of the program, or of the file.
    pub name: String,
    /// Process ID; absent if another tool's file does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The processes, if the source is a sum of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Side>,
    /// Processes that were named and have no profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unprofiled: Option<usize>,
}

impl Side {
    fn of(members: &Members) -> Self {
        let mut processes: Vec<Self> = members.opened.iter().map(Self::of_one).collect();
        let unprofiled = Some(members.unprofiled).filter(|&count| count > 0);
        if processes.len() == 1 {
            return Self { unprofiled, ..processes.remove(0) };
        }
        let mut names: Vec<&str> = processes.iter().map(|side| side.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let name = names.join(", ");
        Self { name, pid: None, processes, unprofiled }
    }

    fn of_one(opened: &Opened) -> Self {
        let (name, pid) = match opened {
            Opened::Recording(recording) => (recording.name(), Some(recording.pid())),
            Opened::Foreign(foreign) => (foreign.origin.as_str(), None),
        };
        Self { name: name.to_owned(), pid, processes: Vec::new(), unprofiled: None }
    }
}

/// Compares the two sources of a question.
pub fn compare(question: &Question) -> Result<Comparison, Failure> {
    let [old, new] = question.sources.as_slice() else {
        return Err(Failure::usage("a comparison needs two sources. Pass the earlier one first"));
    };
    compare_opened(&mut open_all(&[old])?, &mut open_all(&[new])?, question)
}

/// Compares what is opened.
pub fn compare_opened(
    old: &mut Members,
    new: &mut Members,
    question: &Question,
) -> Result<Comparison, Failure> {
    let counted = common_sample_type(&old.opened, question.sample_type)?;
    common_sample_type(&new.opened, Some(counted))?;
    let (diff, is_same_process) = read(&mut old.opened, &mut new.opened, question, counted)?;
    let mut table = diff.table(counted, question.sort);
    if question.drop_negative {
        table.rows.retain(|row| row.change.shown().value >= 0.0);
    }
    let all_rows = table.rows.len();
    if question.rows > 0 {
        table.rows.truncate(question.rows);
    }
    Ok(Comparison {
        table,
        unit: unit(counted),
        old: Side::of(old),
        new: Side::of(new),
        is_same_process,
        all_rows,
    })
}

/// Also whether both are moments of one process.
fn read(
    old: &mut [Opened],
    new: &mut [Opened],
    question: &Question,
    sample_type: SampleType,
) -> Result<(Diff, bool), Failure> {
    let detail = if question.selection.uses_labels() { Detail::Labels } else { Detail::Stacks };
    let (mut diff, is_same_process) = parts(old, new, &question.names, detail)?;
    select(&mut diff, question, sample_type)?;
    Ok((diff, is_same_process))
}

/// Two sources without what both hold, and that. Also whether both are moments of one process.
pub(crate) fn parts(
    old: &mut [Opened],
    new: &mut [Opened],
    names: &Names,
    detail: Detail,
) -> Result<(Diff, bool), Failure> {
    let parts = match (&*old, &*new) {
        ([Opened::Recording(old)], [Opened::Recording(new)]) => {
            let parts = overlap::split(&old.snapshot, &new.snapshot);
            parts.map(|it| [old.with(it.old), new.with(it.new), new.with(it.shared)])
        }
        _ => None,
    };
    let diff = match &parts {
        None => {
            let profile = |opened: &mut [Opened]| {
                take_sum(opened, names, detail, Kinds::Usual).map(|named| named.profile)
            };
            Diff { old: profile(old)?, new: profile(new)?, shared: Profile::default() }
        }
        Some([old, new, shared]) => {
            let profile = |part: &Recording| {
                let named = assemble(part, names, detail, Some(Kind::Heap));
                named.map(|named| named.profile)
            };
            Diff { old: profile(old)?, new: profile(new)?, shared: profile(shared)? }
        }
    };
    Ok((diff, parts.is_some()))
}

/// Applies the filters to all parts. One that leaves nothing of all of them is a mistake, of one of them is not.
fn select(diff: &mut Diff, question: &Question, sample_type: SampleType) -> Result<(), Failure> {
    let mut left = false;
    let mut failure = None;
    for profile in [&mut diff.new, &mut diff.old, &mut diff.shared] {
        let was_empty = profile.samples.is_empty();
        profile.granularity = Granularity::Functions;
        match question.selection.apply(profile, sample_type) {
            Ok(_) => left |= !was_empty,
            Err(nothing_left) => {
                profile.samples.clear();
                failure.get_or_insert(nothing_left);
            }
        }
    }
    match failure {
        Some(failure) if !left => Err(failure),
        _ => Ok(()),
    }
}

/// Returns whether a change lies inside its interval. A change whose interval is not known is never called noise.
pub fn is_noise(change: Estimate) -> bool {
    !change.variance.is_nan() && !change.is_significant()
}

//! Reports on the use of memory: a profile as tables and trees.

use crate::extents::has_go;
use crate::frees::{self, Frees};
use crate::members::{Each, RowGrowth, together, unprofiled_text};
use crate::named::{self, Detail, Kinds, Named, common_sample_type, defects, take_named};
use crate::question::{Question, Shown};
use crate::rss::Rss;
use crate::selection::Applied;
use crate::stack_table::{Pointers, StackTable};
use crate::summary::Subject;
use crate::suspects::{self, NamedStack};
use ramson_profile::view::{self, PeekTable, SizeTable, ThreadTable, TopTable, Tree};
use ramson_profile::{Estimate, Granularity, Profile, SampleType, SampleUnit, Step};
use ramson_source::{Failure, Members, Opened};
use ramson_symbols::SymbolDefect;
use serde::{Serialize, Serializer};

/// Tree frames below this share of the total are merged.
const MIN_TREE_SHARE: f64 = 0.005;

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Report {
    /// The rows.
    #[serde(flatten)]
    pub view: View,
    /// Unit of the values.
    pub unit: &'static str,
    /// Sampling interval in bytes; 0: not known.
    pub interval_bytes: u64,
    /// Sum over all stacks, before any filter. Shares are of this sum; if values are negative, of the sum of all changes.
    pub whole: Estimate,
    /// Sum of |value| over all stacks before any filter.
    #[serde(skip)]
    pub magnitude: f64,
    /// Sample type that was counted.
    #[serde(skip)]
    pub sample_type: SampleType,
    /// Defects of the source.
    pub defects: Vec<String>,
    /// Reasons why frames have no names.
    #[serde(serialize_with = "as_texts")]
    #[schemars(with = "Vec<String>")]
    pub missing_symbols: Vec<SymbolDefect>,
    /// The source that the report is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// Other commands that say more about stacks that are live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointers: Option<Pointers>,
    /// Filters that matched nothing.
    #[serde(skip)]
    pub unmatched: Vec<Step>,
    /// Frames of libraries and of wrappers around malloc were taken out of the stacks.
    #[serde(skip)]
    pub is_folded: bool,
    /// Kinds of memory that the report is about.
    #[serde(skip)]
    pub kinds: Kinds,
    /// Growth of what is live.
    #[serde(skip)]
    pub growth: RowGrowth,
    /// The profile that the view was made from.
    #[serde(skip)]
    pub profile: Profile,
    /// Reports on each of several processes, those with the largest RSS first; the rest of this report is about their sum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Each<Report>>,
}

/// The rows.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum View {
    /// Stacks.
    Stacks(StackTable),
    /// Functions or lines.
    Report(TopTable),
    /// Callers to callees.
    Tree(Tree),
    /// Callees to callers.
    Callers(Tree),
    /// Callers and callees.
    Peek(PeekTable),
    /// A histogram.
    Sizes(SizeTable),
    /// Threads.
    Threads(ThreadTable),
    /// Freed blocks.
    Frees(Frees),
    /// Nothing but what is said of the source.
    Health {},
}

fn as_texts<S: Serializer>(defects: &[SymbolDefect], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(defects.iter().map(ToString::to_string))
}

/// Go's arenas are mappings of the program.
fn twice(opened: &Opened, kinds: Kinds) -> Option<String> {
    let Opened::Recording(recording) = opened else { return None };
    let snapshot = &recording.snapshot;
    let has_both = matches!(kinds, Kinds::All) && has_go(snapshot) && !snapshot.extents.is_empty();
    has_both.then(|| "Go's arenas are among the mappings: what lives in them counts twice".into())
}

/// Go's own heap is in memory only, and its process has ended.
fn missing_go(opened: &Opened, profile: &Profile) -> Option<String> {
    let Opened::Recording(recording) = opened else { return None };
    let is_go = || profile.functions.iter().any(|it| &*it.name == "runtime.cgocall");
    let is_lost = recording.running.is_none() && !has_go(&recording.snapshot) && is_go();
    is_lost.then(|| {
        "Go's own heap is known only while the process runs. A history keeps it: ramson history"
            .into()
    })
}

/// Reports on opened sources.
pub fn report(members: &mut Members, question: &Question) -> Result<Report, Failure> {
    if question.address.is_some() && !matches!(question.view, Shown::Frees) {
        return Err(Failure::usage("--address: works only with --view frees. Add --view frees"));
    }
    let counted = common_sample_type(&members.opened, question.sample_type)?;
    let is_one = members.opened.len() == 1;
    let mut question = question.clone();
    if let Shown::Peek(_) = question.view {
        // The functions are what was asked for by name.
        question.selection.own_frames = None;
    }
    let question = &question;
    let mut all = Vec::new();
    let mut answers = Vec::new();
    let mut all_stacks = Vec::new();
    for opened in &mut members.opened {
        let rss = Rss::of_opened(opened, !is_one);
        let named = named(opened, question)?;
        if !is_one {
            all.push(named.clone());
        }
        let subject = Subject::of(opened, &named.profile, rss);
        let missing = defects(opened).into_iter().chain(missing_go(opened, &named.profile));
        let missing = missing.chain(twice(opened, question.kinds));
        let mut answer = Report::new(subject, missing.collect(), named, counted);
        match question.selection.apply(&mut answer.profile, counted) {
            Ok(applied) => answer.note(applied),
            // A filter that leaves nothing of one process leaves something of another.
            Err(_) if !is_one => answer.profile.samples.clear(),
            Err(nothing_left) => return Err(nothing_left),
        }
        let stacks = answer.stacks(opened, question);
        answer.show(Some(opened), &stacks.1, question);
        if !is_one {
            answer.growth = suspects::growth(stacks.1.clone()).0;
        }
        all_stacks.push(stacks);
        answers.push(answer);
    }
    if is_one {
        let mut only = answers.remove(0);
        only.check_peek(question)?;
        only.point_on(all_stacks.remove(0).1);
        only.defects.extend(unprofiled_text(members.unprofiled));
        return Ok(only);
    }
    let summed = match question.view {
        // These are of one process.
        Shown::Frees | Shown::Health => Named::default(),
        _ => named::sum(all, &members.opened)?,
    };
    let (processes, sum, defects) =
        together(answers, members.unprofiled, |it| (&it.subject, &it.defects, it.growth));
    let mut whole = Report::new(sum, defects, summed, counted);
    let applied = question.selection.apply(&mut whole.profile, counted)?;
    whole.note(applied);
    let stacks = suspects::stacks_together(all_stacks);
    whole.show(None, &stacks, question);
    whole.point_on(stacks);
    whole.check_peek(question)?;
    Ok(Report { processes, ..whole })
}

impl Report {
    /// Before anything is selected or shown.
    fn new(subject: Subject, defects: Vec<String>, named: Named, counted: SampleType) -> Self {
        let Named { profile, missing_symbols } = named;
        Self {
            view: View::Health {},
            unit: unit(counted),
            interval_bytes: profile.interval_bytes,
            whole: profile.total(counted),
            magnitude: view::magnitude(&profile, counted),
            sample_type: counted,
            defects,
            missing_symbols,
            subject,
            pointers: None,
            unmatched: Vec::new(),
            is_folded: false,
            kinds: Kinds::Usual,
            growth: RowGrowth::default(),
            profile,
            processes: Vec::new(),
        }
    }

    fn note(&mut self, applied: Applied) {
        self.unmatched = applied.unmatched;
        self.is_folded = applied.is_folded;
    }

    /// The stacks with live samples, and the moment that they show; none where the view is another one.
    fn stacks(&self, opened: &Opened, question: &Question) -> (u64, Vec<NamedStack>) {
        match (opened, &question.view) {
            (Opened::Recording(recording), Shown::Stacks) => {
                let now_ns = suspects::moment_ns(recording);
                (now_ns, suspects::stacks(&recording.snapshot, now_ns, None, &self.profile))
            }
            _ => (0, Vec::new()),
        }
    }

    /// Makes the rows. `opened` is what it is of, if that is one.
    fn show(&mut self, opened: Option<&Opened>, stacks: &[NamedStack], question: &Question) {
        self.kinds = question.kinds;
        if let Shown::Lines = question.view {
            self.profile.granularity = Granularity::Lines;
        }
        let of = self.sample_type;
        self.view = match question.view {
            Shown::Stacks => {
                View::Stacks(StackTable::of(&self.profile, stacks, self.is_folded, question, of))
            }
            _ => rows(opened, &self.profile, question, of),
        };
    }

    /// Says what else there is to see.
    fn point_on(&mut self, stacks: Vec<NamedStack>) {
        if stacks.is_empty() {
            return;
        }
        let rss = match &self.subject {
            Subject::Recording(summary) => summary.rss.as_ref(),
            Subject::Sum(sum) => sum.rss.as_ref(),
            Subject::Foreign(_) => None,
        };
        let (growth, rates) = suspects::growth(stacks);
        self.pointers = Some(Pointers::of(rss, &rates));
        self.growth = growth;
    }

    /// Fails, as a filter that leaves nothing does, if no function has the name that was looked for.
    fn check_peek(&self, question: &Question) -> Result<(), Failure> {
        match (&self.view, &question.view) {
            (View::Peek(table), Shown::Peek(pattern)) if table.functions.is_empty() => {
                Err(Failure::NothingLeft(format!(
                    "--view peek {}: matches no function. \"ramson report SRC\" lists the largest",
                    pattern.as_str()
                )))
            }
            _ => Ok(()),
        }
    }
}

/// `bytes` or `objects`.
pub fn unit(sample_type: SampleType) -> &'static str {
    match sample_type.unit() {
        SampleUnit::Bytes => "bytes",
        SampleUnit::Objects => "objects",
    }
}

/// Returns the profile in the detail that the view needs. The view of the recording's cost needs no names.
fn named(opened: &mut Opened, question: &Question) -> Result<Named, Failure> {
    let is_labelled =
        matches!(question.view, Shown::Sizes | Shown::Threads) || question.selection.uses_labels();
    let detail = match question.view {
        _ if is_labelled => Detail::Labels,
        Shown::Stacks => Detail::Numbered,
        _ => Detail::Stacks,
    };
    match (&*opened, &question.view) {
        (Opened::Recording(recording), Shown::Health) => Ok(Named {
            profile: named::unnamed(recording, detail, question.kinds.of_recording()),
            missing_symbols: Vec::new(),
        }),
        (Opened::Recording(recording), Shown::Frees) => {
            frees::named(recording, &question.names, question.address)
        }
        (Opened::Foreign(foreign), Shown::Frees) => {
            Err(foreign.lacks("does not say what freed a block. Pass a profile that ramson made"))
        }
        (Opened::Foreign(foreign), Shown::Health) => {
            Err(foreign.lacks("does not say how it was recorded. Pass another --view"))
        }
        _ => take_named(opened, &question.names, detail, question.kinds),
    }
}

fn rows(opened: Option<&Opened>, profile: &Profile, question: &Question, of: SampleType) -> View {
    match (&question.view, opened) {
        (Shown::Functions | Shown::Lines, _) => View::Report(functions(profile, question, of)),
        (Shown::Tree, _) => View::Tree(view::tree(profile, of, MIN_TREE_SHARE)),
        (Shown::Callers, _) => View::Callers(view::callers(profile, of, MIN_TREE_SHARE)),
        (Shown::Peek(pattern), _) => View::Peek(view::peek(profile, of, pattern)),
        (Shown::Sizes, _) => View::Sizes(view::sizes(profile, of)),
        (Shown::Threads, _) => View::Threads(view::threads(profile, of)),
        (Shown::Frees, Some(Opened::Recording(recording))) => {
            View::Frees(frees::frees(recording, profile, question.address))
        }
        (Shown::Stacks | Shown::Frees | Shown::Health, _) => View::Health {},
    }
}

fn functions(profile: &Profile, question: &Question, of: SampleType) -> TopTable {
    let mut table = view::top(profile, of, question.sort);
    if question.rows > 0 {
        table.rows.truncate(question.rows);
    }
    table
}

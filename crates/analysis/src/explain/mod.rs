//! Explains a process's resident memory: what it is, why it is there, and what to do. No thread is stopped.

mod advice;
mod answer;
mod cause;
mod causes;
mod finding;
mod go;
mod leaks;
mod malloc_info;
mod named;
mod pins;
mod words;

pub use advice::{Advice, Needs, Saving};
pub use cause::Cause;
pub use finding::Finding;
pub use leaks::{Growing, Leaks};
pub use malloc_info::FileFinding;
pub use pins::{Pins, Site};

use crate::attachment;
use crate::early_ends;
use crate::extents;
use crate::goroutines::goroutines;
use crate::members::{Each, Row};
use crate::owners;
use crate::question::Question;
use crate::rss::{Asked, Rss};
use ramson_format::AllocatorKind;
use ramson_leaks::Slope;
use ramson_process::allocators::{Allocator, Figures};
use ramson_process::cgroup::Groups;
use ramson_process::clock::monotonic_ns;
use ramson_process::rss::{self, Reading, Request};
use ramson_process::{Binary, Part, Search, processes};
use ramson_reader::{Snapshot, object_name};
use ramson_source::{Failure, Target, Targets, find_targets, gone, malloc_info};
use serde::Serialize;
use std::cmp::Reverse;
use std::mem;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Looks at what a control group uses, and the time between them.
const GROUP_LOOKS: u32 = 16;
const GROUP_PAUSE: Duration = Duration::from_millis(200);

/// Findings in one process, in several, or in a file.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Examined {
    /// In one.
    One(Box<Finding>),
    /// In several.
    Several(Box<Findings>),
    /// In what glibc's malloc_info wrote.
    File(Box<FileFinding>),
}

/// Explains the processes of a question, or the file of one.
pub fn explain(question: &Question) -> Result<Examined, Failure> {
    if let [source] = question.sources.as_slice()
        && let Some(info) = malloc_info(source.as_ref())
    {
        return Ok(Examined::File(Box::new(FileFinding::of(source, &info))));
    }
    let targets = find_targets(&question.sources)?;
    if let ([target], []) = (targets.found.as_slice(), targets.refused.as_slice()) {
        return Ok(Examined::One(Box::new(examine(target, question, None)?)));
    }
    examine_all(&targets, question).map(|all| Examined::Several(Box::new(all)))
}

/// Looks at a process. `asked` is what its allocator said when it was asked just before, if it was.
pub fn examine(
    target: &Target,
    question: &Question,
    asked: Option<Result<Figures, Failure>>,
) -> Result<Finding, Failure> {
    look_at(target, question, asked, false)
}

fn look_at(
    target: &Target,
    question: &Question,
    asked: Option<Result<Figures, Failure>>,
    is_one_of_many: bool,
) -> Result<Finding, Failure> {
    let profile = target.profile.as_ref();
    let own = profile.and_then(|recording| extents::without_go(&recording.snapshot));
    let snapshot = own.as_deref();
    let extents = snapshot.map_or(Vec::new(), extents::ranges);
    let (blocks, blocks_inside) = snapshot.map(extents::blocks).unwrap_or_default();
    let mut allocators = None;
    let names = &question.names;
    let own_frames = question.selection.own_frames.as_ref();
    let request = Request {
        effort: question.effort,
        profile: profile.map(|recording| recording.origin.as_str()),
        extents: &extents,
        blocks: &blocks,
        blocks_inside: &blocks_inside,
        is_one_of_many,
    };
    let mut reading = rss::read(target.pid, &mut allocators, &request).map_err(|_| gone(target))?;
    let allocators = allocators.ok_or_else(|| gone(target))?;
    let inside = snapshot.filter(|_| !allocators.is_replaced());
    let inside = inside.and_then(Snapshot::asked_allocator);
    let figures = asked.as_ref().and_then(|asked| asked.as_ref().ok());
    if let Some(figures) = figures {
        let is_beside = reading.statistics.is_ok();
        let parts = figures.parts.iter();
        let parts =
            parts.map(|&(part, bytes)| (if is_beside { beside(part) } else { part }, bytes));
        reading.explained.divide_anonymous(&parts.collect::<Vec<_>>());
    }
    let asked_inside = figures.filter(|_| !allocators.is_replaced()).map(|figures| Asked {
        name: if figures.function == "mallctl" { "jemalloc" } else { "tcmalloc" },
        family: inside.map(|it| it.family),
    });
    let rss = Rss::of(&reading, snapshot, Some(&allocators), asked_inside);
    let rss = rss.with_peak_of(target.pid);
    let calibrated = profile.map(|recording| recording.with(counted(&recording.snapshot, &rss)));
    let live = snapshot.map(|own| extents::live_heap(&counted(own, &rss)));
    let pins = match (&calibrated, &reading.memory, &reading.statistics) {
        (Some(recording), Some(memory), Ok(statistics)) if pins::is_much_pinned(&rss) => {
            Some(pins::pins(recording, memory, statistics, names, own_frames)?)
        }
        _ => None,
    };
    // A process that is not sampled any more is not judged.
    let has_sampling_ended = profile.is_some_and(|it| attachment::ended_ago_ns(it).is_some());
    let judged = calibrated.filter(|_| !has_sampling_ended);
    let leaks = judged.map(|recording| Leaks::of(recording, question)).transpose()?;
    let variables = named_variables(target.pid, &reading);
    let ended_function = reading.details.ended_function.as_ref();
    let ended_function = ended_function.and_then(|(path, offset)| {
        let name = Binary::at(target.pid, path)?.search(Search::Function(*offset)).text()?;
        Some(demangled(name))
    });
    let is_worth_it =
        |part| reading.explained.part(part).max(0) as u64 >= cause::least(reading.explained.rss);
    let owner =
        is_worth_it(Part::Anonymous).then(|| owners::of_heap(target.pid, snapshot)).flatten();
    // A Go program's heap has terms of its own.
    let owner = owner.filter(|_| reading.go.is_none());
    let extents_owner = snapshot.filter(|_| is_worth_it(Part::Extents)).map(|snapshot| {
        let bytes = reading.explained.part(Part::Extents).max(0) as u64;
        owners::text(&owners::owners(target.pid, snapshot, bytes))
    });
    if let (Some(recording), Some(path)) = (profile, processes::executable(target.pid)) {
        let own = reading.details.files.iter_mut().find(|file| Path::new(&file.path) == path);
        own.into_iter().for_each(|file| file.path = recording.name().to_owned());
    }
    let goroutines = reading.go.as_ref().and_then(|_| goroutines(target.pid, names));
    let mut finding = Finding {
        pid: target.pid,
        object: target.pid.to_string(),
        name: target.name.clone(),
        rss,
        details: reading.details,
        variables,
        ended_function,
        owner,
        extents_owner,
        causes: Vec::new(),
        allocators,
        statistics: reading.statistics,
        inside: inside.map(|it| inside_allocator(target.pid, it, asked.is_some())),
        asked: asked.map(|asked| asked.map_err(|failure| failure.to_string())),
        live,
        limit: Groups::of(target.pid).limit(),
        group_growth: None,
        page_tables: rss::page_tables(target.pid),
        pins,
        early_ends: snapshot.and_then(early_ends::line),
        detached: profile.and_then(attachment::detached_text),
        has_sampling_ended,
        leaks,
        go: reading.go,
        goroutines: goroutines.and_then(Result::ok),
        advice: Vec::new(),
    };
    if finding.limit.is_some() && advice::growth::grows(&finding) {
        finding.group_growth = group_growth(target.pid);
        // One that has ended meanwhile has no groups.
        finding.limit = Groups::of(target.pid).limit().or(finding.limit.take());
    }
    finding.causes = causes::causes(&finding);
    finding.advice = advice::advice(&finding);
    Ok(finding)
}

/// Where the figures of an allocator go that has memory beside glibc's.
fn beside(part: Part) -> Part {
    match part {
        Part::FreePages => Part::InsidePages,
        Part::FreeChunks | Part::Tcaches => Part::InsideChunks,
        other => other,
    }
}

/// The allocator inside an object, with the variable that configures it if its settings matter.
fn inside_allocator(pid: u32, found: &ramson_reader::Allocator, has_settings: bool) -> Allocator {
    let kind = AllocatorKind::of(found.kind).unwrap_or(AllocatorKind::Other);
    let variable = || {
        let binary = if found.path.is_empty() {
            Binary::executable(pid)
        } else {
            Binary::at(pid, &found.path)
        };
        binary?.search(Search::JemallocVariable).text()
    };
    Allocator {
        name: kind.name().into(),
        origin: format!("in {}", object_name(&found.path)),
        path: found.path.clone(),
        variable: (has_settings && kind == AllocatorKind::Jemalloc).then(variable).flatten(),
    }
}

/// The largest variables, where they are a part worth a word.
fn named_variables(pid: u32, reading: &Reading) -> Vec<(String, u64)> {
    let bytes = reading.explained.part(Part::Data).max(0) as u64;
    let first = reading.details.variables.first();
    let binary = first.filter(|_| bytes >= cause::least(reading.explained.rss));
    let binary = binary.and_then(|binary| Binary::at(pid, &binary.path));
    let named = binary.map_or(Vec::new(), |binary| binary.search(Search::Variables).sizes());
    named.into_iter().map(|(name, bytes)| (demangled(name), bytes)).collect()
}

fn demangled(name: String) -> String {
    ramson_symbols::demangle(&name).unwrap_or(name)
}

fn counted(snapshot: &Snapshot, rss: &Rss) -> Snapshot {
    Snapshot { counting: rss.counting, ..snapshot.clone() }
}

/// The growth of what a process's control group uses, within three seconds from now: a shorter time would show single bursts.
fn group_growth(pid: u32) -> Option<Slope> {
    let mut looks: Vec<(u64, f64)> = Vec::new();
    for _ in 0..GROUP_LOOKS {
        let used = Groups::of(pid).limit().map(|limit| limit.used_bytes as f64);
        looks.extend(used.map(|used| (monotonic_ns(), used)));
        thread::sleep(GROUP_PAUSE);
    }
    Slope::of(&looks)
}

/// Findings about several processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Findings {
    /// The sum of each term; shared pages count in each process, but for `pss`.
    pub rss: Option<Rss>,
    /// Advice for any of them, the largest saving first; changes of the code come last.
    pub advice: Vec<Placed>,
    /// Those that could not be looked at.
    pub refused: Vec<Refusal>,
    /// Those with the most private memory first.
    pub processes: Vec<Each<Finding>>,
}

/// An advice about some of the processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Placed {
    /// For these, those with the most private memory first.
    pub processes: Vec<Place>,
    /// With what it saves in all of them, and the evidence of the first.
    #[serde(flatten)]
    pub advice: Advice,
}

/// A process.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub struct Place {
    /// Its ID.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
}

/// A process that could not be looked at.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Refusal {
    /// The process.
    pub pid: u32,
    /// Why.
    pub reason: String,
}

/// Looks at each of them. One that ends meanwhile is refused; fails if none is left.
fn examine_all(targets: &Targets, question: &Question) -> Result<Findings, Failure> {
    let refusal = |pid, failure: &Failure| Refusal { pid, reason: failure.to_string() };
    let refused = targets.refused.iter().map(|refused| refusal(refused.pid, &refused.failure));
    let mut refused: Vec<Refusal> = refused.collect();
    let mut processes = Vec::new();
    let mut first_failure = None;
    let examined = targets.each(|target| look_at(target, question, None, true));
    for (target, examined) in targets.found.iter().zip(examined) {
        match examined {
            Ok(finding) => {
                let mut row = Row::of_process(target.pid, target.name.clone());
                row.rss = Some(finding.rss.bytes);
                row.private = Some(finding.rss.private);
                row.growth = finding.row_growth();
                processes.push(Each { row, answer: finding });
            }
            Err(failure) => {
                refused.push(refusal(target.pid, &failure));
                first_failure.get_or_insert(failure);
            }
        }
    }
    if let (true, Some(failure)) = (processes.is_empty(), first_failure) {
        return Err(failure);
    }
    processes.sort_by(|a, b| a.row.order(&b.row));
    let advice = placed(&mut processes, &question.sources);
    let rss: Vec<&Rss> = processes.iter().map(|each| &each.answer.rss).collect();
    Ok(Findings { rss: Rss::sum(&rss), advice, refused, processes })
}

impl Placed {
    fn add(&mut self, place: Place, own: &Advice, for_all: &Advice) {
        self.processes.push(place);
        self.advice.action.clone_from(&for_all.action);
        self.advice.saving = self.advice.saving.zip(own.saving).map(|(sum, own)| sum.and(own));
    }
}

/// Advice that is the same for several processes is one, whose command names them as the user did.
fn placed(processes: &mut [Each<Finding>], sources: &[String]) -> Vec<Placed> {
    let mut all: Vec<(Placed, Advice)> = Vec::new();
    for finding in processes.iter_mut().map(|each| &mut each.answer) {
        let own = mem::replace(&mut finding.object, sources.join(" "));
        let for_all = advice::advice(finding);
        finding.object = own;
        for (advice, for_all) in finding.advice.iter().zip(for_all) {
            if advice.needs == Needs::Nothing {
                continue;
            }
            let place = Place { pid: finding.pid, name: finding.name.clone() };
            let is_same = |it: &&mut (Placed, Advice)| {
                it.1.cause == for_all.cause && it.1.action == for_all.action
            };
            match all.iter_mut().find(is_same) {
                Some((known, _)) => known.add(place, advice, &for_all),
                None => {
                    let placed = Placed { processes: vec![place], advice: advice.clone() };
                    all.push((placed, for_all));
                }
            }
        }
    }
    let mut all: Vec<Placed> = all.into_iter().map(|(placed, _)| placed).collect();
    let bytes = |placed: &Placed| placed.advice.saving.map(|saving| saving.bytes);
    all.sort_by_key(|placed| (placed.advice.needs == Needs::Code, Reverse(bytes(placed))));
    all
}

#[cfg(test)]
mod tests;

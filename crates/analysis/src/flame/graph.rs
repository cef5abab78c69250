//! The call tree of a source, as it is kept to be asked about.

use super::answer::{Flame, Flat, Found, Merged, Value};
use super::functions::{Functions, Mentioned};
use super::{Question, Shown, Wanted};
use crate::calibration::calibrate_all;
use crate::named::{Detail, Kinds, common_sample_type, defects, take_sum};
use crate::report::unit;
use crate::tint::{self, Tint, TintTotal, Tinted};
use ramson_profile::view::{CallTree, Cut, CutNode, Cutting, Growing, Walk};
use ramson_profile::{Estimate, FrameTable, Profile, SampleType};
use ramson_source::{Failure, Members, Opened};
use std::sync::{Arc, Mutex, PoisonError};

/// Deeper frames are merged: no picture is higher.
const MOST_DEPTH: usize = 400;
/// Most nodes of one picture, its trees together.
pub const MOST_NODES: usize = 5000;
/// Functions in the table beside it.
const MOST_ROWS: usize = 40;

/// A source's call tree: read once, and cut as often as is needed.
pub struct Graph {
    functions: Functions,
    counted: SampleType,
    time_unix_ns: u64,
    total: Value,
    defects: Vec<String>,
    is_moving: bool,
    has_all: bool,
    tint: Option<Tint>,
    calls: CallTree,
    turned: Mutex<Turned>,
}

/// The parts of a profile that its graph is made from.
struct Sown {
    functions: Functions,
    counted: SampleType,
    time_unix_ns: u64,
    total: Value,
    stacks: Growing,
}

impl Sown {
    /// `figures`: what colours its samples.
    fn of(profile: &Profile, counted: SampleType, figures: Option<&[Estimate]>) -> Self {
        let frames = FrameTable::new(profile);
        let total = |of| profile.total(of);
        Self {
            stacks: Growing::new(profile, &frames, counted, figures),
            functions: Functions::new(profile, frames),
            counted,
            time_unix_ns: profile.time_unix_ns,
            total: Value { value: total(counted), objects: total(counted.objects()) },
        }
    }

    fn grow(self) -> Graph {
        Graph {
            functions: self.functions,
            counted: self.counted,
            time_unix_ns: self.time_unix_ns,
            total: self.total,
            defects: Vec::new(),
            is_moving: false,
            has_all: false,
            tint: None,
            calls: self.stacks.grow(),
            turned: Mutex::default(),
        }
    }
}

/// The same stacks otherwise, where they were asked for.
#[derive(Default)]
struct Turned {
    callers: Option<Arc<CallTree>>,
    /// Name that was asked for last, with the trees around its functions.
    around: Option<(String, Arc<Around>)>,
}

/// The callees and the callers of some functions.
struct Around {
    callees: CallTree,
    callers: CallTree,
}

impl Graph {
    /// Reads sources, which are added up, with the frames that are asked for. `old` are the earlier ones where changes colour them.
    pub fn read(
        members: &mut Members,
        old: Option<&mut Members>,
        wanted: &Wanted,
    ) -> Result<Self, Failure> {
        let counted = common_sample_type(&members.opened, wanted.sample_type)?;
        let defects = members.opened.iter().flat_map(defects).collect();
        let moves = |opened: &Opened| match opened {
            Opened::Recording(recording) => recording.running.is_some() || recording.past.is_some(),
            Opened::Foreign(_) => false,
        };
        let earlier = old.as_ref().is_some_and(|old| old.opened.iter().any(moves));
        let is_moving = earlier || members.opened.iter().any(moves);
        if old.is_none() {
            calibrate_all(&mut members.opened);
        }
        let (profile, figures, is_folded) = match tint::read(members, old, wanted, counted)? {
            Some(Tinted { profile, figures, is_folded, .. }) => (profile, Some(figures), is_folded),
            None => {
                let named =
                    take_sum(&mut members.opened, wanted.names, Detail::Stacks, Kinds::Usual)?;
                let mut profile = named.profile;
                let is_folded = wanted.shown.fold(&mut profile);
                (profile, None, is_folded)
            }
        };
        // The rules for own frames have those of the standard libraries among them.
        let has_all = wanted.shown == Shown::Own && !is_folded;
        let sown = Sown::of(&profile, counted, figures.as_deref());
        // A million stacks take as much as the tree that they become.
        drop((profile, figures));
        Ok(Self { defects, is_moving, has_all, tint: wanted.tint, ..sown.grow() })
    }

    /// Creates the graph of a profile whose frames are those that are asked for.
    pub fn of_profile(profile: &Profile, counted: SampleType) -> Self {
        Sown::of(profile, counted, None).grow()
    }

    /// The same, coloured.
    pub fn of_tinted(tinted: &Tinted, counted: SampleType) -> Self {
        let sown = Sown::of(&tinted.profile, counted, Some(&tinted.figures));
        Self { tint: Some(tinted.by), ..sown.grow() }
    }

    /// Whether no frame was taken out, so that it is the graph with all frames, too.
    pub fn has_all(&self) -> bool {
        self.has_all
    }

    /// Whether it is of a process that runs, or of a moment of a history, which grows: so that it may be another soon.
    pub fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// Estimates the size of the graph in memory, in bytes, with the trees that were made of it since.
    pub fn bytes(&self) -> usize {
        let turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        let callers = turned.callers.as_ref().map_or(0, |callers| callers.bytes());
        let around =
            turned.around.as_ref().map_or(0, |(_, it)| it.callees.bytes() + it.callers.bytes());
        self.functions.bytes() + self.calls.bytes() + callers + around
    }

    /// Lets go of what was made of it since.
    pub fn shrink(&self) {
        *self.turned.lock().unwrap_or_else(PoisonError::into_inner) = Turned::default();
    }

    fn callers(&self) -> Arc<CallTree> {
        let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        turned.callers.get_or_insert_with(|| Arc::new(self.calls.callers())).clone()
    }

    fn around(&self, name: &str) -> Arc<Around> {
        let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = turned.around.as_ref().filter(|(known, _)| known == name) {
            return known.clone();
        }
        let functions = self.functions.called(name);
        let of = |walk| self.calls.around(&functions, walk);
        let made = Arc::new(Around { callees: of(Walk::Callees), callers: of(Walk::Callers) });
        turned.around = Some((name.to_owned(), made.clone()));
        made
    }

    /// Returns what `take` makes of the tree, cut as the question says, and more narrowly until `take` accepts one. `take` is never
    /// given a tree of more than `MOST_NODES` nodes.
    pub fn flame<T>(&self, question: &Question, take: impl FnMut(Flame) -> Option<T>) -> T {
        match (question.around, question.walk) {
            (Some(name), _) => {
                let around = self.around(name);
                self.answer(question, (&around.callees, Some(&around.callers)), take)
            }
            (None, Walk::Callees) => self.answer(question, (&self.calls, None), take),
            (None, Walk::Callers) => self.answer(question, (&self.callers(), None), take),
        }
    }

    fn answer<T>(
        &self,
        question: &Question,
        (calls, callers): (&CallTree, Option<&CallTree>),
        mut take: impl FnMut(Flame) -> Option<T>,
    ) -> T {
        let path = self.functions.path(question.path);
        let flat = calls.flat(&path);
        let is_match = question.search.map(|search| self.functions.matching(search));
        let found = is_match.as_deref().map(|is_match| Found {
            functions: is_match.iter().filter(|&&is_match| is_match).count(),
            value: self.calls.through(is_match),
        });
        let mut least_share = question.least_share;
        loop {
            let cut = |calls: &CallTree, path| {
                calls.cut(&Cutting { path, least_share, most_depth: MOST_DEPTH })
            };
            let tree = cut(calls, &path);
            let callers = callers.map(|callers| cut(callers, &[]).nodes);
            if tree.nodes.len() + callers.as_ref().map_or(0, Vec::len) <= MOST_NODES {
                let is_match = is_match.as_deref().unwrap_or(&[]);
                let mut mentioned = Mentioned::new(&self.functions, is_match, self.tint);
                let flat = flat.iter().take(MOST_ROWS).map(|&(id, value, objects)| Flat {
                    function: mentioned.place(id),
                    value,
                    objects,
                });
                let flat = flat.collect();
                let picture = Picture { tree, callers, least_share };
                let flame = self.picture(question, picture, mentioned);
                if let Some(taken) = take(Flame { flat, search: found, ..flame }) {
                    return taken;
                }
            }
            least_share = (least_share * 1.5).max(1e-6);
        }
    }

    fn picture(&self, question: &Question, picture: Picture, mut mentioned: Mentioned) -> Flame {
        let Picture { tree: Cut { total, path, nodes }, callers, least_share } = picture;
        let around = Value { value: total.cum, objects: total.objects };
        let tint = self.tint.map(|by| TintTotal { by, figure: by.figure(&total) });
        let merged = merged(nodes.iter().chain(callers.iter().flatten()), least_share);
        let path = mentioned.nodes(&path);
        let nodes = mentioned.nodes(&nodes);
        let callers = callers.map(|nodes| mentioned.nodes(&nodes));
        let (functions, libraries) = mentioned.named();
        Flame {
            sample_type: self.counted,
            unit: unit(self.counted),
            time_unix_ns: self.time_unix_ns,
            total: self.total,
            around: question.around.map(|_| around),
            functions,
            libraries,
            path,
            nodes,
            callers,
            merged,
            search: None,
            flat: Vec::new(),
            tint,
            defects: self.defects.clone(),
        }
    }
}

/// Trees that are cut.
struct Picture {
    tree: Cut,
    callers: Option<Vec<CutNode>>,
    least_share: f64,
}

fn merged<'a>(nodes: impl Iterator<Item = &'a CutNode>, least_share: f64) -> Merged {
    let none = Merged { least_share, ..Merged::default() };
    nodes.filter(|node| node.merged > 0).fold(none, |sum, node| Merged {
        frames: sum.frames + node.merged,
        value: sum.value + node.cum,
        least_share,
    })
}

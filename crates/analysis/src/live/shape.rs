//! Names of the stacks of a process. A thread of its own looks them up, so that nothing waits for the names.

use crate::named::{Detail, name, stack_number, unnamed};
use crate::naming::Names;
use crate::selection::Selection;
use ramson_follow::{Pace, thread_cpu_time};
use ramson_format::Kind;
use ramson_profile::{FrameName, FrameTable, SampleType};
use ramson_reader::Snapshot;
use ramson_source::{Failure, Recording};
use ramson_symbols::{SymbolDefect, Symbolizer};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// New names are asked for this far apart, and for this share of a core.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const SHARE: f64 = 0.001;

/// A frame and a line in it.
#[derive(Clone, Copy)]
pub struct Place {
    /// Index into `Shape::names`.
    pub frame: usize,
    /// 0: unknown.
    pub line: u32,
}

/// The frames of every stack that is shown.
#[derive(Default)]
pub struct Shape {
    /// Names of the functions.
    pub names: Vec<FrameName>,
    /// Places in the functions that stacks pass through.
    pub places: Vec<Place>,
    /// By number of the stack: indices into `places`, leaf first. Empty: filtered out, or of another kind.
    pub stacks: Vec<Vec<usize>>,
    /// Reasons why frames have no names.
    pub missing_symbols: Vec<SymbolDefect>,
}

/// The part of a profile that is shown, and the names that it is shown under.
#[derive(Clone)]
pub struct Wanted {
    /// Which names are shown.
    pub names: Names,
    /// Which part.
    pub selection: Selection,
    /// Which memory; `None`: all.
    pub kind: Option<Kind>,
}

impl Shape {
    /// Fails if the filters leave nothing.
    pub fn of(
        source: &Recording,
        wanted: &Wanted,
        symbolizer: &mut Symbolizer,
    ) -> Result<Self, Failure> {
        let profile = unnamed(source, Detail::Numbered, wanted.kind);
        let mut named = name(source, &wanted.names, symbolizer, profile);
        wanted.selection.apply(&mut named.profile, SampleType::AllocSpace)?;
        let table = FrameTable::new(&named.profile);
        let mut shape = Self {
            names: table.ids().map(|id| table.name(id).clone()).collect(),
            stacks: vec![Vec::new(); source.snapshot.stacks.len()],
            missing_symbols: named.missing_symbols,
            ..Self::default()
        };
        let mut known = HashMap::new();
        for sample in &named.profile.samples {
            let Some(number) = stack_number(sample) else { continue };
            let places = table.stack(sample).map(|at| {
                *known.entry(at).or_insert_with(|| {
                    shape.places.push(Place { frame: at.frame.index(), line: at.line });
                    shape.places.len() - 1
                })
            });
            shape.stacks[number] = places.collect();
        }
        Ok(shape)
    }

    /// The function of a place.
    pub fn frame(&self, place: usize) -> usize {
        self.places[place].frame
    }

    /// The frames of a stack, leaf first; none of one that is not shown or has no names yet.
    pub fn stack(&self, number: usize) -> &[usize] {
        self.stacks.get(number).map_or(&[], Vec::as_slice)
    }
}

/// The thread that looks up names.
pub struct Namer {
    questions: Sender<Recording>,
    /// With what each of them cost.
    answers: Receiver<(Result<Shape, Failure>, Duration)>,
    /// `None`: every question is asked, and its answer waited for.
    pace: Option<Pace>,
    /// Stacks that were asked about.
    asked: usize,
    is_waiting: bool,
}

impl Namer {
    /// `is_patient`: answers are waited for.
    pub fn start(source: &Recording, wanted: Wanted, is_patient: bool) -> Result<Self, Failure> {
        let mut symbolizer = wanted.names.search.symbolizer(Some(source))?;
        let (questions, asked) = channel::<Recording>();
        let (answer, answers) = channel();
        thread::spawn(move || {
            let mut is_first = true;
            for source in asked {
                let before = thread_cpu_time();
                let shape = Shape::of(&source, &wanted, &mut symbolizer);
                // The cost of the first lookup is paid only once, so it does not count.
                let spent = thread_cpu_time().saturating_sub(before);
                let cost = if is_first { Duration::ZERO } else { spent };
                is_first = false;
                // The view has moved on and does not wait for it.
                let _ = answer.send((shape, cost));
            }
        });
        let pace = (!is_patient).then(|| Pace::new(LEAST_PAUSE, SHARE));
        Ok(Self { questions, answers, pace, asked: 0, is_waiting: false })
    }

    /// Asks if there are stacks without names. It costs a copy of the stacks.
    pub fn ask(&mut self, source: &Recording, snapshot: &Snapshot) {
        let is_due = self.pace.as_ref().is_none_or(Pace::is_due);
        if self.is_waiting || snapshot.stacks.len() == self.asked || !is_due {
            return;
        }
        self.asked = snapshot.stacks.len();
        let copy = Snapshot {
            header: snapshot.header.clone(),
            mappings: snapshot.mappings.clone(),
            stacks: snapshot.stacks.clone(),
            ..Snapshot::default()
        };
        // The thread ends only with us.
        let _ = self.questions.send(source.with(copy));
        self.is_waiting = true;
    }

    /// The answer, if there is one by now.
    pub fn answer(&mut self) -> Option<Result<Shape, Failure>> {
        let (shape, cost) = match &self.pace {
            None if self.is_waiting => self.answers.recv().ok(),
            _ => self.answers.try_recv().ok(),
        }?;
        self.is_waiting = false;
        self.pace.iter_mut().for_each(|pace| pace.put_off(cost));
        Some(shape)
    }
}

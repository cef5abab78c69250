//! The call tree of a source for a picture of a given width: cut to what it can show, with what was merged.

use crate::named::{Detail, Kinds, common_sample_type, defects, take_sum};
use crate::naming::Names;
use crate::report::unit;
use ramson_profile::view::{Cut, CutNode, Cutting, Walk, cut};
use ramson_profile::{
    Estimate, FrameId, FrameName, FrameTable, OwnFrames, Pattern, Profile, SampleType, short_name,
};
use ramson_source::{Failure, Members};
use serde::Serialize;
use std::collections::HashMap;

/// Deeper frames are merged: no picture is higher.
const MOST_DEPTH: usize = 400;
/// Of one picture.
pub const MOST_NODES: usize = 5000;
/// Functions in the table beside it.
const MOST_ROWS: usize = 40;

/// Which frames the tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All.
    All,
    /// Without those of the standard libraries.
    NoStandard,
    /// Only the program's own, as tables have them.
    Own,
}

impl Shown {
    /// Takes the other frames out of all stacks.
    pub fn fold(self, profile: &mut Profile) {
        match self {
            Self::All => false,
            Self::NoStandard => OwnFrames::of_standard_libraries().fold(profile),
            Self::Own => OwnFrames::default().fold(profile),
        };
    }
}

/// What is asked.
pub struct Question<'a> {
    /// Which names are shown.
    pub names: &'a Names,
    /// What to count; `None`: the source's own first choice.
    pub sample_type: Option<SampleType>,
    /// Which way the tree leads.
    pub walk: Walk,
    /// Which frames it has.
    pub shown: Shown,
    /// Keys of the frames from the start to the zoomed one.
    pub path: &'a [u32],
    /// Only stacks through the functions of this name: what they call, and what calls them.
    pub around: Option<&'a str>,
    /// What is looked for.
    pub search: Option<&'a Pattern>,
    /// Of the zoomed frame's value: narrower frames are merged.
    pub least_share: f64,
}

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Flame {
    /// What was counted.
    pub sample_type: SampleType,
    /// Of the values.
    pub unit: &'static str,
    /// When the profile was, in ns since 1970; 0: not known.
    pub time_unix_ns: u64,
    /// All stacks of the source: what shares are shares of.
    pub total: Value,
    /// Of the stacks through the functions that were asked for; `null` without such.
    pub around: Option<Value>,
    /// Functions that the nodes name by their place here.
    pub functions: Vec<FunctionEntry>,
    /// Binaries that the functions name by their place here.
    pub libraries: Vec<String>,
    /// The zoomed frame and those that lead to it, outermost first.
    pub path: Nodes,
    /// The tree below the zoomed frame.
    pub nodes: Nodes,
    /// What calls the functions that were asked for.
    pub callers: Option<Nodes>,
    /// All frames that have no node of their own.
    pub merged: Merged,
    /// What the search found.
    pub search: Option<Found>,
    /// What functions allocate themselves in the zoomed stacks, the largest first.
    pub flat: Vec<Flat>,
    /// What the source lacks.
    pub defects: Vec<String>,
}

/// A value with its objects.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Value {
    /// Of the sample type.
    pub value: Estimate,
    /// How many allocations.
    pub objects: Estimate,
}

/// A function.
#[derive(Serialize, schemars::JsonSchema)]
pub struct FunctionEntry {
    /// Names it in `path`.
    pub key: u32,
    /// In full.
    #[serde(flatten)]
    pub name: FrameName,
    /// Without parameters and template arguments.
    pub short: String,
    /// Its binary's place among the libraries; `null`: none.
    pub library: Option<usize>,
    /// The program's own, by the rules for own frames.
    pub is_own: bool,
    /// The search matches it.
    pub is_match: bool,
}

/// Nodes of a tree in its order, a column for each of their figures.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Nodes {
    /// 0 for the first.
    pub depth: Vec<usize>,
    /// Place among the functions; `-1`: merged frames.
    pub function: Vec<i64>,
    /// Stacks that pass through here; `null`: not known.
    pub cum: Vec<Option<i64>>,
    /// Half of its 95 % interval; `null`: not known.
    pub half_width_95: Vec<Option<i64>>,
    /// Stacks that end here.
    pub flat: Vec<Option<i64>>,
    /// How many allocations `cum` is.
    pub objects: Vec<Option<i64>>,
    /// How many frames are merged here; 0: it is a frame.
    pub merged: Vec<usize>,
}

/// Frames without nodes.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Merged {
    /// How many.
    pub frames: usize,
    /// What passes through them.
    pub value: Estimate,
    /// Narrower ones were merged; of the zoomed frame.
    pub least_share: f64,
}

/// What a search found.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Found {
    /// How many functions match.
    pub functions: usize,
    /// All stacks through one of them, each once.
    pub value: Estimate,
}

/// What a function allocates itself.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Flat {
    /// Its place among the functions.
    pub function: usize,
    /// How much.
    pub value: Estimate,
    /// How many allocations.
    pub objects: Estimate,
}

/// A source as it is asked about: read once, and cut as often as is needed.
pub struct Read {
    profile: Profile,
    counted: SampleType,
    defects: Vec<String>,
}

/// Reads a source, with the frames that are asked for.
pub fn read(members: &mut Members, question: &Question) -> Result<Read, Failure> {
    let counted = common_sample_type(&members.opened, question.sample_type)?;
    let defects = members.opened.iter().flat_map(defects).collect();
    let named = take_sum(&mut members.opened, question.names, Detail::Stacks, Kinds::Usual)?;
    let mut profile = named.profile;
    question.shown.fold(&mut profile);
    Ok(Read { profile, counted, defects })
}

impl Read {
    /// The tree, cut as the question says.
    pub fn flame(&self, question: &Question) -> Flame {
        let tree = of_profile(&self.profile, self.counted, question);
        Flame { defects: self.defects.clone(), ..tree }
    }
}

/// Cuts the tree of a profile, more narrowly until it has no more than so many nodes.
pub fn of_profile(profile: &Profile, counted: SampleType, question: &Question) -> Flame {
    let frames = FrameTable::new(profile);
    let keys: HashMap<u32, FrameId> = frames.ids().map(|id| (key(frames.name(id)), id)).collect();
    let path: Vec<FrameId> = question.path.iter().map_while(|key| keys.get(key).copied()).collect();
    let begin: Option<Vec<bool>> =
        question.around.map(|name| frames.ids().map(|id| &*frames.name(id).name == name).collect());
    let mut least_share = question.least_share;
    let (tree, callers) = loop {
        let cutting = |walk, path| Cutting {
            sample_type: counted,
            walk,
            begin: begin.as_deref(),
            path,
            least_share,
            most_depth: MOST_DEPTH,
        };
        let walk = if begin.is_some() { Walk::Callees } else { question.walk };
        let tree = cut(profile, &frames, &cutting(walk, path.as_slice()));
        let callers =
            begin.is_some().then(|| cut(profile, &frames, &cutting(Walk::Callers, &[])).nodes);
        let count = tree.nodes.len() + callers.as_ref().map_or(0, Vec::len);
        if count <= MOST_NODES {
            break (tree, callers);
        }
        least_share = (least_share * 1.5).max(1e-6);
    };
    answer(profile, counted, question, (&frames, least_share), tree, callers)
}

fn answer(
    profile: &Profile,
    counted: SampleType,
    question: &Question,
    (frames, least_share): (&FrameTable, f64),
    tree: Cut,
    callers: Option<Vec<CutNode>>,
) -> Flame {
    let mut functions = Functions::new(profile, frames, question.search);
    let merged = tree.nodes.iter().chain(callers.iter().flatten()).filter(|node| node.merged > 0);
    let merged = merged.fold(Merged { least_share, ..Merged::default() }, |sum, node| Merged {
        frames: sum.frames + node.merged,
        value: sum.value + node.cum,
        least_share,
    });
    let flat = tree.flat.iter().take(MOST_ROWS).map(|&(id, value, objects)| Flat {
        function: functions.place(id),
        value,
        objects,
    });
    let flat = flat.collect();
    let total = Value { value: profile.total(counted), objects: profile.total(counted.objects()) };
    let around = Value { value: tree.total.cum, objects: tree.total.objects };
    let found = question.search.map(|_| Found {
        functions: functions.is_match.iter().filter(|&&is_match| is_match).count(),
        value: profile
            .samples
            .iter()
            .filter(|sample| frames.stack(sample).any(|at| functions.is_match[at.frame.index()]))
            .map(|sample| sample.value(counted))
            .sum(),
    });
    Flame {
        sample_type: counted,
        unit: unit(counted),
        time_unix_ns: profile.time_unix_ns,
        total,
        around: question.around.map(|_| around),
        path: functions.nodes(&tree.path),
        nodes: functions.nodes(&tree.nodes),
        callers: callers.map(|nodes| functions.nodes(&nodes)),
        merged,
        search: found,
        flat,
        functions: functions.entries,
        libraries: functions.libraries,
        defects: Vec::new(),
    }
}

/// The functions that are named, as they are named.
struct Functions<'a> {
    frames: &'a FrameTable,
    /// By `FrameId::index`: the binary, and whether the function is the program's own.
    of_frames: Vec<(Option<usize>, bool)>,
    is_match: Vec<bool>,
    places: HashMap<FrameId, usize>,
    entries: Vec<FunctionEntry>,
    libraries: Vec<String>,
}

impl<'a> Functions<'a> {
    fn new(profile: &Profile, frames: &'a FrameTable, search: Option<&Pattern>) -> Self {
        let own = OwnFrames::default();
        let mut of_frames = vec![(None, true); frames.len()];
        let mut libraries: Vec<String> = Vec::new();
        let place = |mapping: usize| {
            let name = profile.mappings[mapping].basename();
            libraries.iter().position(|known| known == name).unwrap_or_else(|| {
                libraries.push(name.to_owned());
                libraries.len() - 1
            })
        };
        let places: Vec<usize> = (0..profile.mappings.len()).map(place).collect();
        for (number, location) in profile.locations.iter().enumerate() {
            let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
            for (at, line) in frames.of_location(number).iter().zip(&location.lines) {
                let is_own = !own.takes(&profile.functions[line.function], mapping);
                of_frames[at.frame.index()] = (location.mapping.map(|it| places[it]), is_own);
            }
            if location.lines.is_empty() {
                let is_own = mapping.is_some_and(|mapping| !own.takes_all_of(mapping));
                let nameless = frames.of_location(number)[0].frame;
                of_frames[nameless.index()] = (location.mapping.map(|it| places[it]), is_own);
            }
        }
        let is_match = |id: FrameId| {
            let name = frames.name(id);
            let library = of_frames[id.index()].0.map_or("", |place| &libraries[place]);
            search.is_some_and(|search| {
                [&*name.name, &*name.file, library].into_iter().any(|text| search.is_match(text))
            })
        };
        let is_match = frames.ids().map(is_match).collect();
        Self { frames, of_frames, is_match, places: HashMap::new(), entries: Vec::new(), libraries }
    }

    fn place(&mut self, id: FrameId) -> usize {
        let next = self.entries.len();
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            let name = self.frames.name(id).clone();
            let (library, is_own) = self.of_frames[id.index()];
            self.entries.push(FunctionEntry {
                key: key(&name),
                short: short_name(&name.name),
                name,
                library,
                is_own,
                is_match: self.is_match[id.index()],
            });
        }
        place
    }

    fn nodes(&mut self, nodes: &[CutNode]) -> Nodes {
        let integer = |value: f64| value.is_finite().then_some(value as i64);
        let mut columns = Nodes::default();
        for node in nodes {
            columns.depth.push(node.depth);
            columns.function.push(node.frame.map_or(-1, |id| self.place(id) as i64));
            columns.cum.push(integer(node.cum.value.round()));
            columns.half_width_95.push(integer(node.cum.half_width_95().ceil()));
            columns.flat.push(integer(node.flat.value.round()));
            columns.objects.push(integer(node.objects.value.round()));
            columns.merged.push(node.merged);
        }
        columns
    }
}

/// The same from one start to the next, and for all sources: FNV-1a of name and file.
fn key(name: &FrameName) -> u32 {
    let bytes = name.name.bytes().chain([0]).chain(name.file.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

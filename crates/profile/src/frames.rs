//! What a code address is called: the frames of every location, inlined ones included, as functions of (name, file).

use crate::model::{Location, Profile, StackSample};
use std::collections::HashMap;
use std::sync::Arc;

/// Name of the row for bytes whose stack was not recorded (the overflow stack).
pub const STACKS_NOT_RECORDED: &str = "(stacks not recorded)";

/// Index of a function in one `FrameTable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

/// A function's identity: two functions with equal names in different files are different, as in pprof.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameName {
    /// Demangled, with parameters; `libfoo.so+0x1234` (file address) or `0x7f…` (no mapping) where there is no symbol.
    pub name: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
}

/// A function and the line where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameAt {
    /// Which function.
    pub frame: FrameId,
    /// 1-based; 0 if unknown.
    pub line: u32,
}

/// The frames of every location of one profile.
pub struct FrameTable {
    names: Vec<FrameName>,
    /// Per location, innermost first; never empty.
    of_location: Vec<Vec<FrameAt>>,
    not_recorded: [FrameAt; 1],
}

impl FrameTable {
    /// Names every location of `profile`.
    pub fn new(profile: &Profile) -> FrameTable {
        let mut intern = Intern::default();
        let of_location = profile
            .locations
            .iter()
            .map(|location| frames_of(profile, location, &mut intern))
            .collect();
        let frame = intern.id(FrameName { name: STACKS_NOT_RECORDED.into(), file: "".into() });
        FrameTable { names: intern.names, of_location, not_recorded: [FrameAt { frame, line: 0 }] }
    }

    /// Number of distinct functions; every `FrameId::index` is below it.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: the row for stacks that were not recorded is always there.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The function's name and file.
    pub fn name(&self, frame: FrameId) -> &FrameName {
        &self.names[frame.index()]
    }

    /// All functions.
    pub fn ids(&self) -> impl Iterator<Item = FrameId> {
        (0..self.names.len() as u32).map(FrameId)
    }

    /// The frames of `Profile::locations[location]`, innermost first; never empty.
    pub fn of_location(&self, location: usize) -> &[FrameAt] {
        &self.of_location[location]
    }

    /// The frames of a stack, leaf first; reverse it for root first. An empty stack has the one frame
    /// `STACKS_NOT_RECORDED`.
    pub fn stack<'a>(
        &'a self,
        sample: &'a StackSample,
    ) -> impl DoubleEndedIterator<Item = FrameAt> + 'a {
        let not_recorded: &[FrameAt] =
            if sample.locations.is_empty() { &self.not_recorded } else { &[] };
        let recorded = sample.locations.iter().flat_map(|&location| self.of_location(location));
        not_recorded.iter().chain(recorded).copied()
    }
}

impl FrameId {
    /// Position in a table of `FrameTable::len` entries.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Default)]
struct Intern {
    ids: HashMap<FrameName, FrameId>,
    names: Vec<FrameName>,
}

impl Intern {
    fn id(&mut self, name: FrameName) -> FrameId {
        *self.ids.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            FrameId(self.names.len() as u32 - 1)
        })
    }
}

fn frames_of(profile: &Profile, location: &Location, intern: &mut Intern) -> Vec<FrameAt> {
    let address = || FrameName { name: address_name(profile, location).into(), file: "".into() };
    if location.lines.is_empty() {
        return vec![FrameAt { frame: intern.id(address()), line: 0 }];
    }
    let frames = location.lines.iter().map(|line| {
        let function = &profile.functions[line.function];
        let named = |name: &Arc<str>| FrameName { name: name.clone(), file: function.file.clone() };
        let name = match (function.name.is_empty(), function.system_name.is_empty()) {
            (false, _) => named(&function.name),
            (true, false) => named(&function.system_name),
            (true, true) => address(),
        };
        FrameAt { frame: intern.id(name), line: line.line }
    });
    frames.collect()
}

fn address_name(profile: &Profile, location: &Location) -> String {
    match location.mapping.map(|mapping| &profile.mappings[mapping]) {
        Some(mapping) => {
            let file_address = location.address.wrapping_sub(mapping.bias);
            format!("{}+{file_address:#x}", mapping.basename())
        }
        None => format!("{:#x}", location.address),
    }
}

//! The functions of a graph, and those of them that an answer names.

use super::answer::{FunctionEntry, Nodes};
use crate::tint::Tint;
use ramson_profile::view::CutNode;
use ramson_profile::{FrameId, FrameName, FrameTable, OwnFrames, Pattern, Profile, short_name};
use std::collections::HashMap;

/// All functions of a profile, with what is known of them.
pub struct Functions {
    frames: FrameTable,
    /// By `FrameId::index`: the binary, and whether the function is the program's own.
    of_frames: Vec<(Option<usize>, bool)>,
    libraries: Vec<String>,
    by_key: HashMap<u32, FrameId>,
}

impl Functions {
    /// Collects the functions of the frames of `profile`.
    pub fn new(profile: &Profile, frames: FrameTable) -> Self {
        let own = OwnFrames::default();
        let of_functions: Vec<bool> =
            profile.functions.iter().map(|function| !own.takes(function, None)).collect();
        let mut of_frames = vec![(None, true); frames.len()];
        let mut libraries: Vec<String> = Vec::new();
        let place = |mapping: usize| {
            let name = profile.mappings[mapping].shown_name();
            libraries.iter().position(|known| known == name).unwrap_or_else(|| {
                libraries.push(name.to_owned());
                libraries.len() - 1
            })
        };
        let places: Vec<usize> = (0..profile.mappings.len()).map(place).collect();
        let of_mappings: Vec<bool> =
            profile.mappings.iter().map(|mapping| !own.takes_all_of(mapping)).collect();
        for (number, location) in profile.locations.iter().enumerate() {
            let library = location.mapping.map(|mapping| places[mapping]);
            let is_own = location.mapping.map(|mapping| of_mappings[mapping]);
            for (at, line) in frames.of_location(number).iter().zip(&location.lines) {
                let is_own = of_functions[line.function] && is_own.unwrap_or(true);
                of_frames[at.frame.index()] = (library, is_own);
            }
            if location.lines.is_empty() {
                let nameless = frames.of_location(number)[0].frame;
                of_frames[nameless.index()] = (library, is_own.unwrap_or(false));
            }
        }
        let by_key = frames.ids().map(|id| (key(frames.name(id)), id)).collect();
        Self { frames, of_frames, libraries, by_key }
    }

    /// The functions with these keys, as far as there are any.
    pub fn path(&self, keys: &[u32]) -> Vec<FrameId> {
        keys.iter().map_while(|key| self.by_key.get(key).copied()).collect()
    }

    /// Which ones have this name, by `FrameId::index`.
    pub fn called(&self, name: &str) -> Vec<bool> {
        self.frames.ids().map(|id| &*self.frames.name(id).name == name).collect()
    }

    /// Which ones match by name, file or library, by `FrameId::index`.
    pub fn matching(&self, search: &Pattern) -> Vec<bool> {
        let libraries: Vec<bool> =
            self.libraries.iter().map(|library| search.is_match(library)).collect();
        // A text that every function without a file or a library has.
        let matches_nothing = search.is_match("");
        let is_match = |id: FrameId| {
            let name = self.frames.name(id);
            let of_library =
                self.of_frames[id.index()].0.map_or(matches_nothing, |place| libraries[place]);
            of_library || search.is_match(&name.name) || search.is_match(&name.file)
        };
        self.frames.ids().map(is_match).collect()
    }

    /// Estimates the size of the functions in memory, in bytes.
    pub fn bytes(&self) -> usize {
        // Names and files, the tables of the frames, and this one's.
        let text = |id| self.frames.name(id).name.len() + self.frames.name(id).file.len();
        let texts: usize = self.frames.ids().map(text).sum();
        texts + self.frames.bytes() + self.frames.len() * size_of::<(usize, bool, u32, FrameId)>()
    }
}

/// The functions that an answer names, as it names them.
pub struct Mentioned<'a> {
    of: &'a Functions,
    is_match: &'a [bool],
    tint: Option<Tint>,
    places: HashMap<FrameId, usize>,
    entries: Vec<FunctionEntry>,
}

impl<'a> Mentioned<'a> {
    /// Starts without functions. `is_match`: by `FrameId::index`; empty if nothing is searched for. `tint` colours nodes.
    pub fn new(of: &'a Functions, is_match: &'a [bool], tint: Option<Tint>) -> Self {
        Self { of, is_match, tint, places: HashMap::new(), entries: Vec::new() }
    }

    /// Its place among those that are named.
    pub fn place(&mut self, id: FrameId) -> usize {
        let next = self.entries.len();
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            let name = self.of.frames.name(id).clone();
            let (library, is_own) = self.of.of_frames[id.index()];
            self.entries.push(FunctionEntry {
                key: key(&name),
                short: short_name(&name.name),
                name,
                library,
                is_own,
                is_match: self.is_match.get(id.index()).copied().unwrap_or(false),
            });
        }
        place
    }

    /// Nodes as columns.
    pub fn nodes(&mut self, nodes: &[CutNode]) -> Nodes {
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
            let Some(by) = self.tint else { continue };
            let figure = by.figure(node);
            columns.tint.push(integer(figure.value.round()));
            if by != Tint::Age {
                columns.tint_half_width_95.push(integer(figure.half_width_95().ceil()));
            }
        }
        columns
    }

    /// Them, and all libraries.
    pub fn named(self) -> (Vec<FunctionEntry>, Vec<String>) {
        (self.entries, self.of.libraries.clone())
    }
}

/// The same from one start to the next, and for all sources: FNV-1a of name and file.
fn key(name: &FrameName) -> u32 {
    let bytes = name.name.bytes().chain([0]).chain(name.file.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

//! Names of code addresses: the frames of every location, inlined ones included, as fine or coarse as the profile's
//! granularity says.

use crate::language::Language;
use crate::model::{Line, Location, Profile, StackSample};
use crate::printable::printable;
use crate::short_name::short_name;
use borsh::{BorshDeserialize, BorshSerialize};
use hashbrown::HashMap;
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// Name of the row for bytes whose stack was not recorded (the overflow stack).
pub const STACKS_NOT_RECORDED: &str = "(stacks not recorded)";

/// Name of the frame for code outside every mapping, where frames are files or mappings.
pub const NO_MAPPING: &str = "(no mapping)";

/// The code that counts as one frame, in pprof's words; `Mappings` is ours. Inlined frames stay frames of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub enum Granularity {
    /// Equal names are one function.
    Functions,
    /// A function is a name in a file.
    #[default]
    FileFunctions,
    /// A source file in a binary; the binary where the file is unknown.
    Files,
    /// A line of a function.
    Lines,
    /// A line of a function at a code address.
    Addresses,
    /// A binary.
    Mappings,
}

/// Index of a function in one `FrameTable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

/// A frame's identity: what the profile's granularity tells apart. By default two functions with equal names in different
/// files are different.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
pub struct FrameName {
    /// Demangled, with parameters; `libfoo.so+0x1234` (file address) or `0x7f…` (no mapping) where there is no symbol, and
    /// before the name at the granularity of addresses. The file or the binary where these are the frames.
    #[serde(rename = "function")]
    pub name: Arc<str>,
    /// Source file, or path of a binary; empty if unknown or not told apart.
    pub file: Arc<str>,
    /// 0 unless lines are told apart, or it is that of one frame.
    pub line: u32,
    /// The language of a function that a run time compiled or interprets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
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
    /// The frames of all locations end to end, which spares every frame of every stack a cache miss.
    frames: Vec<FrameAt>,
    /// The index of each location's first frame, and the end of the last location's frames.
    starts: Vec<u32>,
    not_recorded: [FrameAt; 1],
}

impl FrameTable {
    /// Names every location of `profile`.
    pub fn new(profile: &Profile) -> FrameTable {
        let mut naming = Naming::new(profile);
        let mut all = Vec::with_capacity(profile.locations.len());
        let mut starts = Vec::with_capacity(profile.locations.len() + 1);
        starts.push(0);
        for location in &profile.locations {
            naming.push_frames(location, &mut all);
            starts.push(all.len() as u32);
        }
        let name = FrameName { name: STACKS_NOT_RECORDED.into(), ..FrameName::default() };
        let not_recorded = [FrameAt { frame: naming.id(name), line: 0 }];
        FrameTable { names: naming.names, frames: all, starts, not_recorded }
    }

    /// Number of distinct functions; every `FrameId::index` is below it.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: the row for stacks that were not recorded is always there.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The memory of the tables without the texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.names.capacity() * size_of::<FrameName>()
            + self.frames.capacity() * size_of::<FrameAt>()
            + self.starts.capacity() * size_of::<u32>()
    }

    /// The function's name and file, with U+FFFD in place of control characters.
    pub fn name(&self, frame: FrameId) -> &FrameName {
        &self.names[frame.index()]
    }

    /// The same with the line at which the frame is.
    pub fn name_at(&self, at: FrameAt) -> FrameName {
        FrameName { line: at.line, ..self.name(at.frame).clone() }
    }

    /// All functions.
    pub fn ids(&self) -> impl Iterator<Item = FrameId> {
        (0..self.names.len() as u32).map(FrameId)
    }

    /// The frames of `Profile::locations[location]`, innermost first; never empty.
    pub fn of_location(&self, location: usize) -> &[FrameAt] {
        &self.frames[self.starts[location] as usize..self.starts[location + 1] as usize]
    }

    /// The one frame of a stack that was not recorded.
    pub(crate) fn not_recorded(&self) -> FrameAt {
        self.not_recorded[0]
    }

    /// The frames of a stack, leaf first; reverse it for root first. An empty stack has the one frame
    /// `STACKS_NOT_RECORDED`.
    pub fn stack<'a>(
        &'a self,
        sample: &'a StackSample,
    ) -> impl DoubleEndedIterator<Item = FrameAt> + 'a {
        let not_recorded: &[FrameAt] =
            if sample.locations.is_empty() { &self.not_recorded } else { &[] };
        let recorded =
            sample.locations.iter().flat_map(|&location| self.of_location(location as usize));
        not_recorded.iter().chain(recorded).copied()
    }
}

impl FrameName {
    /// `name:line`, with the name in short.
    pub fn short(&self) -> String {
        match self.line {
            0 => short_name(&self.name),
            line => format!("{}:{line}", short_name(&self.name)),
        }
    }
}

impl FrameId {
    /// The function with that `index`.
    pub(crate) fn of_index(index: u32) -> FrameId {
        FrameId(index)
    }

    /// Position in a table of `FrameTable::len` entries.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Frames as they get their names.
struct Naming<'a> {
    profile: &'a Profile,
    /// The files of the functions.
    files: Vec<Arc<str>>,
    /// By function, where its name is all that a frame is told by: most frames need no look at their text then.
    of_function: Vec<Option<FrameId>>,
    /// By where the texts of name and file lie, and the line if that tells a frame: a long text may be shared by many functions.
    of_texts: HashMap<(*const u8, *const u8, u32), FrameId>,
    ids: HashMap<FrameName, FrameId>,
    names: Vec<FrameName>,
}

impl<'a> Naming<'a> {
    fn new(profile: &'a Profile) -> Naming<'a> {
        let functions = profile.functions.iter();
        Naming {
            profile,
            files: functions.map(|function| shortest_path(&function.file)).collect(),
            of_function: vec![None; profile.functions.len()],
            of_texts: HashMap::new(),
            ids: HashMap::new(),
            names: Vec::new(),
        }
    }

    fn id(&mut self, name: FrameName) -> FrameId {
        *self.ids.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            FrameId(self.names.len() as u32 - 1)
        })
    }

    fn push_frames(&mut self, location: &Location, frames: &mut Vec<FrameAt>) {
        let granularity = self.profile.granularity;
        let has_lines = !matches!(granularity, Granularity::Files | Granularity::Mappings);
        if location.lines.is_empty() {
            let name = nameless(self.profile, location);
            return frames.push(FrameAt { frame: self.id(name), line: 0 });
        }
        for line in &location.lines {
            let frame =
                self.of_function[line.function].unwrap_or_else(|| self.frame(location, line));
            frames.push(FrameAt { frame, line: if has_lines { line.line } else { 0 } });
        }
    }

    fn frame(&mut self, location: &Location, line: &Line) -> FrameId {
        let granularity = self.profile.granularity;
        let function = &self.profile.functions[line.function];
        let own_name =
            [&function.name, &function.system_name].into_iter().find(|it| !it.is_empty());
        let file = &self.files[line.function];
        let is_told_by_name =
            matches!(granularity, Granularity::Functions | Granularity::FileFunctions);
        let line_told = match granularity {
            Granularity::Lines => Some(line.line),
            _ => is_told_by_name.then_some(0),
        };
        let texts = own_name.zip(line_told);
        let texts = texts.map(|(name, line)| (name.as_ptr(), file.as_ptr(), line));
        let known = texts.and_then(|texts| self.of_texts.get(&texts).copied());
        if let Some(id) = known {
            if is_told_by_name {
                self.of_function[line.function] = Some(id);
            }
            return id;
        }
        let nameless = || nameless(self.profile, location);
        let name = match (granularity, own_name) {
            (Granularity::Mappings, _) => nameless(),
            (Granularity::Files, _) if file.is_empty() => nameless(),
            (Granularity::Files, _) => FrameName { name: file.clone(), ..nameless() },
            (_, None) => nameless(),
            (Granularity::Functions, Some(name)) => named(name, "".into(), 0),
            (Granularity::FileFunctions, Some(name)) => named(name, file.clone(), 0),
            (Granularity::Lines, Some(name)) => named(name, file.clone(), line.line),
            (Granularity::Addresses, Some(name)) => {
                let name = format!("{} {name}", address_name(self.profile, location));
                named(&name.into(), file.clone(), line.line)
            }
        };
        let language =
            own_name.filter(|_| texts.is_some() || granularity == Granularity::Addresses);
        let language = language.and_then(|_| Language::of(&function.system_name));
        let id = self.id(FrameName { language, ..name });
        if let Some(texts) = texts {
            self.of_texts.insert(texts, id);
        }
        if is_told_by_name && own_name.is_some() {
            self.of_function[line.function] = Some(id);
        }
        id
    }
}

/// The name of the frame for code without a name.
fn nameless(profile: &Profile, location: &Location) -> FrameName {
    match profile.granularity {
        Granularity::Files | Granularity::Mappings => mapping_name(profile, location),
        _ => named(&address_name(profile, location).into(), "".into(), 0),
    }
}

/// The path without `.`, `..` and doubled separators, so that one file has one name: `./csu/../csu/init.c` is `csu/init.c`.
/// By the text alone, as in pprof.
fn shortest_path(path: &Arc<str>) -> Arc<str> {
    let is_short = |part: &str| !["", ".", ".."].contains(&part);
    if path.is_empty() || path.strip_prefix('/').unwrap_or(path).split('/').all(is_short) {
        return path.clone();
    }
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            _ => parts.push(part),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    if parts.is_empty() && !is_absolute {
        return ".".into();
    }
    format!("{root}{}", parts.join("/")).into()
}

fn named(name: &Arc<str>, file: Arc<str>, line: u32) -> FrameName {
    FrameName { name: visible(name.clone()), file: visible(file), line, language: None }
}

/// Names come from foreign files.
fn visible(name: Arc<str>) -> Arc<str> {
    match printable(&name) {
        Cow::Borrowed(_) => name,
        Cow::Owned(changed) => changed.into(),
    }
}

fn mapping_name(profile: &Profile, location: &Location) -> FrameName {
    match location.mapping.map(|mapping| &profile.mappings[mapping]) {
        Some(mapping) => {
            named(&format!("[{}]", mapping.shown_name()).into(), mapping.path.as_str().into(), 0)
        }
        None => FrameName { name: NO_MAPPING.into(), ..FrameName::default() },
    }
}

fn address_name(profile: &Profile, location: &Location) -> String {
    match location.mapping.map(|mapping| &profile.mappings[mapping]) {
        Some(mapping) => {
            let file_address = location.address.0.wrapping_sub(mapping.bias);
            format!("{}+{file_address:#x}", mapping.shown_name())
        }
        None => format!("{:#x}", location.address.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_name_is_one_harmless_line() {
        let found = named(&"a\x1b[2Jb\nc".into(), "/x\u{9b}1m.c".into(), 7);
        assert_eq!((&*found.name, &*found.file), ("a\u{fffd}[2Jb\u{fffd}c", "/x\u{fffd}1m.c"));
        assert_eq!(&*named(&"größe".into(), "".into(), 0).name, "größe");
    }

    #[test]
    fn one_file_has_one_path() {
        // Each checked with Go's filepath.Clean, which makes "" a ".".
        for (path, expected) in [
            ("", ""),
            ("a.c", "a.c"),
            ("/a/b.c", "/a/b.c"),
            ("./csu/../csu/init.c", "csu/init.c"),
            ("/a//b/./c/", "/a/b/c"),
            ("../../a.c", "../../a.c"),
            ("a/../../b.c", "../b.c"),
            ("/../a.c", "/a.c"),
            ("./", "."),
            ("/", "/"),
        ] {
            assert_eq!(&*shortest_path(&path.into()), expected, "{path}");
        }
    }
}

//! Sources that answer for one binary: the engine here, or a helper with the files that it may read.

use std::collections::VecDeque;

use crate::answers::Answers;
use crate::apart::Remote;
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity};
use crate::engine::{Engine, Files};
use crate::find::{Place, Search, open_debug_file, supplement};
use crate::frame::SymbolSource;
use crate::rooted::RootedPath;
use crate::split::Split;

/// The opened sources of one binary.
pub(crate) enum Sources {
    Here(Box<Engine>),
    Apart(Box<Remote>),
}

/// Origin of a binary's names.
pub(crate) struct Provenance<'a> {
    pub source: SymbolSource,
    /// The source's file, if it was found by name.
    pub place: Option<&'a RootedPath>,
    pub identity: Option<Identity>,
    /// A file that is used belongs neither to root nor to the user who runs this.
    pub is_strange: bool,
    /// Something that should have been readable was not; such answers are not worth keeping.
    pub damage: Option<&'a SymbolDefect>,
}

impl Sources {
    /// Opens the best sources, here or from a server. Files of strangers are used only if there are no others.
    pub fn open(search: &mut Search, places: &[Place], file: Option<&ElfFile>) -> Self {
        let chosen = file.filter(|file| file.is_chosen());
        let mut found = Found::new(search, places, chosen, ElfFile::is_chosen);
        let sources = Self::of(&mut found, chosen);
        if found.is_any {
            return sources;
        }
        Self::of(&mut Found::new(search, places, file, |_| true), file)
    }

    fn of(found: &mut Found, file: Option<&ElfFile>) -> Self {
        match Remote::gather(found, file) {
            Some(remote) => Self::Apart(Box::new(remote)),
            None => Self::Here(Box::new(Engine::open(found, file))),
        }
    }

    /// Finds the frames at `addresses` and adds them to `answers`.
    pub fn answer(&mut self, addresses: &[u64], answers: &mut Answers) {
        match self {
            Self::Here(engine) => engine.answer(addresses, answers),
            Self::Apart(remote) => remote.answer(addresses, answers),
        }
    }

    pub fn provenance(&self) -> Provenance<'_> {
        match self {
            Self::Here(engine) => Provenance {
                source: engine.source,
                place: engine.place.as_ref(),
                identity: engine.identity,
                is_strange: engine.is_strange,
                damage: engine.damage.as_ref(),
            },
            Self::Apart(remote) => remote.provenance(),
        }
    }

    /// Bytes of files held in memory here, about.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Here(engine) => engine.size_bytes(),
            Self::Apart(_) => 0,
        }
    }
}

/// Debug files that are found by name, one after the other.
pub(crate) struct Found<'a, 'b> {
    pub search: &'a mut Search<'b>,
    places: std::slice::Iter<'a, Place>,
    build_id: String,
    may_be_used: fn(&ElfFile) -> bool,
    /// Opened, and given back to be opened once more.
    again: VecDeque<ElfFile>,
    pub is_any: bool,
}

impl<'a, 'b> Found<'a, 'b> {
    fn new(
        search: &'a mut Search<'b>,
        places: &'a [Place],
        file: Option<&ElfFile>,
        may_be_used: fn(&ElfFile) -> bool,
    ) -> Self {
        let build_id = search.build_id(file).to_owned();
        let is_any = file.is_some();
        Self {
            search,
            places: places.iter(),
            build_id,
            may_be_used,
            again: VecDeque::new(),
            is_any,
        }
    }

    /// They come once more.
    pub fn give_back(&mut self, files: Vec<ElfFile>) {
        self.again.extend(files);
    }
}

impl Files for Found<'_, '_> {
    fn next_debug_file(&mut self) -> Option<ElfFile> {
        if let Some(file) = self.again.pop_front() {
            return Some(file);
        }
        loop {
            let place = self.places.next()?;
            if place.is_fetched {
                self.search.fetch(&self.build_id);
            }
            let readers = self.search.folders.readers;
            let found = open_debug_file(place, &self.build_id, readers, self.may_be_used);
            if found.is_some() {
                self.is_any = true;
                return found;
            }
        }
    }

    fn supplement(&mut self, file: &ElfFile) -> Result<Option<ElfFile>, SymbolDefect> {
        supplement(self.search, file)
    }

    fn split(&mut self, file: &ElfFile) -> Split {
        Split::of(file)
    }
}

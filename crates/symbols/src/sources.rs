//! The files that one binary's names come from, found one after the other.

use crate::defect::SymbolDefect;
use crate::elf::ElfFile;
use crate::engine::Engine;
use crate::find::{Place, Search, open_debug_file, supplement};

/// Opens the best sources for these addresses, here or from a server. Files of strangers are used only if there are no others.
pub(crate) fn open(
    search: &mut Search,
    places: &[Place],
    file: Option<&ElfFile>,
    addresses: &[u64],
) -> Engine {
    let chosen = file.filter(|file| file.is_chosen());
    let mut found = Found::new(search, places, chosen, ElfFile::is_chosen);
    let engine = Engine::open(&mut found, chosen, addresses);
    if found.is_any {
        return engine;
    }
    Engine::open(&mut Found::new(search, places, file, |_| true), file, addresses)
}

/// Debug files that are found by name, one after the other.
pub(crate) struct Found<'a, 'b> {
    search: &'a mut Search<'b>,
    places: std::slice::Iter<'a, Place>,
    build_id: String,
    may_be_used: fn(&ElfFile) -> bool,
    is_any: bool,
}

impl<'a, 'b> Found<'a, 'b> {
    fn new(
        search: &'a mut Search<'b>,
        places: &'a [Place],
        file: Option<&ElfFile>,
        may_be_used: fn(&ElfFile) -> bool,
    ) -> Self {
        let build_id = search.build_id(file).to_owned();
        Self { search, places: places.iter(), build_id, may_be_used, is_any: file.is_some() }
    }

    /// The next debug file, best first.
    pub fn next_debug_file(&mut self) -> Option<ElfFile> {
        loop {
            let place = self.places.next()?;
            if place.is_fetched {
                self.search.fetch(&self.build_id);
            }
            let folders = self.search.folders;
            let found = open_debug_file(place, &self.build_id, folders, self.may_be_used);
            if found.is_some() {
                self.is_any = true;
                return found;
            }
        }
    }

    /// The file to which `dwz` moved parts of `file`.
    pub fn supplement(&mut self, file: &ElfFile) -> Result<Option<ElfFile>, SymbolDefect> {
        supplement(self.search, file)
    }

    /// Whether the debug information of `file` is to be read.
    pub fn has_lines(&self, file: &ElfFile) -> bool {
        !self.search.folders.is_without_lines && file.has_lines()
    }
}

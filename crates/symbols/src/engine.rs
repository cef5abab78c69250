//! The opened sources of one binary, and how an address gets its frames from them: DWARF, then the symbol table.

use object::elf;

use crate::answers::Answers;
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity, Sections};
use crate::find::{Place, Search, Supplement, open_debug_file, supplement};
use crate::frame::{Frame, SymbolSource};
use crate::lines::Lines;
use crate::mini_debug_file::mini_debug_file;
use crate::names::Names;
use crate::processors::{MAX_THREADS, on_all};
use crate::worker::Worker;

/// Addresses that one thread names at a time where there is only a symbol table.
const NAMES_PER_GROUP: usize = 1 << 10;

/// What can name addresses of one binary.
pub(crate) struct Engine {
    lines: Option<Lines>,
    /// In the order of trust. Mini debug information has only what the dynamic symbols lack, so both count.
    names: Vec<Names>,
    pub source: SymbolSource,
    pub source_identity: Option<Identity>,
    /// Something that should have been readable was not; such answers are not worth keeping.
    pub damage: Option<SymbolDefect>,
}

type Opened = (ElfFile, Sections);

impl Engine {
    /// Opens the best sources: DWARF of the binary itself, else of a debug file, here or from a server; names from
    /// either.
    pub fn open(search: &mut Search, places: &[Place], file: Option<ElfFile>) -> Self {
        let build_id = match &file {
            Some(file) if search.binary.build_id.is_empty() => file.build_id.clone(),
            _ => search.binary.build_id.clone(),
        };
        let mut engine = Self::empty();
        let file = file.and_then(|file| engine.with_sections(file));
        if let Some(file) = &file {
            engine.open_lines(search, file);
        }
        let mut debug_file = None;
        for place in places {
            engine.open_debug(search, place, &build_id, &mut debug_file);
        }
        if engine.lines.is_none()
            && let Some(path) = search.fetch(&build_id)
        {
            engine.open_debug(search, &Place { path, crc32: None }, &build_id, &mut debug_file);
        }
        engine.open_names(debug_file.as_ref(), file.as_ref());
        engine
    }

    /// Opens the debug file at `place`, unless there are lines already.
    fn open_debug(
        &mut self,
        search: &mut Search,
        place: &Place,
        build_id: &str,
        debug_file: &mut Option<Opened>,
    ) {
        if self.lines.is_some() {
            return;
        }
        let Some(found) = open_debug_file(place, build_id) else { return };
        let Some(found) = self.with_sections(found) else { return };
        self.open_lines(search, &found);
        if debug_file.is_none() || self.lines.is_some() {
            *debug_file = Some(found);
        }
    }

    fn empty() -> Self {
        Self {
            lines: None,
            names: Vec::new(),
            source: SymbolSource::None,
            source_identity: None,
            damage: None,
        }
    }

    fn with_sections(&mut self, file: ElfFile) -> Option<Opened> {
        match file.sections() {
            Ok(sections) => Some((file, sections)),
            Err(reason) => {
                self.damaged(&file, reason);
                None
            }
        }
    }

    fn damaged(&mut self, file: &ElfFile, reason: String) {
        self.damage.get_or_insert(SymbolDefect::Unreadable { path: file.path.clone(), reason });
    }

    fn open_lines(&mut self, search: &mut Search, opened: &Opened) {
        let (file, sections) = opened;
        if !sections.has_lines() {
            return;
        }
        let supplement = supplement(search, (file, sections));
        let supplied = match &supplement {
            Supplement::Found(file, sections) => Some((file, sections)),
            _ => None,
        };
        match Lines::open((file, sections), supplied) {
            Ok(lines) => {
                self.lines = Some(lines);
                self.source = SymbolSource::Dwarf { path: file.path.clone() };
                self.source_identity = Some(file.identity);
                self.damage = None;
            }
            Err(reason) => self.damaged(file, reason),
        }
        if let Supplement::Missing { path: supplement, build_id } = supplement {
            let path = file.path.clone();
            self.damage.get_or_insert(SymbolDefect::SupplementMissing {
                path,
                supplement,
                build_id,
            });
        }
    }

    fn open_names(&mut self, debug_file: Option<&Opened>, file: Option<&Opened>) {
        let read_first = |engine: &mut Self, files: [Option<&Opened>; 2], kind| {
            files.into_iter().flatten().any(|opened| engine.read_names(opened, kind))
        };
        if read_first(self, [debug_file, file], elf::SHT_SYMTAB) {
            return;
        }
        if let Some((file, sections)) = file {
            match mini_debug_file(file, sections) {
                Ok(Some(mini)) => drop(self.read_names(&mini, elf::SHT_SYMTAB)),
                Ok(None) => {}
                Err(reason) => self.damaged(file, reason),
            }
        }
        read_first(self, [file, debug_file], elf::SHT_DYNSYM);
    }

    /// Whether the symbol table of this kind has function names. The first one found is the source.
    fn read_names(&mut self, (file, sections): &Opened, kind: elf::SectionType) -> bool {
        let names = match Names::read(file, sections, kind) {
            Ok(Some(names)) => names,
            Ok(None) => return false,
            Err(reason) => {
                self.damaged(file, reason);
                return false;
            }
        };
        if self.lines.is_none() && self.names.is_empty() {
            let path = file.path.clone();
            self.source = match kind {
                elf::SHT_SYMTAB => SymbolSource::Symtab { path },
                _ => SymbolSource::Dynsym { path },
            };
        }
        self.names.push(names);
        true
    }

    /// Bytes of files held in memory, about.
    pub fn size_bytes(&self) -> u64 {
        let lines = self.lines.as_ref().map_or(0, Lines::size_bytes);
        lines + self.names.iter().map(Names::size_bytes).sum::<u64>()
    }

    /// Finds the frames at `addresses` and adds them to `answers`.
    pub fn answer(&mut self, addresses: &[u64], answers: &mut Answers) {
        let groups = match &self.lines {
            Some(lines) => lines.groups(addresses),
            None => addresses.chunks(NAMES_PER_GROUP).map(<[u64]>::to_vec).collect(),
        };
        let (lines, names) = (self.lines.as_ref(), self.names.as_slice());
        let found = on_all(
            &groups,
            MAX_THREADS,
            || Worker::new(lines, names),
            |worker, group| {
                let found = |&address: &u64| (address, worker.find(address));
                group.iter().map(found).collect::<Vec<_>>()
            },
        );
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_unstable_by_key(|&(address, _)| address);
        for (address, found) in found {
            if let Some(reason) = found.damage {
                self.address_damaged(address, &reason);
            }
            let stored = found.frames.iter().map(|frame| {
                let Frame { function, system_name, file, line } = frame;
                answers.frame(function, system_name, file.as_ref(), *line)
            });
            let stored: Vec<_> = stored.collect();
            answers.add(address, stored);
        }
        self.part_missing();
    }

    fn address_damaged(&mut self, address: u64, reason: &str) {
        if let SymbolSource::Dwarf { path } = &self.source {
            let reason = format!("at address {address:#x}: {reason}");
            self.damage.get_or_insert(SymbolDefect::Unreadable { path: path.clone(), reason });
        }
    }

    fn part_missing(&mut self) {
        if let SymbolSource::Dwarf { path } = &self.source
            && let Some(supplement) = self.lines.as_ref().and_then(Lines::missing_part)
        {
            let (path, supplement) = (path.clone(), supplement.clone());
            let build_id = String::new();
            self.damage.get_or_insert(SymbolDefect::SupplementMissing {
                path,
                supplement,
                build_id,
            });
        }
    }
}

//! The opened sources of one binary, and how an address gets its frames from them: DWARF, then the symbol table.

use std::collections::HashMap;

use object::elf;

use crate::answers::Answers;
use crate::demangle::demangle;
use crate::elf::{ElfFile, Identity, Sections};
use crate::find::{Place, Search, Supplement, open_debug_file, supplement};
use crate::lines::Lines;
use crate::mini::mini_debug_file;
use crate::names::Names;
use crate::{Defect, SymbolSource};

/// What can name addresses of one binary.
pub(crate) struct Engine {
    lines: Option<Lines>,
    /// In the order of trust. Mini debug information has only what the dynamic symbols lack, so both count.
    names: Vec<Names>,
    demangled: HashMap<String, Option<String>>,
    pub source: SymbolSource,
    pub source_identity: Option<Identity>,
    /// Something that should have been readable was not; such answers are not worth keeping.
    pub damage: Option<Defect>,
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
            demangled: HashMap::new(),
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
        self.damage.get_or_insert(Defect::Unreadable { path: file.path.clone(), reason });
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
            self.damage.get_or_insert(Defect::SupplementMissing { path, supplement, build_id });
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

    /// Finds the frames at `address` and adds them to `answers`.
    pub fn answer(&mut self, address: u64, answers: &mut Answers) {
        let mut found: Vec<(Option<String>, Option<String>, u32)> = Vec::new();
        if let Some(lines) = &mut self.lines {
            let each = lines.find(address, |frame| {
                found.push((frame.name, frame.file.map(str::to_owned), frame.line));
            });
            if self.damage.is_none()
                && let SymbolSource::Dwarf { path } = &self.source
            {
                let path = path.clone();
                if let Err(error) = each {
                    let reason = format!("at address {address:#x}: {error}");
                    self.damage = Some(Defect::Unreadable { path, reason });
                } else if let Some(supplement) = lines.missing_part().cloned() {
                    let build_id = String::new();
                    self.damage = Some(Defect::SupplementMissing { path, supplement, build_id });
                }
            }
        }
        if found.is_empty() {
            found.push((None, None, 0));
        }
        let outermost = found.len() - 1;
        let mut frames = Vec::with_capacity(found.len());
        for (index, (name, file, line)) in found.into_iter().enumerate() {
            let symbol_address = (index == outermost).then_some(address);
            let Some((function, system_name)) = self.named(name, symbol_address) else { continue };
            frames.push(answers.frame(&function, &system_name, file.as_deref(), line));
        }
        answers.add(address, frames);
    }

    /// Function and system name from DWARF's name, or else from the symbol at the address (inlined calls have none).
    fn named(
        &mut self,
        name: Option<String>,
        symbol_address: Option<u64>,
    ) -> Option<(String, String)> {
        let name = name.filter(|name| !name.is_empty());
        if let Some(name) = &name
            && let Some(function) = self.demangled(name)
        {
            return Some((function, name.clone()));
        }
        let symbol = symbol_address
            .and_then(|address| self.names.iter().find_map(|names| names.find(address)));
        let Some(name) = name else {
            let symbol = symbol?;
            return Some((self.demangled(&symbol).unwrap_or_else(|| symbol.clone()), symbol));
        };
        // DWARF may have only the last part of a C++ or Rust name; the linker's then has the rest. It must contain
        // that part, since identical functions may have been folded under another's symbol.
        if let Some(symbol) = symbol
            && let Some(function) = self.demangled(&symbol)
            && function.contains(name.as_str())
        {
            return Some((function, symbol));
        }
        Some((name.clone(), name))
    }

    fn demangled(&mut self, name: &str) -> Option<String> {
        if !name.starts_with('_') {
            return None;
        }
        if let Some(known) = self.demangled.get(name) {
            return known.clone();
        }
        let demangled = demangle(name);
        self.demangled.insert(name.to_owned(), demangled.clone());
        demangled
    }
}

//! The opened sources of one binary, and how an address gets its frames from them: Go's own table, DWARF, then the symbol table.

use std::path::PathBuf;

use object::{ReadCache, elf};
use ramson_apart::on_all;
use ramson_pclntab::Pclntab;

use crate::answers::Answers;
use crate::budget::Budget;
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity};
use crate::frame::SymbolSource;
use crate::lines::Lines;
use crate::mini_debug_file::mini_debug_file;
use crate::names::Names;
use crate::rooted::RootedPath;
use crate::sources::Found;
use crate::split::Split;
use crate::worker::{Worker, threads};

/// A section that only Go programs have.
const GO: &str = ".go.buildinfo";
/// Addresses that one thread names at a time where there is only a symbol table.
const NAMES_PER_GROUP: usize = 1 << 10;

/// Sources that can name addresses of one binary.
#[derive(Default)]
pub(crate) struct Engine {
    go: Option<Pclntab<'static>>,
    /// Nothing else was opened.
    is_go_only: bool,
    lines: Option<Lines>,
    /// In the order of trust. Mini debug information has only what the dynamic symbols lack, so both count.
    names: Vec<Names>,
    pub source: SymbolSource,
    /// The source's file, for messages.
    path: PathBuf,
    /// The same, if it was found by name.
    pub place: Option<RootedPath>,
    pub identity: Option<Identity>,
    /// A file that is used belongs neither to root nor to the user who runs this.
    pub is_strange: bool,
    /// Budget of the source's files.
    budget: Option<Budget>,
    /// Something that should have been readable was not; such answers are not worth keeping.
    pub damage: Option<SymbolDefect>,
}

impl Engine {
    /// Opens the best sources among `file` and `files`: Go's own table, if that has all `addresses`, DWARF of the binary itself, else of a debug file;
    /// names from either.
    pub fn open(files: &mut Found, file: Option<&ElfFile>, addresses: &[u64]) -> Self {
        let mut engine = Self::default();
        let file = file.filter(|file| engine.has_sections(file));
        if let Some(file) = file {
            engine.open_go(file);
            engine.is_go_only = engine.go.is_some();
            if engine.is_go_only && engine.may_answer(addresses) {
                return engine;
            }
            engine.is_go_only = false;
            engine.open_lines(files, file);
        }
        let mut debug_file = None;
        while engine.lines.is_none()
            && let Some(mut found) = files.next_debug_file()
        {
            file.into_iter().for_each(|file| found.share_budget(file));
            if !engine.has_sections(&found) {
                continue;
            }
            engine.open_lines(files, &found);
            if debug_file.is_none() || engine.lines.is_some() {
                debug_file = Some(found);
            }
        }
        engine.open_names(debug_file.as_ref(), file);
        engine
    }

    /// Whether all that may name these addresses is open.
    pub fn may_answer(&self, addresses: &[u64]) -> bool {
        let is_of_go =
            |go: &Pclntab<'_>| addresses.iter().all(|&address| go.start(address).is_some());
        !self.is_go_only || self.go.as_ref().is_some_and(is_of_go)
    }

    fn open_go(&mut self, file: &ElfFile) {
        if file.section(GO).is_none() {
            return;
        }
        let content = ReadCache::new(&file.file);
        let may_read = |bytes| file.budget.take(bytes).is_ok();
        self.go = Pclntab::read(&content, may_read).map(Pclntab::into_owned);
        if self.go.is_some() {
            self.is_strange |= !file.is_trusted;
            self.come_from(SymbolSource::Pclntab, file);
        }
    }

    fn has_sections(&mut self, file: &ElfFile) -> bool {
        file.sections().map_err(|reason| self.damaged(file, reason)).is_ok()
    }

    fn damaged(&mut self, file: &ElfFile, reason: String) {
        self.damage.get_or_insert(SymbolDefect::Unreadable { path: file.path.clone(), reason });
    }

    fn come_from(&mut self, source: SymbolSource, file: &ElfFile) {
        self.source = source;
        self.path = file.path.clone();
        self.place = file.place.clone();
        self.identity = Some(file.identity);
        self.budget = Some(file.budget.clone());
    }

    fn open_lines(&mut self, files: &mut Found, file: &ElfFile) {
        if !files.has_lines(file) {
            return;
        }
        let supplement = files.supplement(file);
        let found = supplement.as_ref().ok().and_then(Option::as_ref);
        match Lines::open(file, found, Split::of(file)) {
            Ok(lines) => {
                self.lines = Some(lines);
                self.is_strange |= !file.is_trusted || found.is_some_and(|file| !file.is_trusted);
                self.come_from(SymbolSource::Dwarf, file);
                self.damage = None;
            }
            Err(reason) => self.damaged(file, reason),
        }
        if let Err(missing) = supplement {
            self.damage.get_or_insert(missing);
        }
    }

    fn open_names(&mut self, debug_file: Option<&ElfFile>, file: Option<&ElfFile>) {
        let files = [debug_file, file].into_iter().flatten();
        if files.clone().any(|file| self.read_names(file, elf::SHT_SYMTAB)) {
            return;
        }
        if let Some(file) = file {
            match mini_debug_file(file) {
                Ok(Some(mini)) => drop(self.read_names(&mini, elf::SHT_SYMTAB)),
                Ok(None) => {}
                Err(reason) => self.damaged(file, reason),
            }
        }
        files.rev().any(|file| self.read_names(file, elf::SHT_DYNSYM));
    }

    /// Whether the symbol table of this kind has function names. The first one found is the source.
    fn read_names(&mut self, file: &ElfFile, kind: elf::SectionType) -> bool {
        let names = Names::read(file, kind).unwrap_or_else(|reason| {
            self.damaged(file, reason);
            None
        });
        let Some(names) = names else { return false };
        self.is_strange |= !file.is_trusted;
        if self.go.is_none() && self.lines.is_none() && self.names.is_empty() {
            let is_whole = kind == elf::SHT_SYMTAB;
            let source = if is_whole { SymbolSource::Symtab } else { SymbolSource::Dynsym };
            self.come_from(source, file);
        }
        self.names.push(names);
        true
    }

    /// Bytes of files held in memory, about.
    pub fn size_bytes(&self) -> u64 {
        let lines = self.lines.as_ref().map_or(0, Lines::size_bytes);
        let go = self.go.as_ref().map_or(0, Pclntab::size_bytes);
        go + lines + self.names.iter().map(Names::size_bytes).sum::<u64>()
    }

    /// Finds the frames at `addresses` and adds them to `answers`.
    pub fn answer(&mut self, addresses: &[u64], answers: &mut Answers) {
        // Data made from the sections is dropped at the end, except for the answers.
        let budget = self.budget.as_ref().map_or_else(|| Budget::of(false), Budget::rest);
        let groups = match &self.lines {
            Some(lines) => lines.groups(addresses, &budget),
            None => addresses.chunks(NAMES_PER_GROUP).map(<[u64]>::to_vec).collect(),
        };
        let lines = self.lines.as_ref();
        let go = self.go.as_ref();
        let names = self.names.as_slice();
        let found = on_all(
            &groups,
            threads(),
            || Worker::new(go, lines, names, budget.clone()),
            |worker, group| {
                let found = |&address: &u64| (address, worker.find(address));
                group.iter().map(found).collect::<Vec<_>>()
            },
        );
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_unstable_by_key(|&(address, _)| address);
        for (address, (frames, damage)) in found {
            answers.add(address, &frames);
            if let Some(reason) = damage {
                let path = self.path.clone();
                let reason = format!("at address {address:#x}: {reason}");
                self.damage.get_or_insert(SymbolDefect::Unreadable { path, reason });
            }
        }
        if let Some(supplement) = self.missing_parts().into_iter().next() {
            let path = self.path.clone();
            let build_id = String::new();
            let missing = SymbolDefect::SupplementMissing { path, supplement, build_id };
            self.damage.get_or_insert(missing);
        }
    }

    /// Parts of the debug information that were asked for and are not there.
    pub fn missing_parts(&self) -> Vec<PathBuf> {
        self.lines.as_ref().map_or_else(Vec::new, |lines| lines.split.missing())
    }
}

//! Names the addresses of many binaries: by what the profile carries, then by what is known from
//! before, then by the files.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ramson_apart::{Apart, NOBODY, Owner, for_owner, for_process, for_told_root};

use crate::address::{CodeAddress, FileAddress, RuntimeAddress};
use crate::answers::{Answers, Origin};
use crate::binary::Binary;
use crate::cache::Cache;
use crate::debuginfod::{ServerOptions, Servers};
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity};
use crate::engine::Engine;
use crate::find::{Folders, Place, Search, debug_places, locate, present};
use crate::frame::{Frame, SymbolSource};
use crate::links::debug_link;
use crate::names_block::CarriedNames;
use crate::rooted::{NotedRoot, Readers, RootedPath};
use crate::sources;
use crate::their_names::{Question, Reply};

/// Sections of binaries that were not used lately are dropped beyond this.
const MAX_OPEN_BYTES: u64 = 2 << 30;
/// Answers for more binaries than this are kept on disk only.
const MAX_KNOWN: usize = 1 << 12;

/// Frames that were found, and what is missing and how to get it.
#[derive(Clone, Debug)]
pub struct Symbolized {
    /// One entry per address in the order asked; inlined frames innermost first; empty: unnamed.
    pub frames: Vec<Vec<Frame>>,
    /// Origin of the names.
    pub source: SymbolSource,
    /// Why there are not more of them.
    pub defect: Option<SymbolDefect>,
}

/// Places to look in addition to the usual ones.
#[derive(Default)]
pub struct Options {
    /// Folders with debug files: `.build-id/ab/cdef.debug` as under `/usr/lib/debug`, or plainly by file name.
    pub debug_paths: Vec<PathBuf>,
    /// A copy of the root directory of the machine that the profile is from: binaries and debug files are looked for in
    /// it first, and a binary without a build ID nowhere else.
    pub sysroot: Option<PathBuf>,
    /// The root directory, if it is another one than ours, of the process that has ended: by the path that its profile tells.
    pub root: Option<NotedRoot>,
    /// The user whose program it is, who names the paths that are looked at; `None`: any user's.
    pub named_by: Option<Owner>,
    /// Servers to ask for what is not here; `None`: ask none.
    pub servers: Option<ServerOptions>,
    /// Names that the profile brings along; they are taken first.
    pub carried: Option<Arc<CarriedNames>>,
    /// Folder for answers that are kept from run to run; `None`: keep none.
    pub cache_dir: Option<PathBuf>,
    /// Take names only from files that every user or the owner may read, as the names will be read by others than the user who runs this. Neither
    /// the cache nor the process itself is asked then.
    pub is_for_all: bool,
    /// Read no debug information, which was too much.
    pub is_without_lines: bool,
}

/// Finds names for addresses. Keeps binaries open, so use one for a whole report; it can be sent to other threads.
pub struct Symbolizer {
    folders: Folders,
    /// The root directory of a process of another user that has ended.
    told: Option<NotedRoot>,
    servers: Option<Servers>,
    carried: Option<Arc<CarriedNames>>,
    cache: Option<Cache>,
    known: HashMap<Binary, Known>,
    /// Answers of owners' workers.
    told_names: HashMap<Binary, Reply>,
    calls: u64,
}

/// One binary between calls.
#[derive(Default)]
struct Known {
    origin: Origin,
    answers: Answers,
    sources: Option<Engine>,
    /// Part that the sources could not read, if they were opened.
    damage: Option<SymbolDefect>,
    unsaved: usize,
    last_call: u64,
}

impl Symbolizer {
    /// Nothing is opened until the first question.
    pub fn new(options: Options) -> Self {
        let Options {
            debug_paths,
            sysroot,
            root,
            named_by,
            servers,
            carried,
            cache_dir,
            is_for_all,
            is_without_lines,
        } = options;
        let readers = if is_for_all { Readers::All } else { Readers::Caller };
        let named_by = named_by.unwrap_or(NOBODY);
        let is_others = |root: &NotedRoot| for_owner(root.owner.unwrap_or(NOBODY)).is_some();
        let (told, root) =
            if root.as_ref().is_some_and(is_others) { (root, None) } else { (None, root) };
        let theirs = Cell::default();
        let folders =
            Folders { debug_paths, sysroot, root, readers, named_by, is_without_lines, theirs };
        let servers = servers.map(Servers::new);
        let cache = cache_dir.filter(|_| !is_for_all).map(Cache::new);
        let (known, told_names) = (HashMap::new(), HashMap::new());
        Self { folders, told, servers, carried, cache, known, told_names, calls: 0 }
    }

    /// The servers that failed since the last call; they are not asked again.
    pub fn server_failures(&mut self) -> Vec<SymbolDefect> {
        self.servers
            .as_mut()
            .map(|servers| std::mem::take(&mut servers.failures))
            .unwrap_or_default()
    }

    /// Names what is at these addresses of `binary`.
    pub fn symbolize(&mut self, binary: &Binary, addresses: &[FileAddress]) -> Symbolized {
        // The kernel's own mappings have no file; that they have no names surprises nobody.
        if binary.path.starts_with('[') || binary.path.is_empty() {
            let frames = vec![Vec::new(); addresses.len()];
            return Symbolized { frames, source: SymbolSource::None, defect: None };
        }
        let known = self.carried.as_ref().and_then(|carried| carried.of(Some(binary)));
        let Some(known) = known else { return self.look_up(binary, addresses) };
        let carried: Vec<_> = addresses.iter().map(|address| known.get(address.0)).collect();
        let others = addresses.iter().zip(&carried).filter(|(_, frames)| frames.is_none());
        let others: Vec<FileAddress> = others.map(|(&address, _)| address).collect();
        if others.is_empty() {
            let frames = carried.into_iter().flatten().collect();
            return Symbolized { frames, source: SymbolSource::Carried, defect: None };
        }
        let mut symbolized = self.look_up(binary, &others);
        let mut found = std::mem::take(&mut symbolized.frames).into_iter();
        let frames = carried.into_iter().map(|frames| frames.or_else(|| found.next()));
        symbolized.frames = frames.map(Option::unwrap_or_default).collect();
        symbolized
    }

    /// The name that the profile brings along for code that belongs to no binary.
    pub fn carried_at(&self, address: RuntimeAddress) -> Option<Vec<Frame>> {
        self.carried.as_ref()?.get(CodeAddress::Outside(address))
    }

    fn look_up(&mut self, binary: &Binary, addresses: &[FileAddress]) -> Symbolized {
        // A file that a process has mapped has no path to judge by.
        let pid = binary.pid.filter(|_| self.folders.readers == Readers::Caller);
        let binary = Binary { pid, ..binary.clone() };
        let Some(by) = self.owner_of(&binary) else {
            let found = self.look_up_here(&binary, addresses);
            return match self.folders.theirs.take().and_then(for_owner) {
                Some(by) => self.ask(&by, &Binary { pid: None, ..binary }, found, addresses),
                None => found,
            };
        };
        let here = Binary { pid: None, ..binary.clone() };
        // Without a build ID, a file of this name proves nothing.
        let found = if here.build_id.is_empty() && self.folders.sysroot.is_none() {
            let frames = vec![Vec::new(); addresses.len()];
            Symbolized { frames, source: SymbolSource::None, defect: None }
        } else {
            self.look_up_here(&here, addresses)
        };
        self.ask(&by, &binary, found, addresses)
    }

    /// Who reads what belongs to the owner of a binary's process or profile. `None`: this process does.
    fn owner_of(&self, binary: &Binary) -> Option<Apart> {
        match (binary.pid, &self.told) {
            (Some(pid), _) => for_process(pid),
            (None, Some(root)) => for_told_root(root.owner.unwrap_or(NOBODY), &root.path),
            (None, None) => for_owner(self.folders.named_by),
        }
    }

    /// Adds the names that an owner's worker finds to those that were found here, unless these are whole.
    fn ask(
        &mut self,
        by: &Apart,
        binary: &Binary,
        found: Symbolized,
        addresses: &[FileAddress],
    ) -> Symbolized {
        let is_whole = found.source.is_best() || found.source == SymbolSource::Symtab;
        if is_whole && found.frames.iter().any(|frames| !frames.is_empty()) {
            return found;
        }
        if self.told_names.len() > MAX_KNOWN {
            self.told_names.clear();
        }
        let known = self.told_names.entry(binary.clone()).or_default();
        let unknown = |address: &&FileAddress| !known.answers.by_address.contains_key(&address.0);
        let unknown: Vec<FileAddress> = addresses.iter().filter(unknown).copied().collect();
        if !unknown.is_empty() {
            let question = Question {
                debug_paths: self.folders.debug_paths.clone(),
                sysroot: self.folders.sysroot.iter().cloned().collect(),
                named_by: self.folders.named_by,
                binary: binary.clone(),
                is_without_lines: false,
                addresses: unknown.iter().map(|address| address.0).collect(),
            };
            known.extend(&question.ask(by), &unknown);
        }
        if known.source == SymbolSource::None && found.source != SymbolSource::None {
            return found;
        }
        let pairs = addresses.iter().zip(found.frames);
        let frames = pairs.map(|(address, here)| {
            let theirs = known.frames_at(address);
            if theirs.is_empty() { here } else { theirs }
        });
        let frames = frames.collect();
        Symbolized { frames, source: known.source, defect: known.defect.clone() }
    }

    fn look_up_here(&mut self, binary: &Binary, addresses: &[FileAddress]) -> Symbolized {
        self.calls += 1;
        let mut known = self.known.remove(binary).unwrap_or_default();
        if known.last_call == 0
            && let Some(cached) = self.cache.as_ref().and_then(|cache| cache.load(&binary.build_id))
        {
            (known.origin, known.answers) = cached;
        }
        known.last_call = self.calls;
        let located = locate(binary, &self.folders, known.origin.place.as_ref());
        let file = located.as_ref().ok();
        let servers = self.servers.as_mut();
        let mut search = Search { binary, folders: &self.folders, servers };
        let places = refresh(&search, &mut known, file);
        let mut unknown: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        unknown.retain(|address| !known.answers.by_address.contains_key(address));
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            answer(&mut search, &mut known, &places, file, &unknown);
            // Rewriting a large file for a few more answers waits until the end.
            if known.unsaved * 8 >= known.answers.by_address.len() {
                save(self.cache.as_ref(), binary, &mut known);
            }
        }
        let frames_at = |address: &FileAddress| known.answers.get(address.0).unwrap_or_default();
        let frames: Vec<Vec<Frame>> = addresses.iter().map(frames_at).collect();
        let defect = defect(binary, located.err(), &known.origin, known.damage.clone())
            .or_else(|| few_lines(binary, &frames));
        let source = known.origin.source;
        self.known.insert(binary.clone(), known);
        self.close_unused();
        Symbolized { frames, source, defect }
    }

    fn close_unused(&mut self) {
        if self.known.len() > MAX_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last_call);
            if let Some(binary) = oldest.map(|(binary, _)| binary.clone()) {
                let forgotten = self.known.remove(&binary);
                forgotten
                    .into_iter()
                    .for_each(|mut old| save(self.cache.as_ref(), &binary, &mut old));
            }
        }
        let sizes = self.known.values().filter_map(|known| known.sources.as_ref());
        let mut open_bytes: u64 = sizes.map(Engine::size_bytes).sum();
        while open_bytes > MAX_OPEN_BYTES {
            let others = self.known.values_mut().filter(|known| known.last_call < self.calls);
            let open = others.filter(|known| known.sources.is_some());
            let Some(oldest) = open.min_by_key(|known| known.last_call) else { return };
            open_bytes -= oldest.sources.take().map_or(0, |sources| sources.size_bytes());
        }
    }
}

impl Drop for Symbolizer {
    fn drop(&mut self) {
        for (binary, known) in &mut self.known {
            save(self.cache.as_ref(), binary, known);
        }
    }
}

/// Forgets answers that better files have appeared for. Returns the places of debug files.
fn refresh(search: &Search, known: &mut Known, file: Option<&ElfFile>) -> Vec<Place> {
    if !known.origin.considered.is_empty() {
        let places = debug_places(search, file, known.origin.link.as_ref());
        let may_know = |servers: &&mut Servers| servers.may_know(&search.binary.build_id);
        let has_lines = known.origin.source.is_best();
        if (has_lines || !search.servers.as_ref().is_some_and(may_know))
            && is_current(search.binary, &known.origin, file, &present(file, &places))
        {
            return places;
        }
    }
    let link = file.and_then(debug_link);
    let places = debug_places(search, file, link.as_ref());
    let origin = Origin { link, considered: present(file, &places), ..Origin::default() };
    *known = Known { origin, last_call: known.last_call, ..Known::default() };
    places
}

fn answer(
    search: &mut Search,
    known: &mut Known,
    places: &[Place],
    file: Option<&ElfFile>,
    unknown: &[u64],
) {
    known.sources.take_if(|sources| !sources.may_answer(unknown));
    let sources = known.sources.get_or_insert_with(|| {
        // Old answers may be from a better file that has gone; should it come back, it counts as new.
        known.origin.considered = present(file, places);
        sources::open(search, places, file, unknown)
    });
    sources.answer(unknown, &mut known.answers);
    known.origin.source = sources.source;
    known.origin.place.clone_from(&sources.place);
    known.origin.identity = sources.identity;
    // Once some of the answers are a stranger's they stay mixed.
    known.origin.is_strange |= sources.is_strange;
    known.damage.clone_from(&sources.damage);
    known.unsaved += unknown.len();
}

fn save(cache: Option<&Cache>, binary: &Binary, known: &mut Known) {
    let is_whole = known.damage.is_none() && known.origin.source != SymbolSource::None;
    if let Some(cache) = cache
        && is_whole
        && !known.origin.is_strange
        && known.unsaved > 0
    {
        cache.store(&binary.build_id, &known.origin, &known.answers);
        known.unsaved = 0;
    }
}

/// Whether answers of this origin are the best that can be had from the files of `now`.
fn is_current(binary: &Binary, then: &Origin, file: Option<&ElfFile>, now: &[Identity]) -> bool {
    let is_known = |identity: &Identity| then.considered.contains(identity);
    if !then.source.is_best() {
        return now.iter().all(is_known);
    }
    // Nothing knows more, and the build ID says that it is the right one. A source that has gone does no
    // harm, if it was no stranger's; one that has changed does.
    let is_same_binary =
        !binary.build_id.is_empty() || file.is_none_or(|file| is_known(&file.identity));
    let place = then.place.as_ref();
    let source = place.and_then(RootedPath::look).map(Identity::from);
    let is_same_source = match source {
        Some(_) => source == then.identity,
        None => !then.is_strange || place.is_none(),
    };
    is_same_binary && is_same_source
}

fn defect(
    binary: &Binary,
    refusal: Option<SymbolDefect>,
    origin: &Origin,
    damage: Option<SymbolDefect>,
) -> Option<SymbolDefect> {
    let source = origin.source;
    let refusal = match refusal {
        Some(SymbolDefect::BuildIdDiffers { path, wanted, found, .. }) => {
            let used = origin.place.as_ref().map(RootedPath::shown);
            Some(SymbolDefect::BuildIdDiffers { path, wanted, found, used })
        }
        // With debug information at hand the binary itself is not needed.
        refusal => refusal.filter(|_| !source.is_best()),
    };
    let path = binary.path.clone();
    let build_id = binary.build_id.clone();
    refusal.or(damage).or(match source {
        SymbolSource::Dwarf | SymbolSource::Pclntab | SymbolSource::Carried => None,
        SymbolSource::Symtab => Some(SymbolDefect::NoLines { path, build_id }),
        SymbolSource::Dynsym | SymbolSource::None => {
            let are_exports_named = source == SymbolSource::Dynsym;
            Some(SymbolDefect::NoSymbols { path, build_id, are_exports_named })
        }
    })
}

/// Some binaries have DWARF only for the parts that came from elsewhere, such as assembly or a static library.
fn few_lines(binary: &Binary, frames: &[Vec<Frame>]) -> Option<SymbolDefect> {
    let has_line = |frames: &&Vec<Frame>| frames.iter().any(|frame| frame.line != 0);
    let named = frames.iter().filter(|frames| !frames.is_empty()).count();
    let with_lines = frames.iter().filter(has_line).count();
    let path = binary.path.clone();
    let build_id = binary.build_id.clone();
    (with_lines * 2 < named).then_some(SymbolDefect::FewLines { path, build_id, with_lines, named })
}

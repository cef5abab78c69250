//! Names: where they are looked for, binary by binary, and how they are shown.

use crate::lost;
use hashbrown::{HashMap, HashSet};
use ramson_paths::Owner;
use ramson_profile::{
    CompiledFunction, Function, Line, Location, LookupAddress, Mapping, Profile, short_name,
};
use ramson_reader::Snapshot;
use ramson_source::{Failure, Recording, RootFate, places, root_fate};
use ramson_symbols::{
    Binary, CarriedNames, CodeAddress, FileAddress, Frame, JitProcess, NotedRoot, Options,
    RuntimeAddress, SeenAddress, ServerOptions, SymbolDefect, Symbolizer, compiled_names,
};
use rustix::process::getuid;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const START_WITH_FRAMES: &str = "Start it with \"ramson run --languages\"";

/// Places to search for names.
#[derive(Clone, Default)]
pub struct Search {
    /// Directories with further debug files.
    pub debug_paths: Vec<PathBuf>,
    /// A copy of a machine's root directory, in which binaries and debug files are looked for first.
    pub sysroot: Option<PathBuf>,
    /// The program of which another tool's file has addresses only, as they are in the program's file.
    pub binary: Option<PathBuf>,
    /// Ask the debuginfod servers that DEBUGINFOD_URLS names, as `RAMSON_DEBUGINFOD=1` does.
    pub debuginfod: bool,
    /// The names go back to the profile's owner: if root looks them up for another user, only in files that every user may read.
    pub is_for_owner: bool,
    /// Called with the address of each file that a debuginfod server is asked for.
    pub on_fetch: Option<fn(&str)>,
}

/// Which names are shown.
#[derive(Clone, Default)]
pub struct Names {
    /// Places to search for them.
    pub search: Search,
    /// How those of C++ and Rust functions are written.
    pub demangle: Demangle,
}

/// How much of a C++ or Rust name is shown.
#[derive(Clone, Copy, Default)]
pub enum Demangle {
    /// With parameters and template arguments.
    #[default]
    Full,
    /// Without them.
    Short,
    /// As the linker has it.
    None,
}

impl Search {
    /// Returns the symbolizer for a recording.
    pub fn symbolizer(&self, recording: Option<&Recording>) -> Result<Symbolizer, Failure> {
        let owner = recording.map_or(Some(Owner::of_user(getuid().as_raw())), owner_of);
        let names = recording.and_then(|recording| recording.names.clone());
        self.symbolizer_for(owner, names, recording.and_then(other_root))
    }

    /// Returns the symbolizer for a profile of another tool, which came from this file or another origin.
    pub fn symbolizer_of_foreign(&self, origin: &str) -> Result<Symbolizer, Failure> {
        self.symbolizer_for(Some(owner_of_foreign(origin)), None, None)
    }

    /// `owner`: the user whose program it is about, if that is known; `root`: its root directory, if that is not ours.
    fn symbolizer_for(
        &self,
        owner: Option<Owner>,
        carried: Option<Arc<CarriedNames>>,
        root: Option<NotedRoot>,
    ) -> Result<Symbolizer, Failure> {
        if let Some(binary) = self.binary.as_ref().filter(|binary| !binary.is_file()) {
            let finding = format!("--binary {}: no such file", binary.display());
            return Err(Failure::usage(format!("{finding}. Pass the program that was profiled")));
        }
        if let Some(sysroot) = self.sysroot.as_ref().filter(|sysroot| !sysroot.is_dir()) {
            return Err(Failure::usage(format!(
                "--sysroot {}: not a directory. Pass a copy of a root directory, with usr in it",
                sysroot.display()
            )));
        }
        let is_of_other_user = getuid().is_root() && owner != Some(Owner::of_user(0));
        let servers = self.servers(is_of_other_user, |name| std::env::var(name).ok())?;
        Ok(Symbolizer::new(Options {
            debug_paths: self.debug_paths.clone(),
            sysroot: self.sysroot.clone(),
            root,
            named_by: owner,
            servers,
            carried,
            cache_dir: places::symbol_cache(),
            is_for_all: self.is_for_owner && is_of_other_user,
            is_without_lines: false,
        }))
    }

    /// The debuginfod servers, if they are to be asked. Distributions name some for every user, so that alone is no wish.
    fn servers(
        &self,
        is_of_other_user: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ServerOptions>, Failure> {
        let is_wanted =
            self.debuginfod || variable("RAMSON_DEBUGINFOD").is_some_and(|it| it == "1");
        let urls = variable("DEBUGINFOD_URLS").unwrap_or_default();
        let urls: Vec<String> = urls.split_whitespace().map(str::to_owned).collect();
        if self.debuginfod && urls.is_empty() {
            let next = "Set DEBUGINFOD_URLS to their addresses, separated by spaces (Debian's: https://debuginfod.debian.net)";
            return Err(Failure::usage(format!("--debuginfod: no servers are configured. {next}")));
        }
        let folder = places::fetched_debug_files();
        let folder = folder.filter(|_| is_wanted && !is_of_other_user && !urls.is_empty());
        let number = |name| variable(name)?.trim().parse().ok().filter(|&number: &u64| number > 0);
        let seconds = |name, default| Duration::from_secs(number(name).unwrap_or(default));
        Ok(folder.map(|folder| ServerOptions {
            folder,
            urls,
            timeout: seconds("DEBUGINFOD_TIMEOUT", 30),
            max_wait: seconds("DEBUGINFOD_MAXTIME", 120),
            max_file_bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(2 << 30),
            on_fetch: self.on_fetch,
        }))
    }
}

impl Names {
    /// Rewrites the names as they are to be shown; before that they are full.
    pub fn show(&self, profile: &mut Profile) {
        for function in &mut profile.functions {
            match self.demangle {
                Demangle::Full => return,
                Demangle::Short => function.name = short_name(&function.name).into(),
                // A foreign profile may have the one without the other.
                Demangle::None if function.system_name.is_empty() => {}
                Demangle::None => function.name = function.system_name.clone(),
            }
        }
    }
}

/// Looks up names where there are none yet. Returns what kept it from finding more.
pub fn name(
    profile: &mut Profile,
    source: Option<&Recording>,
    symbolizer: &mut Symbolizer,
) -> Vec<SymbolDefect> {
    let running = source.and_then(|source| source.running);
    let mut of_mapping: Vec<Vec<usize>> = vec![Vec::new(); profile.mappings.len()];
    let mut outside = Vec::new();
    for (index, location) in profile.locations.iter().enumerate() {
        match location.mapping {
            _ if !location.lines.is_empty() => {}
            Some(mapping) => of_mapping[mapping].push(index),
            None => outside.push(index),
        }
    }
    let mut functions = Functions::of(profile);
    let mut defects = Vec::new();
    for (mapping, locations) in profile.mappings.iter().zip(&of_mapping) {
        if locations.is_empty() {
            continue;
        }
        let binary = binary(mapping, running);
        let address_of = |&index: &usize| file_address(mapping, profile.locations[index].address);
        let addresses: Vec<FileAddress> = locations.iter().map(address_of).collect();
        let symbolized = symbolizer.symbolize(&binary, &addresses);
        defects.extend(symbolized.defect);
        for (&index, frames) in locations.iter().zip(symbolized.frames) {
            let location = &mut profile.locations[index];
            location.offset = frames.last().and_then(|frame| frame.offset);
            location.lines = functions.lines(frames);
        }
    }
    if let Some(source) = source.filter(|source| source.running.is_none()) {
        defects = lost::in_one_line(defects, fate_of(source));
    }
    defects.extend(symbolizer.server_failures());
    if let Some(source) = source {
        let compiled = name_compiled(profile, source, &outside, symbolizer, &mut functions);
        // Whoever asks about such a program wants these names most.
        defects.splice(0..0, compiled);
    }
    profile.functions = functions.list;
    defects
}

/// Names code outside every file, which a runtime compiled while the program ran.
fn name_compiled(
    profile: &mut Profile,
    source: &Recording,
    outside: &[usize],
    symbolizer: &Symbolizer,
    functions: &mut Functions,
) -> Option<SymbolDefect> {
    if outside.is_empty() {
        return None;
    }
    let address_of = |location: &Location| RuntimeAddress(location.address.0);
    let addresses = outside.iter().map(|&index| profile.locations[index].address.0);
    let seen = seen_in(addresses.collect(), &source.snapshot);
    let process = jit_process(source);
    let names = process.map_or(Ok(None), |process| compiled_names(&process, &seen));
    let (names, refusal) = match names {
        Ok(names) => (names, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let mut unnamed = 0;
    for &index in outside {
        let location = &mut profile.locations[index];
        let address = address_of(location);
        let frames = symbolizer
            .carried_at(address)
            .or_else(|| Some(vec![compiled(names.as_ref()?.get(&address)?)]));
        match frames {
            Some(frames) => location.lines = functions.lines(frames),
            None => unnamed += 1,
        }
    }
    refusal.or_else(|| {
        let remedy = remedy(source).filter(|_| names.is_none() && unnamed > 0)?;
        let runtime = source.name().to_owned();
        Some(SymbolDefect::NoPerfMap { addresses: unnamed, runtime, remedy })
    })
}

/// When each of these addresses was seen in stacks; of the last time, live blocks tell.
fn seen_in(addresses: HashSet<u64>, snapshot: &Snapshot) -> Vec<SeenAddress> {
    let mut last_ns: Vec<u64> =
        snapshot.stacks.iter().map(|stack| stack.first_monotonic_ns).collect();
    for block in &snapshot.live {
        last_ns[block.stack] = last_ns[block.stack].max(block.monotonic_ns);
    }
    let mut seen: HashMap<u64, SeenAddress> = HashMap::with_capacity(addresses.len());
    for (stack, last_ns) in snapshot.stacks.iter().zip(last_ns) {
        for &LookupAddress(address) in &stack.frames {
            if !addresses.contains(&address) {
                continue;
            }
            let first_ns = stack.first_monotonic_ns;
            let known = seen.entry(address).or_insert(SeenAddress { address, first_ns, last_ns });
            known.first_ns = known.first_ns.min(first_ns);
            known.last_ns = known.last_ns.max(last_ns);
        }
    }
    seen.into_values().collect()
}

/// The frame of a function that a perf map calls this.
fn compiled(name: &str) -> Frame {
    let system_name: Arc<str> = name.into();
    let Some(function) = CompiledFunction::parse(name) else {
        let function = system_name.clone();
        return Frame { function, system_name, file: None, line: 0, offset: None };
    };
    let CompiledFunction { name, file, line, .. } = function;
    let file = Some(file).filter(|file| !file.is_empty()).map(Arc::from);
    Frame { function: name.into(), system_name, file, line, offset: None }
}

/// Returns how to make a language runtime tell the names of the code that it compiles; `None`: no way is known.
fn remedy(source: &Recording) -> Option<String> {
    let name = source.name();
    match (name, source.running) {
        ("java", Some(pid)) => {
            Some(format!("Run \"jcmd {pid} Compiler.perfmap\" (JDK 17 or newer)"))
        }
        ("node" | "nodejs" | "java", _) => Some(START_WITH_FRAMES.into()),
        _ if name.starts_with("python3") => {
            Some(format!("{START_WITH_FRAMES} (Python 3.12 or newer)"))
        }
        _ => None,
    }
}

/// Returns the root directory that still has the files of an ended process, if it is not our own.
pub fn other_root(source: &Recording) -> Option<NotedRoot> {
    match fate_of(source) {
        RootFate::Present(path) => Some(NotedRoot { path, owner: owner_of(source) }),
        RootFate::Own | RootFate::Gone(_) | RootFate::Replaced(_) => None,
    }
}

/// Returns the fate of a process's root directory.
fn fate_of(source: &Recording) -> RootFate {
    match source.running {
        Some(_) => RootFate::Own,
        None => root_fate(&source.snapshot.header, &source.origin, owner_of(source)),
    }
}

/// The user whose program it is: of the process, or of the file. A history has programs of all users.
pub fn owner_of(source: &Recording) -> Option<Owner> {
    source.running.map_or(source.owner, Owner::of_process)
}

/// The same of another tool's profile: what comes over a pipe or the network is taken for the caller's.
pub fn owner_of_foreign(origin: &str) -> Owner {
    let user = std::fs::metadata(origin).map_or(getuid().as_raw(), |metadata| metadata.uid());
    Owner::of_user(user)
}

fn jit_process(source: &Recording) -> Option<JitProcess> {
    let header = &source.snapshot.header;
    let owner = owner_of(source)?;
    let at = |unix_ns: u64| UNIX_EPOCH + Duration::from_nanos(unix_ns);
    Some(JitProcess {
        running: source.running,
        own_pid: header.pid,
        owner,
        root: other_root(source),
        start: at(header.start_realtime_ns),
        last: at(header.unix_ns(header.last_monotonic_ns)),
    })
}

/// Functions of the profile, each once.
struct Functions {
    list: Vec<Function>,
    known: HashMap<Function, usize>,
}

impl Functions {
    fn of(profile: &mut Profile) -> Self {
        let list = std::mem::take(&mut profile.functions);
        let known = list.iter().cloned().zip(0..).collect();
        Self { list, known }
    }

    fn lines(&mut self, frames: Vec<Frame>) -> Vec<Line> {
        let line = |frame: Frame| Line { line: frame.line, function: self.index_of(frame) };
        frames.into_iter().map(line).collect()
    }

    fn index_of(&mut self, frame: Frame) -> usize {
        let Frame { function: name, system_name, file, .. } = frame;
        let function = Function { name, system_name, file: file.unwrap_or_default() };
        *self.known.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            self.list.len() - 1
        })
    }
}

/// The names that a profile has.
pub fn carried(profile: &Profile) -> CarriedNames {
    let mut names = CarriedNames::default();
    for location in &profile.locations {
        let frames: Vec<Frame> =
            location.lines.iter().map(|line| frame(profile, location, line)).collect();
        match location.mapping.map(|mapping| &profile.mappings[mapping]) {
            Some(mapping) => {
                let address = file_address(mapping, location.address);
                names.add(CodeAddress::InBinary(&binary(mapping, None), address), &frames);
            }
            None => names.add(CodeAddress::Outside(RuntimeAddress(location.address.0)), &frames),
        }
    }
    names
}

fn binary(mapping: &Mapping, pid: Option<u32>) -> Binary {
    Binary { path: mapping.path.clone(), build_id: mapping.build_id.clone(), pid }
}

fn file_address(mapping: &Mapping, address: LookupAddress) -> FileAddress {
    FileAddress(address.0.wrapping_sub(mapping.bias))
}

fn frame(profile: &Profile, location: &Location, line: &Line) -> Frame {
    let function = &profile.functions[line.function];
    let file = Some(&function.file).filter(|file| !file.is_empty()).map(Arc::clone);
    let name = function.name.clone();
    let system_name = function.system_name.clone();
    Frame { function: name, system_name, file, line: line.line, offset: location.offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many servers are asked with these variables set.
    fn asked(debuginfod: bool, is_of_other_user: bool, set: &[(&str, &str)]) -> usize {
        let search = Search { debuginfod, ..Search::default() };
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| value.to_string())
        };
        let servers = search.servers(is_of_other_user, variable).unwrap();
        servers.map_or(0, |servers| servers.urls.len())
    }

    #[test]
    fn debuginfod_is_asked_on_request_only() {
        let urls = ("DEBUGINFOD_URLS", "http://127.0.0.1:1 http://127.0.0.1:2");
        let wish = ("RAMSON_DEBUGINFOD", "1");
        assert_eq!(asked(false, false, &[urls]), 0);
        assert_eq!(asked(true, false, &[urls]), 2);
        assert_eq!(asked(false, false, &[urls, wish]), 2);
        assert_eq!(asked(false, false, &[urls, ("RAMSON_DEBUGINFOD", "0")]), 0);
        assert_eq!(asked(false, false, &[wish]), 0);
        assert_eq!(asked(true, true, &[urls, wish]), 0);
        let search = Search { debuginfod: true, ..Search::default() };
        let refusal = search.servers(false, |_| None).err().unwrap().to_string();
        assert!(refusal.contains("Set DEBUGINFOD_URLS"), "{refusal}");
    }
}

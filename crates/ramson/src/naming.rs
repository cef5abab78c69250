//! Names: where they are looked for, binary by binary, and how they are shown.

use crate::failure::Failure;
use crate::places;
use crate::source::Source;
use crate::text;
use clap::{Args, ValueEnum};
use hashbrown::HashMap;
use ramson_profile::{Function, Line, Profile};
use ramson_symbols::{
    Binary, Defect, Frame, JitProcess, Options, PerfMap, ServerOptions, Symbolizer,
};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

#[derive(Args, Clone)]
pub struct SearchOptions {
    /// Also look for debug files in this directory (repeatable)
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Look for binaries and debug files in this copy of a machine's root directory first
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub struct NameOptions {
    #[command(flatten)]
    pub search: SearchOptions,
    /// Names of C++ and Rust functions: full, short (without parameters and template arguments), or none (as the linker has them)
    #[arg(long, value_enum, default_value_t = Demangle::Full, hide_possible_values = true)]
    pub demangle: Demangle,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Demangle {
    Full,
    Short,
    None,
}

impl SearchOptions {
    /// What finds names for `source`, or for a profile that is not ours.
    pub fn symbolizer(&self, source: Option<&Source>) -> Result<Symbolizer, Failure> {
        if let Some(sysroot) = self.sysroot.as_ref().filter(|sysroot| !sysroot.is_dir()) {
            return Err(Failure::usage(format!(
                "--sysroot {}: not a directory. Pass the copy of a root directory, with usr in it",
                sysroot.display()
            )));
        }
        let carried = source.and_then(|source| source.names.clone());
        Ok(Symbolizer::new(Options {
            debug_paths: self.debug_path.clone(),
            sysroot: self.sysroot.clone(),
            servers: servers(),
            carried,
            cache_dir: places::symbol_cache(),
        }))
    }
}

impl NameOptions {
    /// Rewrites the names as they are to be shown; before that they are full.
    pub fn show(&self, profile: &mut Profile) {
        for function in &mut profile.functions {
            match self.demangle {
                Demangle::Full => return,
                Demangle::Short => {
                    function.name = ramson_profile::short_name(&function.name).into()
                }
                // A foreign profile may have the one without the other.
                Demangle::None if function.system_name.is_empty() => {}
                Demangle::None => function.name = function.system_name.clone(),
            }
        }
    }
}

/// The debuginfod servers that the user has named. Without DEBUGINFOD_URLS nobody is asked.
fn servers() -> Option<ServerOptions> {
    let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
    let urls: Vec<String> = urls.split_whitespace().map(str::to_owned).collect();
    let number =
        |name: &str| std::env::var(name).ok()?.trim().parse().ok().filter(|&n: &u64| n > 0);
    let seconds = |name, default| Duration::from_secs(number(name).unwrap_or(default));
    Some(ServerOptions {
        folder: places::fetched_debug_files().filter(|_| !urls.is_empty())?,
        urls,
        timeout: seconds("DEBUGINFOD_TIMEOUT", 30),
        max_wait: seconds("DEBUGINFOD_MAXTIME", 120),
        max_file_bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(2 << 30),
        on_fetch: Some(|address| text::hint(&format!("fetching {address}"))),
    })
}

/// Looks up names where there are none yet. Returns what kept it from finding more.
pub fn name(
    profile: &mut Profile,
    source: Option<&Source>,
    symbolizer: &mut Symbolizer,
) -> Vec<Defect> {
    let mut of_mapping: Vec<Vec<usize>> = vec![Vec::new(); profile.mappings.len()];
    let mut outside = Vec::new();
    for (index, location) in profile.locations.iter().enumerate() {
        match location.mapping {
            _ if !location.lines.is_empty() => {}
            Some(mapping) => of_mapping[mapping].push(index),
            None => outside.push(index),
        }
    }
    let pid = source.and_then(|source| source.running);
    let mut functions = Functions::of(profile);
    let mut defects = Vec::new();
    for (mapping, locations) in profile.mappings.iter().zip(&of_mapping) {
        if locations.is_empty() {
            continue;
        }
        let binary = Binary { path: mapping.path.clone(), build_id: mapping.build_id.clone(), pid };
        let address_of =
            |&index: &usize| profile.locations[index].address.wrapping_sub(mapping.bias);
        let addresses: Vec<u64> = locations.iter().map(address_of).collect();
        let symbolized = symbolizer.symbolize(&binary, &addresses);
        defects.extend(symbolized.defect);
        for (&index, frames) in locations.iter().zip(symbolized.frames) {
            profile.locations[index].lines = functions.lines(frames);
        }
    }
    defects.extend(symbolizer.server_failures());
    if let Some(source) = source {
        defects.extend(name_compiled(profile, source, &outside, symbolizer, &mut functions));
    }
    profile.functions = functions.list;
    defects
}

/// Names code outside every file, which a runtime compiled while the program ran.
fn name_compiled(
    profile: &mut Profile,
    source: &Source,
    outside: &[usize],
    symbolizer: &Symbolizer,
    functions: &mut Functions,
) -> Option<Defect> {
    if outside.is_empty() {
        return None;
    }
    let (map, refusal) = match jit_process(source).map_or(Ok(None), |process| PerfMap::of(&process))
    {
        Ok(map) => (map, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let mut unnamed = 0;
    for &index in outside {
        let location = &mut profile.locations[index];
        let frames = symbolizer.carried_at(location.address).or_else(|| {
            let name: Arc<str> = map.as_ref()?.find(location.address)?.into();
            Some(vec![Frame { function: name.clone(), system_name: name, file: None, line: 0 }])
        });
        match frames {
            Some(frames) => location.lines = functions.lines(frames),
            None => unnamed += 1,
        }
    }
    let (runtime, remedy) = (source.name(), remedy(source.name()));
    refusal.or_else(|| {
        let remedy = remedy.filter(|_| map.is_none() && unnamed > 0)?;
        Some(Defect::NoPerfMap { addresses: unnamed, runtime: runtime.to_owned(), remedy })
    })
}

/// What makes a runtime tell the names of the code that it compiles.
fn remedy(runtime: &str) -> Option<&'static str> {
    match runtime {
        "node" | "nodejs" => Some("--perf-basic-prof"),
        "java" => Some("an agent that writes /tmp/perf-PID.map, such as perf-map-agent"),
        python if python.starts_with("python3") => Some("-X perf (Python 3.12 or newer)"),
        _ => None,
    }
}

fn jit_process(source: &Source) -> Option<JitProcess> {
    let header = &source.snapshot.header;
    let uid = match source.running {
        Some(pid) => std::fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
        None => std::fs::metadata(&source.origin).ok()?.uid(),
    };
    let recorded_ns = header.last_monotonic_ns.saturating_sub(header.start_monotonic_ns);
    let at = |unix_ns: u64| UNIX_EPOCH + Duration::from_nanos(unix_ns);
    let last = at(header.start_realtime_ns.saturating_add(recorded_ns));
    let (running, own_pid) = (source.running, header.pid);
    Some(JitProcess { running, own_pid, uid, start: at(header.start_realtime_ns), last })
}

/// Functions of the profile, each once.
struct Functions {
    list: Vec<Function>,
    known: HashMap<Function, usize>,
    /// The same by where the texts are, which is found without reading them: symbols share theirs.
    shared: HashMap<[usize; 3], (Function, usize)>,
    no_file: Arc<str>,
}

impl Functions {
    fn of(profile: &mut Profile) -> Self {
        let list = std::mem::take(&mut profile.functions);
        let known = list.iter().cloned().zip(0..).collect();
        Self { list, known, shared: HashMap::new(), no_file: Arc::from("") }
    }

    fn lines(&mut self, frames: Vec<Frame>) -> Vec<Line> {
        let line = |frame: Frame| Line { line: frame.line, function: self.index_of(frame) };
        frames.into_iter().map(line).collect()
    }

    fn index_of(&mut self, frame: Frame) -> usize {
        let file = frame.file.unwrap_or_else(|| self.no_file.clone());
        let function = Function { name: frame.function, system_name: frame.system_name, file };
        let texts = [&function.name, &function.system_name, &function.file];
        let places = texts.map(|text| text.as_ptr().addr());
        // The texts stay where they are, as the entry holds them.
        let (_, index) = self.shared.entry(places).or_insert_with(|| {
            let index = *self.known.entry(function.clone()).or_insert_with_key(|function| {
                self.list.push(function.clone());
                self.list.len() - 1
            });
            (function, index)
        });
        *index
    }
}

//! What a process's executable contains: an allocator, a C library, a language's run time.

use crate::text;
use memchr::memmem;
use object::{Object, ObjectSymbol};
use std::fs;

/// Larger executables are not searched for symbols.
const MOST_EXECUTABLE_BYTES: u64 = 256 << 20;

/// Parts of mapped files' names, and whose heap comes with them.
const RUNTIMES: [(&str, &str); 6] = [
    ("/libjvm.so", "the Java heap"),
    ("/libcoreclr.so", "the .NET heap"),
    ("/libnode.so", "V8's heap"),
    ("/libmozjs-", "SpiderMonkey's heap"),
    ("/libpython", PYTHON),
    ("/bin/python", PYTHON),
];

/// Where the arenas of Python 3.10 and newer have less than 1 MiB, they are not Python's.
const PYTHON: &str = "Python's own arenas (PYTHONMALLOC=malloc shows them)";

/// Texts that each version of an allocator contains, also where its symbols are gone.
const TEXTS: [(&[u8], &str); 3] =
    [(b"<jemalloc>: ", "jemalloc"), (b"mimalloc: ", "mimalloc"), (b"tcmalloc: ", "tcmalloc")];

/// Names by which an allocator inside the executable is known.
const ALLOCATORS: [(&str, &str); 7] = [
    ("je_malloc", "jemalloc"),
    ("_rjem_malloc", "jemalloc"),
    ("mallocx", "jemalloc"),
    ("tc_malloc", "tcmalloc"),
    ("TCMalloc_Internal_malloc", "tcmalloc"),
    ("mi_malloc", "mimalloc"),
    ("malloc", "its own malloc"),
];

/// The owner of memory that did not come from malloc, as far as mapped files and the executable tell.
pub fn heap_owner(pid: u32) -> Option<String> {
    let maps = text::read(format!("/proc/{pid}/maps")).ok()?;
    match runtime_in(&maps) {
        // Since 3.10 an arena has 1 MiB: each is known by who mapped it.
        Some(PYTHON) => return maps.lines().any(is_old_python).then(|| PYTHON.into()),
        Some(whose) => return Some(whose.into()),
        None => {}
    }
    let bytes = executable(pid)?;
    let executable = object::File::parse(&*bytes).ok()?;
    if executable.section_by_name(".gopclntab").is_some()
        || executable.section_by_name(".note.go.buildid").is_some()
    {
        return Some("the Go heap".into());
    }
    let defined = defined_symbols(&executable);
    if defined.iter().any(|name| name.starts_with("_ZN2v8")) {
        return Some("V8's heap".into());
    }
    let allocator = allocator_among(&defined)?;
    Some(format!("{allocator} is linked into the executable, where ramson has no hooks"))
}

fn executable(pid: u32) -> Option<Vec<u8>> {
    let path = format!("/proc/{pid}/exe");
    let is_small = fs::metadata(&path).is_ok_and(|facts| facts.len() <= MOST_EXECUTABLE_BYTES);
    is_small.then(|| fs::read(&path).ok())?
}

/// Whose heap comes with a mapped file of this name.
pub fn runtime_in(path: &str) -> Option<&'static str> {
    RUNTIMES.iter().find(|(part, _)| path.contains(part)).map(|&(_, whose)| whose)
}

/// Before 3.10.
fn is_old_python(path: &str) -> bool {
    let minor = path.rsplit_once("python3.").map(|(_, version)| version);
    let digits = minor.map(|minor| minor.split(|c: char| !c.is_ascii_digit()).next());
    digits.flatten().and_then(|digits| digits.parse().ok()).is_some_and(|minor: u32| minor < 10)
}

/// Allocators inside a file that a process has mapped, by its symbols and texts.
pub fn allocators_in(pid: u32, path: &str) -> Vec<&'static str> {
    let path = format!("/proc/{pid}/root{path}");
    let is_small = fs::metadata(&path).is_ok_and(|facts| facts.len() <= MOST_EXECUTABLE_BYTES);
    let Some(bytes) = is_small.then(|| fs::read(&path).ok()).flatten() else { return Vec::new() };
    let has = |text: &&(&[u8], &'static str)| memmem::find(&bytes, text.0).is_some();
    let mut found: Vec<&str> = TEXTS.iter().filter(has).map(|text| text.1).collect();
    if let Ok(object) = object::File::parse(&*bytes)
        && let Some(by_symbol) = allocator_among(&defined_symbols(&object))
        && !found.contains(&by_symbol)
    {
        found.push(by_symbol);
    }
    found
}

/// The allocator that is linked into a process's executable: glibc's, if that `may_be_static`, or one that its symbols tell.
pub fn allocator_in_executable(pid: u32, may_be_static: bool) -> Option<&'static str> {
    let bytes = executable(pid)?;
    // A text that each static program has, also without symbols. It does not tell the version.
    if may_be_static && memmem::find(&bytes, b"glibc-ld.so.cache").is_some() {
        return Some("static glibc");
    }
    let executable = object::File::parse(&*bytes).ok()?;
    let defined = defined_symbols(&executable);
    // The dynamic loader, called by name, has a malloc for itself only.
    let is_loader = defined.contains(&"_rtld_global");
    allocator_among(&defined).filter(|_| !is_loader)
}

fn defined_symbols<'a>(executable: &'a object::File) -> Vec<&'a str> {
    let symbols = executable.symbols().chain(executable.dynamic_symbols());
    let defined = symbols.filter(|symbol| symbol.is_definition());
    defined.filter_map(|symbol| symbol.name().ok()).collect()
}

fn allocator_among(defined: &[&str]) -> Option<&'static str> {
    ALLOCATORS.iter().find(|(name, _)| defined.contains(name)).map(|&(_, allocator)| allocator)
}

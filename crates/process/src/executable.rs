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
    ("/libpython", "Python's own arenas (PYTHONMALLOC=malloc shows them)"),
    ("/bin/python", "Python's own arenas (PYTHONMALLOC=malloc shows them)"),
];

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
    if let Some((_, whose)) = RUNTIMES.iter().find(|(part, _)| maps.contains(part)) {
        return Some((*whose).into());
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

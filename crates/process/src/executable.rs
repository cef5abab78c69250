//! Contents of a process's executable: an allocator, a C library, a language's run time.

use crate::allocators::{self, Allocator};
use crate::binary::{Binary, Content};
use crate::mappings::{Mapping, mappings};
use crate::search::{Found, Search};
use crate::{identify, program};
use memchr::memmem;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind, elf};
use std::cmp::Reverse;
use std::path::Path;

/// Parts of mapped files' names, and whose heap comes with them.
const RUNTIMES: [(&str, &str); 14] = [
    ("/libjvm.so", "the Java heap"),
    ("/libcoreclr.so", "the .NET heap"),
    ("/libnode.so", V8),
    ("/libmozjs-", "SpiderMonkey's heap"),
    (
        "/beam.smp",
        "Erlang's own allocators (erlang:memory() tells them apart; erl +Mea min uses malloc instead)",
    ),
    ("/libphp", PHP),
    ("/bin/php", PHP),
    ("/sbin/php-fpm", PHP),
    ("/libluajit-", LUAJIT),
    ("/luajit", LUAJIT),
    ("/libruby", RUBY),
    ("/bin/ruby", RUBY),
    ("/libpython", PYTHON),
    ("/bin/python", PYTHON),
];

const V8: &str = "V8's heap, code and WebAssembly memory (process.memoryUsage() tells them apart)";
const PHP: &str = "PHP's own allocator (USE_ZEND_ALLOC=0 uses malloc instead)";
const LUAJIT: &str = "LuaJIT's own allocator (collectgarbage(\"count\") returns its size in KiB)";
const RUBY: &str = "Ruby's heap pages (GC.stat(:heap_allocated_pages) counts them)";

/// Owner of memory in Python's arenas. In Python 3.10 and newer, an arena of less than 1 MiB is not Python's.
const PYTHON: &str = "Python's own arenas (PYTHONMALLOC=malloc shows them)";

/// Texts that each version of an allocator contains, also where its symbols are gone.
const TEXTS: [(&[u8], &str); 3] =
    [(b"<jemalloc>: ", "jemalloc"), (b"mimalloc: ", "mimalloc"), (b"tcmalloc: ", "tcmalloc")];

/// Variables that are told, and how large one is at least.
const MOST_VARIABLES: usize = 3;
const LEAST_VARIABLE_BYTES: u64 = 64 << 10;

/// Names by which an allocator inside the executable is known.
const ALLOCATORS: [(&str, &str); 7] = [
    ("je_malloc", "jemalloc"),
    ("_rjem_malloc", "jemalloc"),
    ("mallocx", "jemalloc"),
    ("tc_malloc", "tcmalloc"),
    ("TCMalloc_Internal_malloc", "tcmalloc"),
    ("mi_malloc", "mimalloc"),
    ("malloc", OWN),
];
const OWN: &str = "a malloc of its own";

/// The owner of memory that did not come from malloc, as far as mapped files and the executable tell.
pub fn heap_owner(pid: u32) -> Option<String> {
    let mut first = RUNTIMES.len();
    let mut has_old_python = false;
    for Mapping { path, .. } in mappings(pid).ok()?.filter(Mapping::is_code) {
        first = RUNTIMES.iter().take(first).position(|of| path.contains(of.0)).unwrap_or(first);
        has_old_python |= is_old_python(&path);
    }
    match RUNTIMES.get(first).map(|of| of.1) {
        // Since 3.10 an arena has 1 MiB: each is known by who mapped it.
        Some(PYTHON) => return has_old_python.then(|| PYTHON.into()),
        Some(whose) => return Some(whose.into()),
        None => {}
    }
    Binary::executable(pid)?.search(Search::Heap).text()
}

impl Search {
    /// Looks for it, in this process.
    pub(crate) fn run(self, binary: &Content) -> Found {
        match self {
            Self::GlibcVersion => {
                let found = binary.find(identify::glibc_version);
                found.map_or(Found::Nothing, |(version, package)| Found::Version(version, package))
            }
            Self::JemallocVersion => Found::texts(binary.find(identify::jemalloc_version)),
            Self::Obstacle => Found::texts(program::obstacle_in(binary)),
            Self::Is32Bit if is_32_bit(binary) => Found::Yes,
            Self::Is32Bit => Found::Nothing,
            Self::Heap => Found::texts(heap_of(binary)),
            Self::Allocators => Found::texts(allocators_of(binary)),
            Self::Linked { may_be_static } => Found::texts(linked_into(binary, may_be_static)),
            Self::JemallocVariable => Found::texts(binary.find(jemalloc_variable)),
            Self::Variables => match largest_variables(binary) {
                none if none.is_empty() => Found::Nothing,
                sizes => Found::Sizes(sizes),
            },
            Self::Function(offset) => Found::texts(function_at(binary, offset)),
        }
    }
}

fn is_32_bit(binary: &Content) -> bool {
    let head = binary.head::<5>();
    head.is_some_and(|head| head.starts_with(&elf::ELFMAG) && head[4] == elf::ELFCLASS32.0)
}

fn heap_of(binary: &Content) -> Option<String> {
    let executable = object::File::parse(binary).ok()?;
    if executable.section_by_name(".gopclntab").is_some()
        || executable.section_by_name(".note.go.buildid").is_some()
    {
        return Some("the Go heap".into());
    }
    let defined = Defined::by(&executable);
    if defined.has_v8 {
        return Some(V8.into());
    }
    // A stripped one has its texts.
    let allocator = defined.allocator().or_else(|| allocators_of(binary).first().copied())?;
    Some(format!("{allocator}{}", allocators::IN_EXECUTABLE))
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
pub fn allocators_in(pid: u32, path: &str) -> Vec<String> {
    let binary = Binary::at(pid, path);
    binary.map_or(Vec::new(), |binary| binary.search(Search::Allocators).all_texts())
}

fn allocators_of(binary: &Content) -> Vec<&'static str> {
    let mut found: Vec<&str> = Vec::new();
    binary.find(|piece| {
        let is_new = |text: &&(&[u8], &'static str)| {
            !found.contains(&text.1) && memmem::find(piece, text.0).is_some()
        };
        let new: Vec<&str> = TEXTS.iter().filter(is_new).map(|text| text.1).collect();
        found.extend(new);
        (found.len() == TEXTS.len()).then_some(())
    });
    found.sort_by_key(|name| TEXTS.iter().position(|text| text.1 == *name));
    if let Ok(object) = object::File::parse(binary)
        && let Some(by_symbol) = Defined::by(&object).allocator()
        && !found.contains(&by_symbol)
    {
        found.push(by_symbol);
    }
    found
}

/// The allocator that is linked into a process's executable: glibc's, if that `may_be_static`, or one that its symbols tell.
pub fn allocator_in_executable(pid: u32, may_be_static: bool) -> Option<String> {
    Binary::executable(pid)?.search(Search::Linked { may_be_static }).text()
}

/// The allocators whose texts or symbols a program's file has.
pub fn allocators_in_file(path: &Path) -> Vec<String> {
    let binary = Binary::own(path);
    binary.map_or(Vec::new(), |binary| binary.search(Search::Allocators).all_texts())
}

/// Why ramson records nothing of the allocator of a program's file, if one is linked into it: `its allocator, jemalloc, is linked into …`.
pub fn unseen_in_file(path: &Path) -> Option<String> {
    let name = Binary::own(path)?.search(Search::Linked { may_be_static: false }).text()?;
    Some(Allocator::inside(name, path.display().to_string()).unseen())
}

fn linked_into(binary: &Content, may_be_static: bool) -> Option<&'static str> {
    let defined = Defined::by(&object::File::parse(binary).ok()?);
    // The dynamic loader, called by name, has a malloc for itself only.
    let named = defined.allocator().filter(|_| !defined.is_loader);
    // A text that each static program has, also without symbols. It does not tell the version.
    let has_text = || binary.find(|piece| memmem::find(piece, b"glibc-ld.so.cache"));
    let is_plain = named.is_none_or(|name| name == OWN);
    if may_be_static && is_plain && has_text().is_some() { Some("static glibc") } else { named }
}

/// The largest first.
fn largest_variables(binary: &Content) -> Vec<(String, u64)> {
    let Ok(object) = object::File::parse(binary) else { return Vec::new() };
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let variables = symbols.filter(|it| it.kind() == SymbolKind::Data && it.is_definition());
    let mut all: Vec<_> = variables.filter(|it| it.size() >= LEAST_VARIABLE_BYTES).collect();
    all.sort_by_key(|it| (Reverse(it.size()), it.address()));
    // One variable may have several names, and be in both tables.
    all.dedup_by_key(|it| it.address());
    let named = all.iter().filter_map(|it| Some((it.name().ok()?.to_owned(), it.size())));
    named.take(MOST_VARIABLES).collect()
}

fn function_at(binary: &Content, offset: u64) -> Option<String> {
    let object = object::File::parse(binary).ok()?;
    let address = object.segments().find_map(|segment| {
        let (start, bytes) = segment.file_range();
        let within = offset.checked_sub(start).filter(|&within| within < bytes)?;
        Some(segment.address() + within)
    })?;
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let mut functions = symbols.filter(|it| it.kind() == SymbolKind::Text && it.is_definition());
    let found = functions
        .find(|it| (it.address()..it.address().saturating_add(it.size())).contains(&address));
    Some(found?.name().ok()?.to_owned())
}

/// `_RJEM_MALLOC_CONF`: jemalloc's variable has the prefix of its functions.
fn jemalloc_variable(piece: &[u8]) -> Option<String> {
    memmem::find_iter(piece, b"MALLOC_CONF\0").find_map(|at| {
        let before = piece[..at].iter().rev();
        let is_of_name = |byte: &&u8| byte.is_ascii_uppercase() || **byte == b'_';
        let start = at - before.take_while(is_of_name).count();
        let name = std::str::from_utf8(&piece[start..at + b"MALLOC_CONF".len()]).ok()?;
        (start > 0 && piece[start - 1] == 0).then(|| name.to_owned())
    })
}

/// Definitions that the symbols of a file tell.
#[derive(Default)]
struct Defined {
    has_v8: bool,
    is_loader: bool,
    /// By its place in ALLOCATORS.
    allocators: [bool; ALLOCATORS.len()],
}

impl Defined {
    fn by<'a>(object: &object::File<'a, &'a Content>) -> Self {
        let mut found = Self::default();
        let symbols = object.symbols().chain(object.dynamic_symbols());
        for name in symbols.filter(ObjectSymbol::is_definition).filter_map(|s| s.name().ok()) {
            found.has_v8 |= name.starts_with("_ZN2v8");
            found.is_loader |= name == "_rtld_global";
            if let Some(place) = ALLOCATORS.iter().position(|(known, _)| *known == name) {
                found.allocators[place] = true;
            }
        }
        found
    }

    fn allocator(&self) -> Option<&'static str> {
        self.allocators.iter().zip(ALLOCATORS).find(|(is_there, _)| **is_there).map(|(_, of)| of.1)
    }
}

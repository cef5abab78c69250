//! Compiles a hostile program and the libraries that belong to it.

use super::cell::Allocator;
use super::program::{Program, directory};
use crate::build::{STATIC_JEMALLOC, target_directory, tool, try_tool};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

/// As a program is usually built, but for calls that the compiler would take away or turn into jumps.
const C_FLAGS: [&str; 9] = [
    "-O1",
    "-g",
    "-Wall",
    "-Wno-unused-result",
    "-Wno-deprecated-declarations",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-D_GNU_SOURCE",
];

/// A program that was built: the command to run, and the values of the words in braces except `{tmp}`.
pub struct Built {
    pub executable: PathBuf,
    directory: PathBuf,
}

impl Built {
    /// Replaces the words in braces.
    pub fn expand(&self, value: &str, tmp: &Path) -> String {
        expand(value, &self.directory).replace("{tmp}", &tmp.to_string_lossy())
    }
}

fn expand(value: &str, built: &Path) -> String {
    value
        .replace("{built}", &built.to_string_lossy())
        .replace("{parts}", &directory().join("parts").to_string_lossy())
}

/// Builds `program`, with `allocator` linked in if it is one of those, if anything of it has changed. A script is its own executable.
pub fn build(program: &Program, allocator: Allocator) -> Result<Built, String> {
    let built = target_directory().join("hostile").join(&program.name);
    std::fs::create_dir_all(&built).expect("target/hostile can be made");
    let built = built.canonicalize().expect("it was just made");
    for part in &program.parts {
        let source = directory().join("parts").join(&part.source);
        let stem = Path::new(&part.source).file_stem().unwrap_or_default().to_string_lossy();
        let mut flags = vec!["-shared".to_owned(), "-fPIC".to_owned()];
        flags.extend(part.flags.iter().map(|flag| expand(flag, &built)));
        compile(program, &source, &built.join(format!("{stem}.so")), &flags)?;
    }
    let extension = program.source.extension().unwrap_or_default().to_string_lossy();
    if !matches!(&*extension, "c" | "cc" | "S" | "rs") {
        return Ok(Built { executable: program.source.clone(), directory: built });
    }
    let mut flags: Vec<_> = program.build.iter().map(|flag| expand(flag, &built)).collect();
    flags.extend(linked(allocator));
    // Each in a directory of its own: the program's name is in what it prints.
    let directory =
        if allocator.is_inside() { built.join(allocator.name()) } else { built.clone() };
    std::fs::create_dir_all(&directory).expect("a directory can be made in target");
    let executable = directory.join(&program.name);
    compile(program, &program.source, &executable, &flags)?;
    Ok(Built { executable, directory: built })
}

/// What links the allocator into a program, even into one whose libraries alone call it.
fn linked(allocator: Allocator) -> Vec<String> {
    let libraries: &[&str] = match allocator {
        Allocator::JemallocInside => &STATIC_JEMALLOC,
        Allocator::TcmallocInside => &["-l:libtcmalloc_minimal.a", "-lstdc++", "-lm", "-lpthread"],
        Allocator::MimallocInside => return vec![mimalloc().display().to_string()],
        _ => return Vec::new(),
    };
    ["-Wl,-u,malloc"].iter().chain(libraries).map(|&flag| flag.to_owned()).collect()
}

/// mimalloc as one object file, from the sources in the crate that a program of `tests/accept` uses: Debian has none.
fn mimalloc() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let manifest =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("accept/programs/inside/Cargo.toml");
        let asked = ["metadata", "--locked", "--format-version=1", "--features=mi"];
        let manifest = format!("--manifest-path={}", manifest.display());
        let told = tool("cargo", &[&asked[..], &[&manifest]].concat());
        let told: serde_json::Value = serde_json::from_str(&told).expect("cargo prints JSON");
        let packages = told["packages"].as_array().expect("it lists packages");
        let crate_of = packages.iter().find(|package| package["name"] == "libmimalloc-sys");
        let manifest = crate_of.and_then(|package| package["manifest_path"].as_str());
        let sources =
            Path::new(manifest.expect("it is one of them")).with_file_name("c_src/mimalloc/v2");
        let object = target_directory().join("hostile/mimalloc.o");
        let [include, source] = ["include", "src/static.c"].map(|name| sources.join(name));
        let mut arguments = ["-O2", "-g", "-c", "-DNDEBUG", "-DMI_MALLOC_OVERRIDE", "-I"]
            .map(PathBuf::from)
            .to_vec();
        arguments.extend([include, source, "-o".into(), object.clone()]);
        tool("gcc", &arguments);
        object.canonicalize().expect("it was just made")
    })
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

fn compile(
    program: &Program,
    source: &Path,
    output: &Path,
    flags: &[String],
) -> Result<(), String> {
    let changed = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    // A change of a directive, a header or a shared part counts as a change of everything.
    let shared = [directory(), directory().join("parts")];
    let parts = shared.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let newest = parts
        .map(|entry| entry.path())
        .filter(|path| {
            path.parent() != Some(&*directory()) || path.extension() == Some("h".as_ref())
        })
        .chain([source.to_owned(), program.source.clone()])
        .chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hostile/build.rs")])
        .filter_map(|path| changed(&path))
        .max();
    if changed(output).unwrap_or(SystemTime::UNIX_EPOCH)
        > newest.expect("the program's source exists")
    {
        return Ok(());
    }
    // Tests may build the same at the same time: each to a name of its own, then into place at once.
    let partial =
        output.with_extension(format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Relaxed)));
    let mut arguments: Vec<String> = Vec::new();
    let compiler = match source.extension().unwrap_or_default().to_str() {
        Some("rs") => {
            arguments.extend(["--edition=2024", "-Copt-level=1", "-g"].map(str::to_owned));
            "rustc"
        }
        kind => {
            arguments.extend(C_FLAGS.map(str::to_owned));
            if kind == Some("cc") { "g++" } else { "gcc" }
        }
    };
    arguments.extend([source, Path::new("-o"), &partial].map(|path| path.display().to_string()));
    arguments.extend_from_slice(flags);
    try_tool(compiler, &arguments)?;
    std::fs::rename(&partial, output).expect("the program can be moved into place");
    Ok(())
}

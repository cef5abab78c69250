//! Small programs compiled by the tests, and what binutils say about them.
#![allow(dead_code)]

pub mod dwarf;
pub mod elf;

use std::path::{Path, PathBuf};
use std::process::Command;

use ramson_symbols::{Binary, FileAddress, Options, Symbolized, Symbolizer};
use tempfile::TempDir;

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf, TempDir);

impl Folder {
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("ramson-symbols-").unwrap();
        Self(directory.path().to_owned(), directory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes `source` under `name` and returns its path.
    pub fn write(&self, name: &str, source: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, source).unwrap();
        path
    }

    /// Runs a command line, words split at spaces, in this folder.
    pub fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        let output = command.args(words).current_dir(&self.0).output().expect(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// C with an inlined call, a static function, an alias and an indirect function.
pub const C_SOURCE: &str = "\
#include <stdlib.h>
static volatile int sink;
static inline __attribute__((always_inline)) int inlined(int x) {
    sink = x;
    return sink * 3;
}
static __attribute__((noinline)) int hidden(int x) {
    sink = x + 1;
    return inlined(x) + 1;
}
__attribute__((noinline)) int visible(int x) {
    sink = x;
    return hidden(x) + sink;
}
int another_name(int) __attribute__((alias(\"visible\")));
static int chosen(int x) { sink = x; return x - sink; }
static void *resolve(void) { return (void *)chosen; }
int indirect(int) __attribute__((ifunc(\"resolve\")));
int main(int argc, char **argv) { (void)argv; return visible(argc) + indirect(argc); }
";

/// C++ with a template, a class, a namespace without name, a lambda, an operator.
pub const CPP_SOURCE: &str = "\
#include <string>
#include <vector>
static volatile int sink;
namespace outer {
template <typename T> __attribute__((noinline)) T twice(const T &x) { sink = 1; return x + x; }
struct Thing {
    std::vector<int> parts;
    __attribute__((noinline)) explicit Thing(int n) : parts(n) { sink = n; }
    __attribute__((noinline)) int operator[](std::string key) const { sink = 2; return parts[key.size()]; }
};
namespace { __attribute__((noinline)) int nameless(unsigned long x) { sink = (int)x; return sink; } }
}
static __attribute__((noinline)) int plain_static(const char *p) { sink = *p; return sink; }
int main(int argc, char **argv) {
    auto lambda = [argc](int x) __attribute__((noinline)) { sink = x; return argc + sink; };
    outer::Thing thing(argc + 4);
    return outer::twice(argc) + thing[\"a\"] + outer::nameless(argc) + lambda(argc) + plain_static(argv[0])
        + (int)outer::twice(std::string(\"x\")).size();
}
";

pub const RUST_SOURCE: &str = "\
mod inner {
    pub struct Holder<T>(pub T);
    impl<T: std::fmt::Debug> Holder<T> {
        #[inline(never)]
        pub fn shown(&self) -> String { format!(\"{:?}\", self.0) }
    }
}
#[inline(always)]
fn inlined(x: &str) -> usize { std::hint::black_box(x.len()) }
#[inline(never)]
fn outermost(x: &str) -> usize { inlined(x) + 1 }
fn main() {
    let text = inner::Holder(vec![1u8, 2]).shown();
    std::process::exit((outermost(&text) == 0) as i32);
}
";

/// The profile's view of the file at `path`.
pub fn binary(path: &Path, build_id: &str) -> Binary {
    Binary { path: path.to_str().unwrap().into(), build_id: build_id.into(), pid: None }
}

/// Build ID as binutils read it.
pub fn build_id(folder: &Folder, name: &str) -> String {
    let notes = folder.run(&format!("readelf -n {name}"));
    let line = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.unwrap_or_default().to_owned()
}

/// A function symbol by `nm`.
pub struct Symbol {
    pub address: u64,
    pub size: u64,
    pub name: String,
}

/// Sized function symbols of a file.
pub fn nm(folder: &Folder, arguments: &str) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    for line in folder.run(&format!("nm -S {arguments}")).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, size, kind, name] = words[..]
            && "tTwWi".contains(kind)
        {
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            let name = name.split('@').next().unwrap().to_owned();
            symbols.push(Symbol { address: number(address), size: number(size), name });
        }
    }
    symbols
}

/// `function` and `file:line` for each frame at `address`, by `addr2line -fiC`.
pub fn addr2line(folder: &Folder, name: &str, addresses: &[u64]) -> Vec<Vec<(String, String)>> {
    let arguments: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
    let output = folder.run(&format!("addr2line -afiC -e {name} {}", arguments.join(" ")));
    let mut all: Vec<Vec<(String, String)>> = Vec::new();
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let position = lines.next().unwrap().split(" (disc").next().unwrap();
        all.last_mut().unwrap().push((line.to_owned(), position.to_owned()));
    }
    all
}

/// One question without a cache and without debug folders.
pub fn symbolize(binary: &Binary, addresses: &[u64]) -> Symbolized {
    Symbolizer::new(Options::default()).symbolize(binary, &file_addresses(addresses))
}

pub fn file_addresses(addresses: &[u64]) -> Vec<FileAddress> {
    addresses.iter().copied().map(FileAddress).collect()
}

/// The functions of each address, innermost first.
pub fn functions(symbolized: &Symbolized) -> Vec<Vec<String>> {
    let of = |frames: &Vec<ramson_symbols::Frame>| {
        frames.iter().map(|frame| frame.function.to_string()).collect()
    };
    symbolized.frames.iter().map(of).collect()
}

/// CPU time of this thread: a busy machine does not add to it.
pub fn own_cpu_ns() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    status.split(' ').next().unwrap().parse().unwrap()
}

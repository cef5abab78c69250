//! Answers kept from run to run.

use std::path::PathBuf;

use crate::support::*;
use ramson_symbols::{Binary, Options, SymbolSource, Symbolized, Symbolizer};

struct Setup {
    folder: Folder,
    binary: Binary,
    addresses: Vec<u64>,
}

impl Setup {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("a.c", C_SOURCE);
        folder.run("gcc -g -O2 -Wl,--build-id a.c -o a");
        let symbols = nm(&folder, "a");
        let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
        let addresses = (hidden.address..hidden.address + hidden.size).collect();
        let binary = binary(&folder.path("a"), &build_id(&folder, "a"));
        Self { folder, binary, addresses }
    }

    fn ask(&self) -> Symbolized {
        let debug_paths = vec![self.folder.path("debug")];
        let options = Options {
            debug_paths,
            cache_dir: Some(self.folder.path("cache")),
            ..Options::default()
        };
        Symbolizer::new(options).symbolize(&self.binary, &file_addresses(&self.addresses))
    }

    fn cache_file(&self) -> PathBuf {
        let mut files = std::fs::read_dir(self.folder.path("cache")).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none(), "one file, and no temporary one");
        file
    }
}

#[test]
fn answers_from_dwarf_outlive_the_binary() {
    let setup = Setup::new();
    let cold = setup.ask();
    assert!(cold.frames.iter().any(|frames| frames.len() == 2));
    setup.folder.run("rm a");
    let warm = setup.ask();
    assert_eq!((warm.frames, warm.source, warm.defect), (cold.frames, cold.source, None));
}

#[test]
fn damaged_cache_file_is_rewritten() {
    let setup = Setup::new();
    let cold = setup.ask();
    let content = std::fs::read(setup.cache_file()).unwrap();
    setup.folder.run("mv a elsewhere");
    let is_ignored = |damaged: &[u8]| {
        std::fs::write(setup.cache_file(), damaged).unwrap();
        setup.ask().frames.iter().all(Vec::is_empty)
    };
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(is_ignored(&damaged), "byte {at}");
        assert!(is_ignored(&content[..at]), "cut at {at}");
    }
    let longer = [&content[..], &[0]].concat();
    assert!(is_ignored(&longer));
    setup.folder.run("mv elsewhere a");
    assert_eq!(setup.ask().frames, cold.frames);
    setup.folder.run("rm a");
    assert_eq!(setup.ask().frames, cold.frames);
}

#[test]
fn debug_symbols_installed_later_are_seen() {
    let setup = Setup::new();
    let whole = setup.ask().frames;
    setup.folder.run("rm -r cache");
    setup.folder.run("cp a whole");
    setup.folder.run("strip -g a");
    let by_symbol = setup.ask();
    assert!(matches!(by_symbol.source, SymbolSource::Symtab));
    // Warm: the same answer, though the binary could not be read any more beyond its build ID.
    assert_eq!(setup.ask().frames, by_symbol.frames);
    let id = &setup.binary.build_id;
    setup.folder.run(&format!("mkdir -p debug/.build-id/{}", &id[..2]));
    let debug_file = format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    setup.folder.run(&format!("objcopy --only-keep-debug whole {debug_file}"));
    let with_lines = setup.ask();
    assert_eq!((&with_lines.frames, with_lines.defect), (&whole, None));
    // Removed again: what was learned from them stays.
    setup.folder.run(&format!("rm {debug_file}"));
    assert_eq!(setup.ask().frames, whole);
}

#[test]
fn installed_debug_symbols_are_seen() {
    let setup = Setup::new();
    let whole = setup.ask().frames;
    setup.folder.run("cp a whole");
    setup.folder.run("strip -g a");
    let debug_paths = vec![setup.folder.path("debug")];
    let mut symbolizer = Symbolizer::new(Options { debug_paths, ..Options::default() });
    let by_symbol = symbolizer.symbolize(&setup.binary, &file_addresses(&setup.addresses));
    assert!(matches!(by_symbol.source, SymbolSource::Symtab));
    setup.folder.run("mkdir debug");
    setup.folder.run("mv whole debug/a");
    assert_eq!(
        symbolizer.symbolize(&setup.binary, &file_addresses(&setup.addresses)).frames,
        whole
    );
}

#[test]
fn warm_lookup_reads_build_id_only() {
    let setup = Setup::new();
    let id = &setup.binary.build_id;
    setup.folder.run(&format!("mkdir -p debug/.build-id/{}", &id[..2]));
    let debug_file = format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    setup.folder.run(&format!("objcopy --only-keep-debug a {debug_file}"));
    setup.folder.run("strip a");
    let cold = setup.ask();
    let content = std::fs::read(setup.folder.path("a")).unwrap();
    std::fs::write(setup.folder.path("a"), &content[..2048]).unwrap();
    let warm = setup.ask();
    assert_eq!((warm.frames, warm.defect), (cold.frames, None));
}

#[test]
fn unidentified_answers_are_not_kept() {
    let mut setup = Setup::new();
    setup.binary.build_id.clear();
    assert!(!setup.ask().frames[0].is_empty());
    assert!(!setup.folder.path("cache").exists());
}

#[test]
fn concurrent_writers_leave_whole_file() {
    let setup = Setup::new();
    let expected = setup.ask().frames;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let _ = std::fs::remove_file(setup.folder.path("cache").join("none"));
                    let file = format!("{}.symbols", setup.binary.build_id);
                    let _ = std::fs::remove_file(setup.folder.path("cache").join(file));
                    assert_eq!(setup.ask().frames, expected);
                }
            });
        }
    });
    setup.folder.run("rm a");
    setup.ask();
    setup.cache_file();
}

#[test]
fn symbolizer_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Symbolizer>();
}

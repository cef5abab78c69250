//! Which source is used, and what is said about the missing ones.

use crate::support::*;
use ramson_symbols::SymbolDefect::BuildIdDiffers;
use ramson_symbols::{Binary, FileAddress, Options, SymbolDefect, SymbolSource, Symbolizer};

/// An address inside `hidden`, after its inlined call has begun.
fn inside(folder: &Folder, file: &str, name: &str) -> u64 {
    let symbols = nm(folder, file);
    let symbol = symbols.iter().find(|symbol| symbol.name == name).expect(name);
    symbol.address + symbol.size / 2
}

fn every_address(folder: &Folder, file: &str, names: &[&str]) -> Vec<u64> {
    let symbols = nm(folder, file);
    let wanted =
        symbols.iter().filter(|symbol| names.iter().any(|name| symbol.name.contains(name)));
    wanted.flat_map(|symbol| symbol.address..symbol.address + symbol.size).collect()
}

fn c_program(flags: &str) -> Folder {
    let folder = Folder::new();
    folder.write("a.c", C_SOURCE);
    folder.run(&format!("gcc -Wl,--build-id {flags} a.c -o a"));
    folder
}

fn same_as_addr2line(folder: &Folder, names: &[&str]) {
    let addresses = every_address(folder, "a", names);
    assert!(addresses.len() > 20);
    let symbolized = symbolize(&binary(&folder.path("a"), &build_id(folder, "a")), &addresses);
    assert!(matches!(symbolized.source, SymbolSource::Dwarf));
    assert_eq!(symbolized.defect, None);
    let expected = addr2line(folder, "a", &addresses);
    for ((address, ours), theirs) in addresses.iter().zip(&symbolized.frames).zip(&expected) {
        assert_eq!(ours.len(), theirs.len(), "{address:#x}: {ours:?} {theirs:?}");
        for (frame, (function, position)) in ours.iter().zip(theirs) {
            let bare = |name: &str| name.split('(').next().unwrap().to_owned();
            if let Some((path, _)) = frame.function.split_once("<…>") {
                assert!(function.contains(path), "{frame:?} {function}");
                continue;
            }
            assert!(
                bare(&frame.function).contains(&bare(function))
                    || function.contains("lambda")
                    || frame.function.contains("lambda"),
                "{address:#x}: {frame:?} {function}"
            );
            let line = if frame.line == 0 { "?".into() } else { frame.line.to_string() };
            let position = position.rsplit_once(':').unwrap();
            let file = frame.file.as_deref().unwrap_or("??").rsplit('/').next().unwrap().to_owned();
            assert_eq!(
                (position.0.rsplit('/').next().unwrap(), position.1),
                (&file[..], &line[..])
            );
        }
    }
}

#[test]
fn c_frames_agree_with_addr2line() {
    same_as_addr2line(&c_program("-g -O2"), &["visible", "hidden", "main", "chosen"]);
}

#[test]
fn every_dwarf_gives_the_same_frames() {
    for (version, compression) in
        [("4", "none"), ("5", "none"), ("5", "zlib"), ("5", "zlib-gnu"), ("5", "zstd")]
    {
        let folder = c_program(&format!("-O2 -gdwarf-{version}"));
        folder.run(&format!("objcopy --compress-debug-sections={compression} a"));
        same_as_addr2line(&folder, &["visible", "hidden", "main", "chosen"]);
    }
}

#[test]
fn cpp_functions_have_parameters() {
    let folder = Folder::new();
    folder.write("a.cc", CPP_SOURCE);
    folder.run("g++ -g -O1 -Wl,--build-id a.cc -o a");
    same_as_addr2line(&folder, &["twice", "Thing", "nameless", "plain_static"]);
    let symbols = nm(&folder, "a");
    let wanted = [
        ("twiceIi", "int outer::twice<int>(int const&)"),
        ("5ThingC2", "outer::Thing::Thing(int)"),
        ("nameless", "outer::(anonymous namespace)::nameless(unsigned long)"),
        ("plain_static", "plain_static(char const*)"),
        ("lambda", "main::{lambda(int)#1}::operator()(int) const"),
        ("ZNK5outer5Thingix", "outer::Thing::operator[](std::"),
    ];
    let binary = binary(&folder.path("a"), "");
    for (part, function) in wanted {
        let part = if part == "lambda" { "ENKUliE_clEi" } else { part };
        let symbol = symbols.iter().find(|symbol| symbol.name.contains(part)).expect(part);
        let symbolized = symbolize(&binary, &[symbol.address + symbol.size - 1]);
        let frame = symbolized.frames[0].last().unwrap();
        assert!(frame.function.starts_with(function), "{frame:?}");
        assert!(frame.system_name.starts_with("_Z"), "{frame:?}");
        // Without DWARF the names are the same.
        folder.run("strip -g a -o stripped");
        let by_symbol = symbolize(&identified(&folder, "stripped"), &[symbol.address]);
        assert_eq!(by_symbol.frames[0][0].function, frame.function);
    }
}

fn identified(folder: &Folder, name: &str) -> Binary {
    binary(&folder.path(name), &build_id(folder, name))
}

#[test]
fn rust_functions_have_no_hash() {
    for mangling in ["", "-C symbol-mangling-version=v0"] {
        let folder = Folder::new();
        folder.write("a.rs", RUST_SOURCE);
        folder.run(&format!("rustc -g -O {mangling} a.rs -o a"));
        let symbols = nm(&folder, "a");
        let shown = symbols.iter().find(|symbol| symbol.name.contains("shown")).unwrap();
        let outermost = symbols.iter().find(|symbol| symbol.name.contains("outermost")).unwrap();
        let addresses: Vec<u64> = (outermost.address..outermost.address + outermost.size).collect();
        let binary = binary(&folder.path("a"), "");
        let frame = symbolize(&binary, &[shown.address]).frames[0].last().unwrap().clone();
        let expected =
            ["a::inner::Holder<T>::shown", "<a::inner::Holder<alloc::vec::Vec<u8>>>::shown"];
        assert_eq!(&*frame.function, expected[usize::from(!mangling.is_empty())]);
        assert_eq!(&*frame.system_name, shown.name);
        let symbolized = symbolize(&binary, &addresses);
        let inlined = functions(&symbolized);
        let expected = vec!["a::inlined".to_owned(), "a::outermost".to_owned()];
        assert!(inlined.iter().any(|functions| functions.ends_with(&expected)), "{inlined:?}");
    }
}

#[test]
fn names_without_dwarf_agree_with_nm() {
    let folder = c_program("-O2 -s");
    folder.run("gcc -O2 -Wl,--build-id a.c -o a");
    let binary = identified(&folder, "a");
    let symbols = nm(&folder, "a");
    for symbol in &symbols {
        let range = [symbol.address, symbol.address + symbol.size - 1];
        let symbolized = symbolize(&binary, &range);
        let aliases = symbols.iter().filter(|other| other.address == symbol.address);
        let names: Vec<&str> = aliases.map(|alias| alias.name.as_str()).collect();
        for frames in &symbolized.frames {
            assert_eq!(frames.len(), 1, "{}", symbol.name);
            assert!(names.contains(&&*frames[0].function), "{names:?} {frames:?}");
            assert_eq!(frames[0].function, frames[0].system_name);
            assert_eq!((&frames[0].file, frames[0].line), (&None, 0));
        }
        assert!(matches!(symbolized.source, SymbolSource::Symtab));
        assert!(matches!(symbolized.defect, Some(SymbolDefect::NoLines { .. })));
    }
    assert!(symbols.iter().any(|symbol| symbol.name == "another_name"));
    assert!(symbolize(&binary, &[0, 1, u64::MAX]).frames.iter().all(Vec::is_empty));
}

#[test]
fn stripped_library_names_its_exports() {
    let folder = c_program("-O2 -g -shared -fPIC -Wl,--gc-sections");
    let exported = inside(&folder, "a", "visible");
    let hidden = inside(&folder, "a", "hidden");
    folder.run("strip a");
    let symbolized = symbolize(&identified(&folder, "a"), &[exported, hidden]);
    assert_eq!(functions(&symbolized), [vec!["visible".to_owned()], vec![]]);
    assert!(matches!(symbolized.source, SymbolSource::Dynsym));
    let text = symbolized.defect.unwrap().to_string();
    assert!(text.contains("--debuginfod or --debug-path"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn stripped_program_uses_debug_file() {
    let folder = c_program("-O2 -g");
    let address = inside(&folder, "a", "hidden");
    let whole = symbolize(&identified(&folder, "a"), &[address]);
    folder.run("cp a whole");
    folder.run("objcopy --only-keep-debug a a.debug");
    folder.run("strip a");
    let binary = identified(&folder, "a");
    let stripped = symbolize(&binary, &[address]);
    assert!(stripped.frames[0].is_empty());
    assert!(matches!(stripped.defect, Some(SymbolDefect::NoSymbols { .. })));

    // By build ID under a debug path.
    let id = binary.build_id.clone();
    folder.run(&format!("mkdir -p debug/.build-id/{}", &id[..2]));
    folder.run(&format!("cp a.debug debug/.build-id/{}/{}.debug", &id[..2], &id[2..]));
    let options = || Options { debug_paths: vec![folder.path("debug")], ..Options::default() };
    let symbolized = Symbolizer::new(options()).symbolize(&binary, &[FileAddress(address)]);
    assert_eq!(symbolized.frames, whole.frames);
    assert_eq!(symbolized.defect, None);

    // By build ID without the binary, or with another in its place.
    folder.run("mv a gone");
    let symbolized = Symbolizer::new(options()).symbolize(&binary, &[FileAddress(address)]);
    assert_eq!((symbolized.frames, symbolized.defect), (whole.frames.clone(), None));
    folder.run("gcc -O1 -Wl,--build-id a.c -o a");
    let symbolized = Symbolizer::new(options()).symbolize(&binary, &[FileAddress(address)]);
    assert_eq!(symbolized.frames, whole.frames);
    let Some(BuildIdDiffers { found, used, .. }) = symbolized.defect else { panic!() };
    assert_eq!(found, build_id(&folder, "a"));
    assert!(used.unwrap().ends_with(format!("{}.debug", &id[2..])));
    folder.run("mv gone a");

    // An unstripped copy of the same name.
    folder.run("mkdir copies");
    folder.run("mv whole copies/a");
    let options = Options { debug_paths: vec![folder.path("copies")], ..Options::default() };
    let symbolized = Symbolizer::new(options).symbolize(&binary, &[FileAddress(address)]);
    assert_eq!((symbolized.frames, symbolized.defect), (whole.frames, None));
}

#[test]
fn debug_link_needs_right_checksum() {
    for (place, has_build_id) in [(".", true), (".debug", true), (".debug", false)] {
        let folder = Folder::new();
        folder.write("a.c", C_SOURCE);
        let flag = if has_build_id { "" } else { "=none" };
        folder.run(&format!("gcc -O2 -g -Wl,--build-id{flag} a.c -o a"));
        let address = inside(&folder, "a", "hidden");
        let whole = symbolize(&identified(&folder, "a"), &[address]);
        assert_eq!(whole.frames[0].len(), 2);
        folder.run("objcopy --only-keep-debug a a.debug");
        folder.run("strip a");
        folder.run("objcopy --add-gnu-debuglink=a.debug a");
        folder.run(&format!("mkdir -p {place}"));
        if place != "." {
            folder.run(&format!("mv a.debug {place}/a.debug"));
        }
        let symbolized = symbolize(&identified(&folder, "a"), &[address]);
        assert_eq!((symbolized.frames, symbolized.defect), (whole.frames, None));
        // One more byte changes nothing but the checksum.
        let path = folder.path(place).join("a.debug");
        let mut content = std::fs::read(&path).unwrap();
        content.push(0);
        std::fs::write(&path, content).unwrap();
        assert!(symbolize(&identified(&folder, "a"), &[address]).frames[0].is_empty());
    }
}

#[test]
fn replaced_binary_is_not_used() {
    let folder = c_program("-O2 -g");
    let address = inside(&folder, "a", "visible");
    let old = identified(&folder, "a");
    folder.run("gcc -O1 -g -Wl,--build-id a.c -o a");
    let symbolized = symbolize(&old, &[address]);
    assert_eq!(symbolized.frames, [vec![]]);
    assert_eq!(symbolized.source, SymbolSource::None);
    let Some(BuildIdDiffers { wanted, found, used, .. }) = &symbolized.defect else {
        panic!("{:?}", symbolized.defect)
    };
    assert_eq!((wanted, found), (&old.build_id, &build_id(&folder, "a")));
    assert_eq!(*used, None);
    let text = symbolized.defect.unwrap().to_string();
    assert!(text.contains("replaced") && text.lines().count() == 1, "{text}");
    // The same with a build that has none.
    folder.run("gcc -O1 -g -Wl,--build-id=none a.c -o a");
    assert!(matches!(symbolize(&old, &[address]).defect, Some(BuildIdDiffers { .. })));
}

#[test]
fn missing_binary_has_no_names() {
    let symbolized =
        symbolize(&binary("/nowhere/libfoo.so.1".as_ref(), "abcdef012345678"), &[1, 2]);
    assert_eq!(symbolized.frames, [vec![], vec![]]);
    let text = symbolized.defect.unwrap().to_string();
    assert!(text.contains("libfoo.so"), "{text}");
    let symbolized = symbolize(&binary("[vdso]".as_ref(), ""), &[1, 2]);
    assert_eq!((symbolized.frames.len(), symbolized.defect), (2, None));
    // Names that are no file names reach no file.
    for build_id in ["../../etc", "zz", "é", "a", ""] {
        let path = if build_id.is_empty() { "" } else { "/nowhere/é" };
        assert!(symbolize(&binary(path.as_ref(), build_id), &[1]).frames[0].is_empty());
    }
}

#[test]
fn dwz_supplement_is_used_and_missed() {
    let folder = Folder::new();
    folder.write("a.cc", CPP_SOURCE);
    folder.write("b.cc", &CPP_SOURCE.replace("argc + 4", "argc + 5"));
    for name in ["a", "b"] {
        folder.run(&format!("g++ -gdwarf-4 -O2 -Wl,--build-id {name}.cc -o {name}"));
    }
    let addresses = every_address(&folder, "a", &["twice", "Thing", "nameless", "main"]);
    let whole = symbolize(&identified(&folder, "a"), &addresses);
    folder.run("dwz -m common.dwz -M common.dwz a b");
    assert!(folder.run("readelf -SW a").contains(".gnu_debugaltlink"));
    let split = symbolize(&identified(&folder, "a"), &addresses);
    assert_eq!((&split.frames, split.defect), (&whole.frames, None));
    folder.run("rm common.dwz");
    let cut = symbolize(&identified(&folder, "a"), &addresses);
    assert!(matches!(cut.defect, Some(SymbolDefect::SupplementMissing { .. })), "{:?}", cut.defect);
}

#[test]
fn split_dwarf_is_found_and_missed() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let folder = Folder::new();
        folder.write("a.c", C_SOURCE);
        folder.run(&format!("gcc -O2 {version} -gsplit-dwarf -Wl,--build-id -c a.c -o a.o"));
        folder.run("gcc -O2 -Wl,--build-id a.o -o a");
        let address = inside(&folder, "a", "hidden");
        let beside = symbolize(&identified(&folder, "a"), &[address]);
        let expected = ["inlined".to_owned(), "hidden".to_owned()];
        assert_eq!((functions(&beside), beside.defect), (vec![expected.to_vec()], None));
        // Older packagers know version 4 only.
        if version == "-gdwarf-4" {
            folder.run("dwp -e a -o a.dwp");
            folder.run("rm a.dwo");
            let packaged = symbolize(&identified(&folder, "a"), &[address]);
            assert_eq!((&packaged.frames, packaged.defect), (&beside.frames, None));
            folder.run("rm a.dwp");
        } else {
            folder.run("rm a.dwo");
        }
        let missed = symbolize(&identified(&folder, "a"), &[address]);
        assert_eq!(functions(&missed), [["hidden".to_owned()]]);
        let text = missed.defect.unwrap().to_string();
        assert!(text.contains("a.dwo"), "{text}");
    }
}

#[test]
fn sparse_dwarf_is_reported() {
    let folder = Folder::new();
    folder.write("a.c", C_SOURCE);
    folder.write("b.c", "int with_lines(int x) { return x; }");
    folder.run("gcc -O2 -c a.c");
    folder.run("gcc -O2 -g -c b.c");
    folder.run("gcc -Wl,--build-id a.o b.o -o a");
    let addresses = ["with_lines", "hidden", "visible"].map(|name| inside(&folder, "a", name));
    let symbolized = symbolize(&identified(&folder, "a"), &addresses);
    assert!(symbolized.frames.iter().all(|frames| frames.len() == 1));
    let text = symbolized.defect.unwrap().to_string();
    assert!(text.contains("1 of 3"), "{text}");
    assert_eq!(symbolize(&identified(&folder, "a"), &addresses[..1]).defect, None);
}

/// Nested functions, a gap that belongs to nobody, a label inside a function, and one without a size outside.
const ASSEMBLY: &str = "\
.text
.globl outer, inner, label_inside, label, after
.type outer, @function
.type inner, @function
.type after, @function
outer: .skip 16, 0x90
inner: .skip 8, 0x90
.size inner, . - inner
label_inside: .skip 40, 0x90
.size outer, . - outer
.skip 32, 0x90
label: .skip 16, 0x90
after: .skip 8, 0x90
.size after, . - after
last: .skip 8, 0x90
";

#[test]
fn symbol_names_its_own_range() {
    let folder = Folder::new();
    folder.write("a.s", ASSEMBLY);
    folder.run("gcc -shared -nostdlib -Wl,--build-id a.s -o a");
    let start = nm(&folder, "a").iter().find(|symbol| symbol.name == "outer").unwrap().address;
    for (offset, name) in [
        (0, "outer"),
        (15, "outer"),
        (16, "inner"),
        (23, "inner"),
        (24, "outer"),
        (63, "outer"),
        (64, ""),
        (95, ""),
        (96, "label"),
        (111, "label"),
        (112, "after"),
        (119, "after"),
        (120, "last"),
        (127, "last"),
        (128, ""),
        (4096, ""),
    ] {
        let symbolized = symbolize(&identified(&folder, "a"), &[start + offset]);
        let expected: Vec<String> =
            [name].iter().filter(|n| !n.is_empty()).map(|n| n.to_string()).collect();
        assert_eq!(functions(&symbolized), [expected], "offset {offset}");
    }
}

//! Properties of libramson.so: its fast paths, what it exports, and what it asks of the program that it is loaded into.

use ramson_tests::attaching::told;
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use ramson_tests::{golden, library, preload, program, tool};
use std::fmt::Write;

/// Compares with a reviewed file; `UPDATE_GOLDEN=1` rewrites it.
#[track_caller]
fn assert_golden(name: &str, found: &str) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{name} has changed. If that is meant, run the test with UPDATE_GOLDEN=1 and review the difference.\n\
         --- expected\n{expected}\n--- found\n{found}"
    );
}

fn readelf(option: &str) -> String {
    tool("readelf", &["-W".as_ref(), option.as_ref(), library().as_os_str()])
}

/// The instructions of a function without addresses, hashes and padding.
fn disassembly(symbol: &str) -> Vec<String> {
    let option = format!("--disassemble={symbol}");
    let options = ["-M", "intel", "--no-show-raw-insn", &option].map(std::ffi::OsString::from);
    let text = tool("objdump", &[&options[..], &[library().into()]].concat());
    let instructions: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once(":\t"))
        .map(|(_, instruction)| normalised(instruction))
        .filter(|instruction| instruction != "int3" && !instruction.starts_with("nop"))
        .collect();
    assert!(!instructions.is_empty(), "{symbol} is not in the library");
    instructions
}

/// `jb 50c0 <…11calloc_slow17h5ca2E>` becomes `jb calloc_slow`; what is relative to rip becomes its name.
fn normalised(instruction: &str) -> String {
    let (code, comment) = instruction.split_once('#').unwrap_or((instruction, ""));
    let mut words: Vec<String> = code.split_whitespace().map(str::to_owned).collect();
    let target = |text: &str| {
        let symbol = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        symbol.map(|(symbol, _)| plain_name(symbol))
    };
    if let Some(name) = target(code) {
        words.truncate(1);
        words.push(name);
    }
    let code = words.join(" ");
    match (code.find("[rip+"), target(comment)) {
        (Some(start), Some(name)) => format!("{}[{name}]", &code[..start]),
        _ => code,
    }
}

/// The last two parts of a mangled name. The thread-local offset lies in the global offset table, which has no name.
fn plain_name(symbol: &str) -> String {
    if symbol.starts_with("_DYNAMIC") || symbol.starts_with("_GLOBAL_OFFSET_TABLE_") {
        return "got".to_owned();
    }
    let mut rest = symbol.strip_prefix("_ZN").unwrap_or("");
    let mut parts = Vec::new();
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0) {
        let length: usize = rest[..end].parse().unwrap_or(0);
        let name = &rest[end..end + length];
        let is_hash = name.len() == 17 && name.starts_with('h');
        parts.extend((!is_hash).then_some(name));
        rest = &rest[end + length..];
    }
    match &parts[..] {
        [.., module, name] => format!("{module}::{name}"),
        // Within the function itself the offset is what tells.
        _ => symbol.to_owned(),
    }
}

#[test]
fn every_instruction_has_unwind_tables() {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let sections = readelf("--sections");
    let code = |line: &&str| line.contains(" AX ");
    let lines: Vec<&str> = sections.lines().filter(code).collect();
    let [line] = lines[..] else { panic!("code beside .text: {sections}") };
    let words: Vec<&str> = line.split(".text").nth(1).unwrap().split_whitespace().collect();
    let (start, end) = (hex(words[1]), hex(words[1]) + hex(words[3]));
    let frames = readelf("--debug-dump=frames");
    let mut ranges: Vec<(u64, u64)> = frames
        .lines()
        .filter_map(|line| line.split_once(" pc=")?.1.split_once(".."))
        .map(|(from, to)| (hex(from), hex(to)))
        .collect();
    ranges.sort_unstable();
    // Functions begin at multiples of 16: what lies between is padding.
    let reached = ranges.iter().fold(start, |reached, &(from, to)| {
        assert!(from < reached + 16, "nothing for {reached:x} to {from:x}");
        reached.max(to)
    });
    assert!(reached + 16 > end, "nothing for {reached:x} to {end:x}");
}

#[test]
fn fast_paths_match_reviewed_instructions() {
    let mut found = String::new();
    for symbol in ["malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv", "mmap", "munmap"] {
        writeln!(found, "{symbol}:").expect("a String takes everything");
        for instruction in disassembly(symbol) {
            writeln!(found, "    {instruction}").expect("a String takes everything");
        }
    }
    assert_golden("fast_path.txt", &found);
}

#[test]
fn malloc_free_pair_takes_eleven_instructions() {
    let (malloc, free) = (disassembly("malloc"), disassembly("free"));
    assert!(malloc.len() + free.len() <= 11, "{malloc:#?} {free:#?}");
    // All of them are executed: neither calls, and each leaves by its last instruction only.
    for instruction in malloc.iter().chain(&free) {
        assert!(
            !instruction.starts_with("call") && !instruction.starts_with("lock"),
            "{instruction}"
        );
    }
}

#[test]
fn foreign_munmap_takes_twenty_instructions() {
    assert!(disassembly("munmap").len() <= 20);
}

#[test]
fn exports_match_the_reviewed_list() {
    let text = tool("nm", &["-D".as_ref(), "--defined-only".as_ref(), library().as_os_str()]);
    let mut exported: Vec<_> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    assert_golden("exported_symbols.txt", &(exported.join("\n") + "\n"));
}

#[test]
fn only_weak_loader_symbols_are_imported() {
    let text = tool("nm", &["-D".as_ref(), "--undefined-only".as_ref(), library().as_os_str()]);
    let mut imported: Vec<_> = text.lines().map(str::trim).collect();
    imported.sort_unstable();
    // The second is musl's, the others are glibc's.
    let expected = ["w __libc_stack_end", "w _dl_debug_addr", "w _dl_find_object", "w _r_debug"];
    assert_eq!(imported, expected);
}

#[test]
fn no_library_is_needed() {
    let dynamic = readelf("-d");
    assert!(!dynamic.contains("(NEEDED)"), "{dynamic}");
    assert!(dynamic.contains("Library soname: [libramson.so]"), "{dynamic}");
}

#[test]
fn tls_is_initial_exec_and_small() {
    let dynamic = readelf("-d");
    assert!(dynamic.contains("STATIC_TLS"), "{dynamic}");
    let relocations = readelf("-r");
    let count = |kind: &str| relocations.matches(kind).count();
    assert_eq!(count("R_X86_64_TPOFF64"), 1, "{relocations}");
    assert_eq!(count("R_X86_64_DTPMOD64") + count("R_X86_64_TLSDESC"), 0, "{relocations}");
    let segments = readelf("-l");
    let tls =
        segments.lines().find(|line| line.trim_start().starts_with("TLS ")).expect("a TLS segment");
    let size = tls.split_whitespace().nth(5).and_then(|word| word.strip_prefix("0x"));
    let size = u64::from_str_radix(size.expect("a size"), 16).expect("a hexadecimal size");
    assert!(size <= 128, "{size} bytes of static TLS");
}

#[test]
fn no_page_is_writable_and_executable() {
    let segments = readelf("-l");
    let stack =
        segments.lines().find(|line| line.contains("GNU_STACK")).expect("a GNU_STACK header");
    assert!(stack.contains("RW ") && !stack.contains("RWE"), "{stack}");
    assert!(
        !segments.lines().any(|line| line.contains("LOAD") && line.contains("RWE")),
        "{segments}"
    );
    assert!(segments.contains("GNU_RELRO"), "{segments}");
    let dynamic = readelf("-d");
    assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
    assert!(dynamic.contains("BIND_NOW"), "{dynamic}");
}

#[test]
fn hidden_pages_contain_no_code() {
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let table = readelf("-S")
        .lines()
        .find_map(|line| line.split_once(" .dynsym ").map(|(_, rest)| rest.to_owned()));
    let table: Vec<_> =
        table.as_deref().expect("a .dynsym").split_whitespace().map(str::to_owned).collect();
    let symbols = (number(&table[1]), number(&table[1]) + number(&table[3]));
    // Behind the ELF header.
    let headers = (0, 4096);
    let segments = readelf("-l");
    let loads = segments.lines().filter(|line| line.trim_start().starts_with("LOAD "));
    let holds_code = loads.filter(|line| line.contains("R E")).any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (low, high) = (number(words[2]) & !4095, number(words[2]) + number(words[5]));
        [symbols, headers].iter().any(|&(start, end)| low < end && start < high)
    });
    assert!(!holds_code, "{segments}");
}

#[test]
fn only_realloc_can_be_interposed() {
    // reallocarray is realloc of the product; a second interposer's realloc is welcome to it.
    let relocations = readelf("-r");
    let slots: Vec<_> =
        relocations.lines().filter(|line| line.contains("R_X86_64_JUMP_SLOT")).collect();
    assert!(slots.iter().all(|slot| slot.contains(" realloc ")), "{slots:?}");
}

#[test]
fn panic_brings_no_formatting() {
    let symbols = tool("nm", &["-C".as_ref(), library().as_os_str()]);
    for absent in ["core::fmt::", "core::str::", "rust_eh_personality", "_Unwind", "rust_alloc"] {
        assert!(!symbols.contains(absent), "{absent} is in the library");
    }
}

#[test]
fn collector_scan_finds_no_ramson_data() {
    let scratch = Scratch::new();
    let assert_finds_nothing = |talking: &mut Talking| {
        talking.tell("");
        let found = ["loaded", "scanned", "missed"].map(|what| talking.expect(what));
        assert_eq!(found, [1, 0, 0]);
    };
    let mut command = clean(program("scanned.c"));
    let mut preloaded =
        Talking::start(preload(&mut command, "1").env("RAMSON_DIR", scratch.path("profiles")));
    preloaded.expect("ready");
    assert_finds_nothing(&mut preloaded);
    let mut attached = Talking::start(&mut clean(program("scanned.c")));
    attached.expect("ready");
    told(&scratch, "attach", attached.pid(), &[]);
    assert_finds_nothing(&mut attached);
}

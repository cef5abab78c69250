//! Files that are cut, damaged or made to harm.

#[path = "symbols/support/mod.rs"]
mod support;

use ramson_symbols::{SymbolDefect, demangle};
use support::*;

fn small_program() -> (Folder, Vec<u64>, String) {
    let folder = Folder::new();
    folder.write("a.c", C_SOURCE);
    folder.run("gcc -g -O2 -nostartfiles -shared -fPIC -Wl,--build-id a.c -o a");
    let symbols = nm(&folder, "a");
    let addresses =
        symbols.iter().flat_map(|symbol| [symbol.address, symbol.address + 5]).collect();
    let id = build_id(&folder, "a");
    (folder, addresses, id)
}

#[test]
fn cut_binary_never_panics() {
    let (folder, addresses, id) = small_program();
    let content = std::fs::read(folder.path("a")).unwrap();
    let sections_at = usize::from_le_bytes(content[40..48].try_into().unwrap());
    for end in (0..content.len()).step_by(41).chain(0..130) {
        std::fs::write(folder.path("cut"), &content[..end]).unwrap();
        for build_id in ["", &id] {
            let symbolized = symbolize(&binary(&folder.path("cut"), build_id), &addresses);
            assert_eq!(symbolized.frames.len(), addresses.len());
            let defect = symbolized.defect.unwrap_or_else(|| panic!("no defect at {end}"));
            if end <= sections_at && build_id.is_empty() {
                assert!(matches!(defect, SymbolDefect::Unreadable { .. }), "{end}: {defect}");
            }
            assert_eq!(defect.to_string().lines().count(), 1);
        }
    }
}

#[test]
fn damaged_binary_never_panics() {
    let (folder, addresses, _) = small_program();
    let content = std::fs::read(folder.path("a")).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..3000 {
        let mut damaged = content.clone();
        for _ in 0..1 + next(8) {
            // Half of the damage goes to where the tables and the debug sections are.
            let from = if round % 2 == 0 { 0 } else { content.len() * 3 / 4 };
            let at = from + next(content.len() - from);
            damaged[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        std::fs::write(folder.path("damaged"), &damaged).unwrap();
        let symbolized = symbolize(&binary(&folder.path("damaged"), ""), &addresses);
        assert_eq!(symbolized.frames.len(), addresses.len());
    }
}

#[test]
fn oversized_sections_are_a_defect() {
    let (folder, addresses, _) = small_program();
    let mut content = std::fs::read(folder.path("a")).unwrap();
    let number = |at: usize, bytes: usize| {
        content[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | byte as usize)
    };
    let (sections_at, count) = (number(40, 8), number(60, 2));
    let places = (0..count).map(|index| sections_at + index * 64);
    // Those of the debugger: at no address, and no tables of symbols or strings.
    let claims: Vec<_> =
        places.filter(|at| (number(at + 4, 4), number(at + 16, 8)) == (1, 0)).collect();
    assert!(claims.len() > 3);
    for at in claims {
        content[at + 32..at + 40].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    }
    std::fs::write(folder.path("claims"), &content).unwrap();
    let symbolized = symbolize(&binary(&folder.path("claims"), ""), &addresses);
    assert!(symbolized.frames.iter().any(|frames| !frames.is_empty()), "the symbols are there");
    let defect = symbolized.defect.expect("no lines");
    assert_eq!(defect.to_string().lines().count(), 1);
}

#[test]
fn special_files_are_unreadable() {
    let folder = Folder::new();
    folder.run("mkfifo a");
    let defect = symbolize(&binary(&folder.path("a"), ""), &[1]).defect;
    assert!(matches!(defect, Some(SymbolDefect::Unreadable { .. })));
    let defect = symbolize(&binary(&folder.0, ""), &[1]).defect;
    assert!(matches!(defect, Some(SymbolDefect::Unreadable { .. })));
    folder.write(
        "text",
        "not a program, though longer than an ELF header would have to be, if it were one",
    );
    let defect = symbolize(&binary(&folder.path("text"), ""), &[1]).defect.unwrap();
    assert!(defect.to_string().contains("not an ELF file"), "{defect}");
}

#[test]
fn hostile_names_cost_little() {
    let mut names = vec![
        format!("_Z{}", "N".repeat(10_000)),
        format!("_ZN{}", "1a".repeat(5_000)),
        format!("_Z1f{}", "P".repeat(16_000)),
        format!("_R{}", "NvC".repeat(5_000)),
        format!("_RINvC1a1b{}", "T".repeat(8_000)),
        format!("_Z{}", "x".repeat(1 << 20)),
        "_ZN".into(),
        "_R".into(),
        "_".into(),
        String::new(),
        "_Zé".into(),
    ];
    // Each substitution doubles the one before it.
    let mut doubling = "_Z1fP1aSt4pairIS_S_E".to_owned();
    for index in 0..30u32 {
        let id = char::from_digit(index, 36).unwrap().to_ascii_uppercase();
        doubling += &format!("St4pairIS{id}_S{id}_E");
    }
    names.push(doubling);
    let start_ns = own_cpu_ns();
    for name in &names {
        if let Some(text) = demangle(name) {
            assert!(text.len() <= 16 << 10);
        }
    }
    let used_ns = own_cpu_ns() - start_ns;
    assert!(used_ns < 5_000_000_000, "{used_ns} ns");
}

#[test]
fn names_demangle_by_their_scheme() {
    for (name, expected) in [
        ("_ZN3foo3barEi", Some("foo::bar(int)")),
        (
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            Some("std::vector<int, std::allocator<int> >::push_back(int const&)"),
        ),
        ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", Some("core::fmt::Formatter::pad")),
        ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
        ("_Z3foov.constprop.0", Some("foo() [clone .constprop.0]")),
        ("_ZSt10_ConstructIiJEEvPT_DpOT0_", Some("void std::_Construct<int>(int*)")),
        ("_Z1fIJEEvDpOT_", Some("void f<>()")),
        ("_Z1fOFviE", Some("f(void (&&)(int))")),
        ("_ZN12_GLOBAL__N_1L1fEi", Some("(anonymous namespace)::f(int)")),
        ("_ZN1AILj16ELb1ELln3EE1gEv", Some("A<16, true, -3>::g()")),
        (
            "_ZSt9__fill_a1IPiiEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_",
            Some("std::__fill_a1<…>(…)"),
        ),
        ("_ZN3FooIXsrSt1aIT_E1bEE3barEv", Some("Foo<…>…")),
        ("_Z", None),
        ("_Z3fo", None),
        ("_ZN99999999999999999999999f", None),
        ("main", None),
        ("_start", None),
        ("_Read_file", None),
        ("malloc", None),
    ] {
        assert_eq!(demangle(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn defect_is_one_line() {
    let defect = ramson_symbols::SymbolDefect::SupplementMissing {
        path: "/x".into(),
        supplement: "a\nramson: all is well\u{1b}[2J.dwo".into(),
        build_id: String::new(),
    };
    let line = defect.to_string();
    assert!(line.contains("a\u{fffd}ramson: all is well\u{fffd}[2J.dwo"), "{line}");
    assert!(!line.contains(char::is_control), "{line:?}");
}

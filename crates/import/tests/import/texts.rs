//! Texts of jemalloc and gperftools that are not as the allocator alone wrote them: symbolized, with messages before them, without
//! samples, one after the other.

use crate::{golden, read, stacks, total};
use ramson_import::{DropFrames, Format, ImportDefect, ImportError};
use ramson_profile::SampleType::{AllocSpace, InuseObjects, InuseSpace};

/// 8 MiB of `decode`, 4 MiB of `Cart::push` in `load`.
const DUMP: &str = "heap_v2/524288\n  t*: 3: 12582912 [0: 0]\n@ 0x402000 0x404000\n  t*: 2: 8388608 [0: 0]\n\
    @ 0x403000 0x404000\n  t*: 1: 4194304 [0: 0]\n\nMAPPED_LIBRARIES:\n\
    00400000-00410000 r-xp 00000000 08:01 42 /srv/bin/shop\n";
const SYMBOLS: &str = "--- symbol\nbinary=/srv/bin/shop\n0x0000000000402000 shop::images::decode\n\
    0x0000000000403000 shop::orders::load--shop::orders::Cart::push\n0x0000000000403fff main\n---\n--- heap\n";
/// As gperftools writes it.
const WARNING: &str = "%warn\n%warn This heap profile does not have any data in it, because\n\
    %warn the application was run with heap sampling turned off.\n%warn\n";

#[test]
fn symbolized_dumps_have_their_names() {
    for interval in ["", "0x10 ?? \n"] {
        let file = format!(
            "{}{DUMP}",
            SYMBOLS.replace("0x0000000000402000", &format!("{interval}0x402000"))
        );
        let imported = read(file.as_bytes()).unwrap();
        assert_eq!((imported.format, &*imported.profile.command), (Format::Jemalloc, "shop"));
        assert_eq!(imported.defects, []);
        let names: Vec<Vec<String>> =
            stacks(&imported).into_iter().map(|(names, _)| names).collect();
        let pushed = ["shop::orders::Cart::push", "shop::orders::load", "main"];
        assert_eq!(names, [vec!["shop::images::decode", "main"], pushed.to_vec()]);
        assert!((total(&imported, InuseSpace) - 12_582_912.0).abs() < 20_000.0);
    }
}

#[test]
fn a_leaf_s_return_address_may_be_one_less() {
    let symbols = SYMBOLS.replace("402000", "401fff").replace("403000", "402fff");
    let imported = read(format!("{symbols}{DUMP}").as_bytes()).unwrap();
    assert_eq!(stacks(&imported)[0].0, ["shop::images::decode", "main"]);
}

#[test]
fn symbolized_gperftools_text_has_names() {
    let text = "heap profile: 2: 64 [ 2: 64] @ heapprofile\n 2: 64 [ 2: 64] @ 0x402000 0x404000\n";
    let imported = read(format!("{SYMBOLS}{text}").as_bytes()).unwrap();
    assert_eq!(imported.format, Format::Gperftools);
    assert_eq!(stacks(&imported)[0].0, ["shop::images::decode", "main"]);
    let cpu = read(b"--- symbol\nbinary=/srv/a\n0x1 a\n---\n--- profile\n\0\0\0\0\0\0\0\0\x03");
    assert!(matches!(cpu, Err(ImportError::Unrecognized(_))), "{cpu:?}");
}

#[test]
fn messages_before_are_skipped() {
    let messages = "<jemalloc>: Leak approximation summary: ~12582912 bytes\n\nRun jeprof\n";
    for (text, format) in [
        (DUMP.to_owned(), Format::Jemalloc),
        (String::from_utf8(golden("gperftools.heap")).unwrap(), Format::Gperftools),
    ] {
        let plain = read(text.as_bytes()).unwrap();
        let imported = read(format!("{messages}{text}").as_bytes()).unwrap();
        assert_eq!(imported.format, format);
        assert_eq!(imported.defects, []);
        assert_eq!(format!("{:?}", imported.profile), format!("{:?}", plain.profile));
    }
}

#[test]
fn stacks_that_are_missing_are_said() {
    let text = "heap profile: 9: 1000000 [ 9: 2000000] @ heapprofile\n\
        1: 400000 [ 1: 400000] @ 0x402000\n\nMAPPED_LIBRARIES:\n";
    let missing = ImportDefect::StacksMissing { bytes: 400_000, of: 1_000_000 };
    assert_eq!(read(text.as_bytes()).unwrap().defects, std::slice::from_ref(&missing));
    assert!(missing.to_string().contains("391 KiB of 977 KiB"), "{missing}");
    let whole = text.replace("1000000", "400000").replace("2000000", "400000");
    assert_eq!(read(whole.as_bytes()).unwrap().defects, []);
}

#[test]
fn statistics_of_clickhouse_are_no_damage() {
    let stack = "@ 0x402000\n  t*: 1: 4096 [0: 0]\n  f: 745816422 13081927 13082624 75 0 8\n  frag_util: 1\n";
    let text = format!("heap_v2/1\n  t*: 1: 4096 [0: 0]\n{stack}\nMAPPED_LIBRARIES:\n");
    assert_eq!(read(text.as_bytes()).unwrap().defects, []);
}

#[test]
fn go_text_loses_frames_of_its_allocator() {
    let text = "heap profile: 1: 64 [1: 64] @ heap/2\n1: 64 [1: 64] @ 0x402000\n";
    let DropFrames::Named { drop, keep: None } = read(text.as_bytes()).unwrap().drop_frames else {
        panic!("an expression");
    };
    for name in [
        "runtime.mallocgc",
        "runtime.mallocgcSmallScanNoHeader",
        "runtime.makeslice",
        "runtime.mapassign_faststr",
    ] {
        assert!(drop.is_match(name), "{name}");
    }
    for name in ["runtime.main", "runtime.malg", "main.grow", "runtime.goexit"] {
        assert!(!drop.is_match(name), "{name}");
    }
}

#[test]
fn an_empty_dump_says_why() {
    let empty = "heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n";
    assert_eq!(read(empty.as_bytes()).unwrap().defects, [ImportDefect::NoSamples]);
    let gperftools = "heap profile: 0: 0 [ 0: 0] @ heap_v2/65536\n\nMAPPED_LIBRARIES:\n";
    assert_eq!(read(gperftools.as_bytes()).unwrap().defects, [ImportDefect::NoSamples]);
    for cut in ["heap_v2/524288\n", "heap_v2/524288\n  t*: 3: 12582912 [0: 0]\n"] {
        let read = read(cut.as_bytes());
        assert!(matches!(read, Err(ImportError::Nothing(Some(ImportDefect::Cut)))), "{read:?}");
    }
}

#[test]
fn sampling_that_was_off_is_said() {
    let zero = "heap profile:      0:        0 [     0:        0] @ heap_v2/0\n";
    for text in [zero.to_owned(), format!("{WARNING}{zero}"), WARNING.to_owned()] {
        match read(text.as_bytes()) {
            Err(ImportError::SamplingOff(remedy)) => {
                assert!(remedy.contains("TCMALLOC_SAMPLE_PARAMETER"))
            }
            other => panic!("{other:?}"),
        }
    }
    let go = read(b"heap profile: 0: 0 [0: 0] @ heap/0\n\n# runtime.MemStats\n");
    assert!(
        matches!(go, Err(ImportError::SamplingOff(remedy)) if remedy.contains("MemProfileRate"))
    );
    // Records show that something was sampled.
    let some = format!("{zero} 2: 64 [ 2: 64] @ 0x402000\n");
    assert!(read(some.as_bytes()).unwrap().defects.contains(&ImportDefect::NoInterval));
}

#[test]
fn growth_is_not_live() {
    let text = "heap profile: 2: 3145728 [ 2: 3145728] @ growthz\n\
        1: 1048576 [ 1: 1048576] @ 0x402000\n 1: 2097152 [ 1: 2097152] @ 0x403000\n\nMAPPED_LIBRARIES:\n";
    for text in [text.to_owned(), text.replace("growthz", "growth")] {
        let imported = read(text.as_bytes()).unwrap();
        assert_eq!(imported.default_sample_type, AllocSpace);
        assert_eq!(imported.defects, [ImportDefect::Growth]);
        assert_eq!(total(&imported, AllocSpace), 3_145_728.0);
        assert!(total(&imported, InuseSpace).is_nan() && total(&imported, InuseObjects).is_nan());
    }
    let other = text.replace("growthz", "fragmentationz");
    assert!(matches!(read(other.as_bytes()), Err(ImportError::OtherKind(_))));
}

#[test]
fn dumps_one_after_the_other_are_refused() {
    let growth = "heap profile: 0: 0 [0: 0] @ growthz\n";
    let heaptrack = "v 10400 3\nX shop\n";
    for file in [
        format!("{DUMP}{DUMP}"),
        format!("{DUMP}{growth}"),
        "heap_v2/1\n  t*: 0: 0 [0: 0]\n".repeat(2),
        growth.repeat(2),
        heaptrack.repeat(2),
    ] {
        assert!(matches!(read(file.as_bytes()), Err(ImportError::Concatenated)), "{file}");
    }
}

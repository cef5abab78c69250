//! Allocators inside the executable or a library: each call counts once, at its caller, and the program is as it was.

use ramson_format::{AllocatorKind, MemberState, members};
use ramson_reader::{Allocator, Snapshot};
use ramson_tests::servers::{Scratch, clean, finish, installed, ramson_program};
use ramson_tests::{
    Finished, Run, STATIC_JEMALLOC, Site, library, not_here, program_with, shared_library, sites,
    tool,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

const TCMALLOC: [&str; 4] = ["-l:libtcmalloc_minimal.a", "-lstdc++", "-lm", "-lpthread"];

#[track_caller]
fn recorded(run: Run) -> (Finished, Snapshot) {
    let finished = run.env("RAMSON_INSIDE", "on").succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    (finished, snapshot)
}

#[track_caller]
fn only(snapshot: &Snapshot) -> &Allocator {
    let [allocator] = snapshot.allocators.as_slice() else { panic!("{:?}", snapshot.allocators) };
    allocator
}

/// What became of each function that is there.
fn states(allocator: &Allocator) -> BTreeMap<&'static str, MemberState> {
    let named = members::MEMBERS.iter().map(|member| member.name).zip(&allocator.states);
    let known = named.filter_map(|(name, &state)| Some((name, MemberState::of(state)?)));
    known.filter(|&(_, state)| state != MemberState::Absent).collect()
}

#[track_caller]
fn assert_sites(snapshot: &Snapshot, program: &Path, expected: &[(&str, Site)]) {
    let found = sites(snapshot, program);
    for (name, expected) in expected {
        assert_eq!(found.get(*name), Some(expected), "{name}; all sites: {found:#?}");
    }
}

#[track_caller]
fn assert_operators_count_once(name: &str, libraries: &[&str], kind: AllocatorKind) {
    let program = program_with("operators.cc", name, libraries);
    Run::new(&program).without("LD_PRELOAD").succeed();
    let (_, snapshot) = recorded(Run::new(&program));
    assert_eq!(only(&snapshot).kind, kind as u32);
    let operators: [(&str, u64); 14] = [
        ("site_new", 3001),
        ("site_new_sized", 3002),
        ("site_new_array", 3003),
        ("site_new_array_sized", 3004),
        ("site_new_nothrow", 3005),
        ("site_new_array_nothrow", 3006),
        ("site_new_aligned", 3072),
        ("site_new_array_aligned", 3200),
        ("site_new_aligned_sized", 3328),
        ("site_new_array_aligned_sized", 3456),
        ("site_new_aligned_nothrow", 3584),
        ("site_new_array_aligned_nothrow", 3712),
        ("site_malloc", 3013),
        ("site_new_expression", 3014),
    ];
    let expected = operators.map(|(name, size)| (name, Site::exactly(2, 1, size)));
    assert_sites(&snapshot, &program, &expected);
}

#[test]
fn operators_of_static_jemalloc_count_once() {
    assert_operators_count_once("operators_jemalloc", &STATIC_JEMALLOC, AllocatorKind::Jemalloc);
}

#[test]
fn operators_of_static_tcmalloc_count_once() {
    assert_operators_count_once("operators_tcmalloc", &TCMALLOC, AllocatorKind::Tcmalloc);
}

fn moved(from: u64, to: u64) -> Site {
    Site {
        alloc_objects: 4,
        alloc_bytes: 2 * (from + to),
        freed_objects: 3,
        freed_bytes: 2 * from + to,
        live_objects: 1,
        live_bytes: to,
        weighted_alloc_objects: 4.0,
        weighted_alloc_space: 2.0 * (from + to) as f64,
    }
}

#[test]
fn static_jemalloc_agrees_with_its_own_count() {
    let program = program_with("inside.c", "inside", &STATIC_JEMALLOC);
    let (finished, snapshot) = recorded(Run::new(&program));
    assert_sites(
        &snapshot,
        &program,
        &[
            ("site_malloc_call", Site::exactly(2, 1, 1001)),
            ("site_calloc_call", Site::exactly(2, 1, 1008)),
            ("site_aligned_call", Site::exactly(2, 1, 2048)),
            ("site_aligned_alloc_call", Site::exactly(2, 1, 4096)),
            ("site_memalign_call", Site::exactly(2, 1, 3000)),
            ("site_valloc_call", Site::exactly(2, 1, 8000)),
            ("site_mallocx_call", Site::exactly(2, 1, 6000)),
            ("site_sdallocx_call", Site::exactly(2, 1, 7000)),
            ("site_grown_by_x_call", moved(200, 11000)),
            ("site_freed_by_realloc_call", Site::exactly(2, 1, 14000)),
            ("site_failed_realloc_call", Site::exactly(1, 1, 15000)),
        ],
    );
    let hooked = states(only(&snapshot));
    for name in ["malloc", "free", "calloc", "realloc", "mallocx", "rallocx", "sdallocx"] {
        assert_eq!(hooked.get(name), Some(&MemberState::Hooked), "{name}");
    }
    // All of the start is before the program's own code but for what the C library allocates through its malloc.
    let roundings = ramson_reader::Roundings::of(&snapshot);
    let inside = snapshot.live.iter().filter(|live| live.family != 0);
    let live: u64 = inside.map(|live| roundings.usable_bytes(live)).sum();
    assert_eq!(live, finished.number("allocated"), "{:#?}", sites(&snapshot, &program));
}

#[test]
fn programs_are_as_they_were_without_hooks_inside() {
    let program = program_with("inside.c", "inside", &STATIC_JEMALLOC);
    let plain = Run::new(&program).without("LD_PRELOAD").succeed().stdout;
    assert_eq!(Run::new(&program).succeed().stdout, plain);
    assert_eq!(recorded(Run::new(&program)).0.stdout, plain);
    assert!(Run::new(&program).succeed().snapshot().allocators.is_empty());
}

#[test]
fn hooks_leave_every_register() {
    let program = program_with("registers.c", "registers", &[]);
    let plain = Run::new(&program).without("LD_PRELOAD").succeed().stdout;
    for interval in ["1", "4096", "1G"] {
        let run = Run::new(&program).env("RAMSON_INTERVAL", interval).env("RAMSON_INSIDE", "on");
        assert_eq!(run.succeed().stdout, plain, "interval {interval}");
    }
    let (_, snapshot) = recorded(Run::new(&program));
    let hooked = states(only(&snapshot));
    assert!(hooked.values().all(|&state| state == MemberState::Hooked), "{hooked:?}");
    // Four functions allocate, in 300 rounds; what printf takes goes through them, too.
    let samples = only(&snapshot).samples;
    assert!((1200..1204).contains(&samples), "{samples}");
}

#[test]
fn the_other_tcmalloc_has_its_name() {
    // No package has it. In make test-inside, workerd is the real one.
    let program = program_with("registers.c", "registers_google", &["-DGOOGLE_TCMALLOC"]);
    let (_, snapshot) = recorded(Run::new(&program));
    assert_eq!(only(&snapshot).kind, AllocatorKind::GoogleTcmalloc as u32);
    assert_eq!(only(&snapshot).hooked_name().unwrap(), "tcmalloc in the executable");
}

fn hidden_library() -> PathBuf {
    let options = ["-shared", "-fPIC", "-O2", "-foptimize-sibling-calls"];
    program_with("hidden.c", "libhidden.so", &options).canonicalize().unwrap()
}

#[test]
fn library_that_comes_later_is_hooked() {
    const ROUNDS: u64 = 40;
    let program = program_with("hides_one.c", "hides_one", &["-ldl"]);
    let library = hidden_library();
    let run = Run::new(&program).arg(ROUNDS.to_string()).arg(&library);
    let (_, snapshot) = recorded(run);
    let found = sites(&snapshot, &library);
    let all = &found["site_hidden"];
    assert_eq!((all.alloc_objects, all.freed_objects), (3 * ROUNDS, ROUNDS), "{found:#?}");
    assert_eq!(all.alloc_bytes, (5001 + 6003 + 7001) * ROUNDS);
    // One number, however often it comes back.
    assert_eq!(only(&snapshot).kind, AllocatorKind::Other as u32);
    assert!(only(&snapshot).path.ends_with("libhidden.so"));
}

#[test]
fn preloaded_allocators_are_no_inner_ones() {
    let program = program_with("operators.cc", "operators", &[]);
    for allocator in ["libjemalloc.so.2", "libtcmalloc.so.4", "libmimalloc.so.2"] {
        let (_, snapshot) = recorded(Run::new(&program).over(&shared_library(allocator)));
        assert!(snapshot.allocators.is_empty(), "{allocator}: {:?}", snapshot.allocators);
    }
}

#[test]
fn functions_that_lead_to_each_other_count_once() {
    let program = program_with("chained.c", "chained", &["-O1"]);
    let (finished, snapshot) = recorded(Run::new(&program));
    assert_eq!(finished.stdout, "abc 2016 2016 3\n");
    assert_sites(
        &snapshot,
        &program,
        &[
            ("site_malloc", Site::exactly(2, 1, 1001)),
            ("site_zalloc", Site::exactly(2, 1, 1002)),
            ("site_calloc", Site::exactly(2, 1, 1503)),
        ],
    );
    let hooked = states(only(&snapshot));
    assert_eq!(hooked["mi_zalloc"], MemberState::ShortJump);
    assert_eq!(hooked["mi_calloc"], MemberState::Hooked);
}

#[test]
fn allocator_whose_free_cannot_be_hooked_has_no_hooks() {
    let program = program_with("chained.c", "calls", &["-O1", "-DFREE_CALLS"]);
    let (finished, snapshot) = recorded(Run::new(&program));
    assert_eq!(finished.stdout, "abc 2016 2016 3\n");
    let hooked = states(only(&snapshot));
    assert_eq!(hooked["mi_free"], MemberState::FirstInstruction);
    assert_eq!(hooked["mi_malloc"], MemberState::WithoutFrees);
    assert_eq!(only(&snapshot).samples, 0);
}

#[test]
fn code_that_the_loader_changes_is_left_alone() {
    let options = ["-O1", "-DTEXT_RELOCATIONS", "-pie", "-fPIE", "-Wl,-z,notext"];
    let program = program_with("chained.c", "text_relocations", &options);
    let (finished, snapshot) = recorded(Run::new(&program));
    assert_eq!(finished.stdout, "abc 2016 2016 3\n");
    assert!(snapshot.allocators.is_empty(), "{:?}", snapshot.allocators);
}

#[test]
fn executable_at_a_fixed_address_is_hooked() {
    let options = ["-no-pie", "-fno-pie", "-l:libjemalloc.a", "-lstdc++", "-lm", "-lpthread"];
    let program = program_with("inside.c", "inside_fixed", &options);
    let (_, snapshot) = recorded(Run::new(&program));
    assert_sites(&snapshot, &program, &[("site_malloc_call", Site::exactly(2, 1, 1001))]);
}

/// `ramson run` of a program that is too small for a sample.
fn run_without_samples(program: &Path) -> Finished {
    let run = Run::new(ramson_program()).without("LD_PRELOAD").env("RAMSON_LIBRARY", library());
    run.arg("run").arg("--interval").arg("1G").arg("--").arg(program).succeed()
}

#[test]
fn allocator_without_names_is_named_at_the_end() {
    let hidden = ["-s", "-Wl,--exclude-libs,ALL"];
    let options: Vec<&str> = STATIC_JEMALLOC.iter().copied().chain(hidden).collect();
    let program = program_with("inside.c", "inside_stripped", &options);
    let told = run_without_samples(&program).stderr;
    assert!(told.contains("jemalloc is inside it, but not recorded: it was stripped"), "{told}");
    assert!(told.contains("or install its debug file under /usr/lib/debug"), "{told}");
}

const BUILD: &str = "0a9f1b2c3d4e5f60";

/// Makes a program whose allocator has names only in `names`, its debug file.
fn split_program(scratch: &Scratch, build_id: &str) -> (PathBuf, PathBuf) {
    let link_options = [&*format!("-Wl,--build-id=0x{build_id}"), "-Wl,--exclude-libs,ALL"];
    let options: Vec<&str> = STATIC_JEMALLOC.iter().copied().chain(link_options).collect();
    split(scratch, &program_with("inside.c", &format!("inside_{build_id}"), &options))
}

fn split(scratch: &Scratch, whole: &Path) -> (PathBuf, PathBuf) {
    let (stripped, names) = (scratch.path("stripped"), scratch.path("names"));
    tool("objcopy", &[Path::new("--only-keep-debug"), whole, &names]);
    let link = format!("--add-gnu-debuglink={}", names.display());
    tool("objcopy", &[Path::new("--strip-all"), Path::new(&link), whole, &stripped]);
    (stripped, names)
}

#[track_caller]
fn assert_is_named(run: Run) {
    let (finished, snapshot) = recorded(run);
    let allocator = only(&snapshot);
    assert_eq!(allocator.kind, AllocatorKind::Jemalloc as u32);
    assert_eq!(states(allocator)["mallocx"], MemberState::Hooked);
    let roundings = ramson_reader::Roundings::of(&snapshot);
    let inside = snapshot.live.iter().filter(|live| live.family != 0);
    let live: u64 = inside.map(|live| roundings.usable_bytes(live)).sum();
    assert_eq!(live, finished.number("allocated"));
}

#[track_caller]
fn assert_is_nameless(program: &Path) {
    let (_, snapshot) = recorded(Run::new(program));
    assert!(snapshot.allocators.is_empty(), "{:?}", snapshot.allocators);
}

#[test]
fn debug_file_beside_program_is_used() {
    let scratch = Scratch::new();
    let (program, names) = split_program(&scratch, BUILD);
    assert_is_named(Run::new(&program));
    let kept = scratch.path("kept");
    fs::rename(&names, &kept).unwrap();
    assert_is_nameless(&program);
    fs::create_dir(scratch.path(".debug")).unwrap();
    fs::copy(&kept, scratch.path(".debug/names")).unwrap();
    assert_is_named(Run::new(&program));
}

#[test]
fn debug_file_of_later_library_counts() {
    let scratch = Scratch::new();
    let (library, _) = split(&scratch, &hidden_library());
    let run = Run::new(program_with("hides_one.c", "hides_one", &["-ldl"])).arg("2");
    let (_, snapshot) = recorded(run.arg(&library));
    assert_eq!(only(&snapshot).path, library.to_str().unwrap());
    assert_eq!(only(&snapshot).samples, 2 * 3);
}

#[test]
fn other_builds_debug_file_is_refused() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (program, names) = split_program(&scratch, BUILD);
    fs::copy(split_program(&other, &BUILD.replace('0', "1")).1, &names).unwrap();
    assert_is_nameless(&program);
}

#[test]
fn other_users_debug_file_is_refused() {
    const NOBODY: u32 = 65534;
    let scratch = Scratch::new();
    let (program, names) = split_program(&scratch, BUILD);
    if chown(&names, Some(NOBODY), None).is_err() {
        return not_here("only root can give a file to another user");
    }
    assert_is_nameless(&program);
    chown(&program, Some(NOBODY), None).unwrap();
    assert_is_named(Run::new(&program));
}

#[test]
fn wrong_addresses_of_names_are_harmless() {
    let scratch = Scratch::new();
    let (program, names) = split_program(&scratch, BUILD);
    tool("objcopy", &[Path::new("--change-addresses=0x10000000"), &names]);
    assert_is_nameless(&program);
}

#[test]
fn pipe_as_debug_file_is_refused() {
    let scratch = Scratch::new();
    let (program, names) = split_program(&scratch, BUILD);
    fs::remove_file(&names).unwrap();
    tool("mkfifo", &[&names]);
    assert_is_nameless(&program);
}

#[test]
fn installed_debug_file_is_used() {
    let (by_id, rest) = BUILD.split_at(2);
    let by_path = |program: &Path| format!("{}/names", program.parent().unwrap().display());
    let by_id: &dyn Fn(&Path) -> String = &|_| format!("/.build-id/{by_id}/{rest}.debug");
    for place in [by_id, &by_path] {
        let scratch = Scratch::new();
        let (program, names) = split_program(&scratch, BUILD);
        let debug = scratch.path("debug");
        let place = format!("{}{}", debug.display(), place(&program));
        fs::create_dir_all(Path::new(&place).parent().unwrap()).unwrap();
        fs::rename(&names, &place).unwrap();
        let script = "mount --bind $1 /usr/lib/debug && LD_PRELOAD=$2 exec $0";
        let run = Run::new(installed("unshare", "util-linux")).without("LD_PRELOAD");
        let run = run.arg("--mount").arg("--map-root-user").arg("sh").arg("-c").arg(script);
        assert_is_named(run.arg(&program).arg(&debug).arg(library()));
    }
}

#[test]
fn allocator_without_samples_is_in_the_profile() {
    let finished = run_without_samples(&program_with("inside.c", "inside", &STATIC_JEMALLOC));
    assert!(!finished.stderr.contains("jemalloc"), "{}", finished.stderr);
    let file = File::open(&finished.profiles[0]).expect("the profile can be opened");
    let snapshot = Snapshot::read(&file).expect("the profile can be read");
    assert_eq!(states(only(&snapshot))["mallocx"], MemberState::Hooked);
}

#[test]
fn export_names_the_allocator_of_a_block() {
    let (finished, _) = recorded(Run::new(program_with("inside.c", "inside", &STATIC_JEMALLOC)));
    let scratch = Scratch::new();
    let file = scratch.path("inside.pb.gz");
    let mut export = Command::new(ramson_program());
    finish(export.args(["export", "-f", "pprof", "-o"]).arg(&file).arg(&finished.profiles[0]))
        .good();
    let mut tags = clean(installed("go", "golang-go"));
    let tags = finish(tags.args(["tool", "pprof", "-tags"]).arg(&file)).good().text();
    assert!(tags.contains("jemalloc in the executable"), "{tags}");
}

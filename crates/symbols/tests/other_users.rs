//! Files that another user put where root looks.

#[path = "symbols/support/mod.rs"]
mod support;

use ramson_paths::Owner;
use ramson_symbols::{
    Binary, NotedRoot, Options, SymbolDefect, SymbolSource, Symbolized, Symbolizer,
};
use std::os::unix::fs::chown;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::*;

/// Answer about the file at `path`, which has to come at once.
#[track_caller]
fn answer_at_once(path: &str) -> Symbolized {
    let asked = binary(path.as_ref(), "");
    let (answered, answer) = channel();
    std::thread::spawn(move || answered.send(symbolize(&asked, &[1])).unwrap());
    let answer = answer.recv_timeout(Duration::from_secs(5));
    answer.unwrap_or_else(|_| panic!("{path}: no answer"))
}

#[test]
fn pseudo_files_are_not_opened() {
    for path in ["/proc/kmsg", "/proc/self/maps", "/proc/version", "/sys/kernel/notes"] {
        if !std::path::Path::new(path).exists() {
            continue;
        }
        let defect = answer_at_once(path).defect;
        let Some(SymbolDefect::Unreadable { reason, .. }) = &defect else { panic!("{defect:?}") };
        assert!(reason.contains("a kernel file"), "{path}: {reason}");
    }
    // A path through a link of a process leads nowhere.
    let defect = answer_at_once("/proc/self/exe").defect;
    assert!(!matches!(defect, Some(SymbolDefect::NoSymbols { .. }) | None), "{defect:?}");
}

#[test]
fn devices_and_fifos_are_not_opened() {
    let folder = Folder::new();
    folder.run("mkfifo fifo");
    folder.run("ln -s /dev/zero zeroes");
    for name in ["fifo", "zeroes"] {
        let defect = answer_at_once(folder.path(name).to_str().unwrap()).defect;
        let Some(SymbolDefect::Unreadable { reason, .. }) = &defect else { panic!("{defect:?}") };
        assert!(reason.contains("not a regular file"), "{name}: {reason}");
    }
}

const STRANGER: u32 = 1501;

/// Root's program, and a stranger's with the same build ID and other names at the same addresses.
struct Poisoning {
    folder: Folder,
    genuine: Binary,
    planted: Binary,
    addresses: Vec<u64>,
}

impl Poisoning {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("a.c", C_SOURCE);
        folder.write(
            "planted.c",
            &C_SOURCE.replace("hidden", "benign").replace("visible", "harmless"),
        );
        folder.run("gcc -g -O2 -Wl,--build-id a.c -o a");
        let id = build_id(&folder, "a");
        folder.run(&format!("gcc -g -O2 -Wl,--build-id=0x{id} planted.c -o planted"));
        let symbols = nm(&folder, "a");
        let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
        let addresses = (hidden.address..hidden.address + hidden.size).collect();
        let genuine = binary(&folder.path("a"), &id);
        let planted = binary(&folder.path("planted"), &id);
        let poisoning = Self { folder, genuine, planted, addresses };
        poisoning.plant();
        poisoning
    }

    fn plant(&self) {
        let path = self.folder.path("planted");
        chown(path, Some(STRANGER), Some(STRANGER)).expect("as root");
    }

    /// The functions that a report has at the first `count` addresses.
    fn report(&self, of: &Binary, count: usize) -> Vec<String> {
        let cache_dir = Some(self.folder.path("cache"));
        let mut symbolizer = Symbolizer::new(Options { cache_dir, ..Options::default() });
        let addresses = file_addresses(&self.addresses[..count]);
        let mut names = functions(&symbolizer.symbolize(of, &addresses)).concat();
        names.sort();
        names.dedup();
        names
    }
}

#[test]
fn strangers_names_stay_in_their_report() {
    let poisoning = Poisoning::new();
    let all = poisoning.addresses.len();
    // The planted file is believed in its own report, because no other file there has its build ID.
    assert_eq!(poisoning.report(&poisoning.planted, all), ["benign", "inlined"]);
    assert!(!poisoning.folder.path("cache").exists(), "nothing is kept of it");
    assert_eq!(poisoning.report(&poisoning.genuine, all), ["hidden", "inlined"]);
    assert_eq!(poisoning.report(&poisoning.planted, all), ["hidden", "inlined"]);
    poisoning.folder.run("mv planted gone");
    assert_eq!(poisoning.report(&poisoning.genuine, all), ["hidden", "inlined"]);
}

#[test]
fn own_file_precedes_strangers() {
    let poisoning = Poisoning::new();
    let all = poisoning.addresses.len();
    assert_eq!(poisoning.report(&poisoning.genuine, 1), ["hidden"]);
    assert_eq!(poisoning.report(&poisoning.planted, all), ["hidden", "inlined"]);
    // Once the genuine file has gone, its names stay.
    poisoning.folder.run("mv a gone");
    assert_eq!(poisoning.report(&poisoning.genuine, all), ["hidden", "inlined"]);
    assert_eq!(poisoning.report(&poisoning.planted, all), ["hidden", "inlined"]);
}

#[test]
fn strangers_debug_file_needs_named_directory() {
    let poisoning = Poisoning::new();
    let folder = &poisoning.folder;
    folder.run("objcopy --only-keep-debug a a.debug");
    folder.run("strip a");
    folder.run("objcopy --add-gnu-debuglink=a.debug a");
    chown(folder.path("a.debug"), Some(STRANGER), Some(STRANGER)).unwrap();
    let ask = |debug_paths| {
        let cache_dir = Some(folder.path("cache"));
        let options = Options { debug_paths, cache_dir, ..Options::default() };
        let addresses = file_addresses(&poisoning.addresses);
        Symbolizer::new(options).symbolize(&poisoning.genuine, &addresses)
    };
    assert_eq!(ask(vec![]).source, SymbolSource::None);
    assert_eq!(ask(vec![folder.0.clone()]).source, SymbolSource::Dwarf);
    assert!(!folder.path("cache").exists(), "its names are not kept all the same");
}

#[test]
fn strangers_cached_answers_are_ignored() {
    let poisoning = Poisoning::new();
    let all = poisoning.addresses.len();
    poisoning.report(&poisoning.genuine, all);
    poisoning.folder.run("mv a gone");
    let answers =
        poisoning.folder.path("cache").join(format!("{}.symbols", poisoning.genuine.build_id));
    chown(&answers, Some(STRANGER), None).unwrap();
    assert!(poisoning.report(&poisoning.genuine, all).is_empty());
    chown(&answers, Some(0), None).unwrap();
    assert_eq!(poisoning.report(&poisoning.genuine, all), ["hidden", "inlined"]);
}

#[test]
fn shared_names_need_readable_files() {
    let poisoning = Poisoning::new();
    let folder = &poisoning.folder;
    let mode = |name: &str, mode: &str| folder.run(&format!("chmod {mode} {name}"));
    let count = |is_for_all| {
        let cache_dir = Some(folder.path("cache"));
        let options = Options { is_for_all, cache_dir, ..Options::default() };
        let addresses = file_addresses(&poisoning.addresses);
        let symbolized = Symbolizer::new(options).symbolize(&poisoning.genuine, &addresses);
        symbolized.frames.iter().filter(|frames| !frames.is_empty()).count()
    };
    let all = poisoning.addresses.len();
    mode(".", "755");
    assert_eq!([count(false), count(true)], [all, all]);
    mode("a", "750");
    assert_eq!([count(false), count(true)], [all, 0]);
    mode("a", "755");
    mode(".", "700");
    assert_eq!([count(false), count(true)], [all, 0]);
}

#[test]
fn noted_root_excludes_third_users() {
    let poisoning = Poisoning::new();
    let folder = &poisoning.folder;
    folder.run("mkdir -p root/usr/lib");
    folder.run("cp planted root/usr/lib/a");
    folder.run("cp a root/usr/lib/b");
    chown(folder.path("root/usr/lib/a"), Some(STRANGER), Some(STRANGER)).expect("as root");
    let named = |path: &str, owner: Option<u32>, build_id: &str| {
        let owner = owner.map(Owner::of_user);
        let root = Some(NotedRoot { path: folder.path("root"), owner });
        let binary =
            Binary { path: path.into(), build_id: build_id.into(), ..poisoning.genuine.clone() };
        let mut symbolizer = Symbolizer::new(Options { root, ..Options::default() });
        symbolizer.symbolize(&binary, &file_addresses(&poisoning.addresses)).source
    };
    let id = &poisoning.genuine.build_id;
    for build_id in [id, ""] {
        assert_eq!(named("/usr/lib/a", Some(STRANGER), build_id), SymbolSource::Dwarf);
        for owner in [Some(STRANGER + 1), Some(0), None] {
            assert_eq!(named("/usr/lib/a", owner, build_id), SymbolSource::None, "{owner:?}");
            assert_eq!(named("/usr/lib/b", owner, build_id), SymbolSource::Dwarf, "{owner:?}");
        }
    }
    let other = &id.replace(|_: char| true, "0");
    assert_eq!(named("/usr/lib/b", Some(STRANGER), other), SymbolSource::None);
}

#[test]
fn links_of_sysroot_stay_inside() {
    let poisoning = Poisoning::new();
    let folder = &poisoning.folder;
    folder.run("mkdir -p root/usr/lib root/nested debug/elsewhere");
    folder.run("ln -s /usr/lib root/lib");
    folder.run("ln -s ../../../../a root/nested/leads-out");
    folder.run("cp a root/usr/lib/a");
    folder.run(&format!("ln -s {} debug/a", folder.path("a").display()));
    let source = |path: &str, options: Options| {
        let binary = Binary { path: path.into(), ..poisoning.genuine.clone() };
        let addresses = file_addresses(&poisoning.addresses);
        Symbolizer::new(options).symbolize(&binary, &addresses).source
    };
    let sysroot = || Options { sysroot: Some(folder.path("root")), ..Options::default() };
    assert_eq!(source("/lib/a", sysroot()), SymbolSource::Dwarf);
    assert_eq!(source("/nested/leads-out", sysroot()), SymbolSource::None);
    for debug_path in [folder.path("debug"), folder.path("debug/elsewhere/..")] {
        let options = Options { debug_paths: vec![debug_path], ..Options::default() };
        assert_eq!(source("/nowhere/a", options), SymbolSource::Dwarf);
    }
}

//! Objects by the loader's list, as `_dl_find_object` finds them.

use super::programs::{Library, build};
use crate::resolve::{self, FoundObject, LinkMap};
use crate::walk::loaded::Start;
use std::ffi::CStr;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Returns the facts that identify an object.
fn facts(found: Option<FoundObject>) -> Option<(u64, *const LinkMap, u64)> {
    found.map(|found| (found.start, found.link_map, found.unwind_header))
}

/// As if the program had started with the loader as its last object: the libraries of tests come later.
fn start() -> Start {
    let is_loader = |object: &&LinkMap| {
        // SAFETY: the names of objects are C strings; those before the loader's are never unloaded.
        unsafe { CStr::from_ptr(object.name) }.to_str().is_ok_and(|name| name.contains("ld-linux"))
    };
    let last = resolve::objects().find(is_loader).unwrap();
    // SAFETY: asks for a word of the auxiliary vector.
    let executable = unsafe { libc::getauxval(libc::AT_PHDR) } & !0xfff;
    Start { executable, last }
}

/// Other tests load libraries, too, and a list that is being changed is searched again at the next walk.
fn found_at_last(start: &Start, address: u64) -> Option<FoundObject> {
    (0..100_000).find_map(|_| start.search(address))
}

/// Code of the objects that are never unloaded.
fn addresses() -> Vec<u64> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_kept = |line: &&str| !line.contains(".so") || line.contains("/lib");
    let lines = maps.lines().filter(|line| line.contains(" r-xp ") && line.contains('/'));
    let start = |line: &str| u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    lines.filter(is_kept).map(|line| start(line) + 64).collect()
}

#[test]
fn list_agrees_with_loader() {
    let start = start();
    let addresses = addresses();
    assert!(addresses.len() >= 3, "{addresses:x?}");
    for &address in &addresses {
        let expected = resolve::object_at(address);
        let found = found_at_last(&start, address);
        assert_eq!(facts(found), facts(expected), "{address:x}");
        // The loader rounds the end up, or does not.
        let ends = found.zip(expected).map(|(found, expected)| expected.end.abs_diff(found.end));
        assert!(ends < Some(4096), "{address:x}");
    }
    let on_stack = &raw const addresses as u64;
    for address in [16, 1 << 46, u64::MAX, on_stack] {
        assert_eq!(facts(start.search(address)), None, "{address:x}");
    }
}

#[test]
fn later_library_is_found_until_unloaded() {
    let start = start();
    let paths: Vec<PathBuf> = (0..3).map(|_| build("frames.c", &["-O1"])).collect();
    let mut libraries: Vec<Library> = paths.iter().map(|path| Library::open(path)).collect();
    let ways: Vec<u64> = libraries.iter().map(|library| library.way() as usize as u64).collect();
    for &way in &ways {
        assert_eq!(facts(found_at_last(&start, way)), facts(resolve::object_at(way)));
    }
    libraries.remove(1).close();
    assert_eq!(facts(start.search(ways[1])), None);
    for way in [ways[0], ways[2]] {
        assert_eq!(facts(found_at_last(&start, way)), facts(resolve::object_at(way)));
    }
    libraries.into_iter().for_each(Library::close);
}

#[test]
fn list_survives_concurrent_loading() {
    let start = start();
    let is_over = AtomicBool::new(false);
    let stays = Library::open(&build("frames.c", &["-O1"]));
    let way = stays.way() as usize as u64;
    let expected = facts(resolve::object_at(way));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let path = build("frames.c", &["-O1"]);
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    Library::open(&path).close();
                }
            });
        }
        for _ in 0..20_000 {
            let found = facts(start.search(way));
            // An entry that is being changed ends one search, not all.
            assert!(found.is_none() || found == expected, "{found:x?}");
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(facts(found_at_last(&start, way)), expected);
    stays.close();
}

/// The way not taken: the line of /proc/self/maps.
fn is_in_maps(address: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    })
}

fn median_us(mut search: impl FnMut()) -> f64 {
    let turn = || {
        let start = Instant::now();
        search();
        start.elapsed().as_nanos() as f64 / 1e3
    };
    let mut turns: Vec<f64> = std::iter::repeat_with(turn).take(21).collect();
    turns.sort_by(f64::total_cmp);
    turns[turns.len() / 2]
}

/// The price of the first sight of an object, as more are loaded and more is mapped. `RAMSON_MEASURE=1` as in `measure`.
#[test]
fn measure_searches_when_asked() {
    let is_asked = std::env::var_os("RAMSON_MEASURE").is_some_and(|value| value == "1");
    let start = start();
    let library = build("frames.c", &["-O1"]);
    let loaded = if is_asked { vec![10, 100, 500] } else { vec![2] };
    let mut libraries = Vec::new();
    for count in loaded {
        while libraries.len() < count {
            let copy = library.with_extension(format!("{}.so", libraries.len()));
            fs::copy(&library, &copy).unwrap();
            libraries.push(Library::open(&copy));
        }
        let way = libraries[count / 2].way() as usize as u64;
        let by_list = median_us(|| _ = black_box(start.search(way)));
        let by_maps = median_us(|| assert!(is_in_maps(way)));
        if is_asked {
            println!(
                "{count} objects loaded later: by the list {by_list:.1} µs, by maps {by_maps:.1}"
            );
        }
    }
    if is_asked {
        // Every second page may not be touched, so that no two are one mapping.
        let pages: u64 = 60_000;
        // SAFETY: fresh memory, which nobody else knows.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(
                std::ptr::null_mut(),
                pages as usize * 4096,
                libc::PROT_READ,
                flags,
                -1,
                0,
            );
            for page in (0..pages).step_by(2) {
                libc::mprotect(memory.byte_add(page as usize * 4096), 4096, libc::PROT_NONE);
            }
        }
        let way = libraries[7].way() as usize as u64;
        let by_list = median_us(|| _ = black_box(start.search(way)));
        let by_maps = median_us(|| _ = black_box(is_in_maps(way)));
        println!("and {pages} mappings: by the list {by_list:.1} µs, by maps {by_maps:.1}");
    }
    libraries.into_iter().for_each(Library::close);
}

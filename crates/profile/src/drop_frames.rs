//! Which frames belong to the allocator or to ramson, and how they leave a profile so that a stack ends where the
//! program asked for memory.

use crate::merge::merge_equal_samples;
use crate::model::{Location, Mapping, Profile, StackSample};
use regex::Regex;
use std::sync::{Arc, LazyLock};

/// Full-match regexp, without anchors, over function names cut at their parameter list. Valid for pprof's `drop_frames` as it is.
pub const DROP_FRAMES: &str = concat!(
    // The malloc family, plain, glibc's, and prefixed by an allocator.
    r"(__libc_|__GI___libc_|__interceptor_|__wrap_|tc_|mi_|mi_heap_)?",
    r"(malloc|calloc|realloc|reallocarray|free|cfree|posix_memalign|aligned_alloc|memalign|valloc|pvalloc)",
    r"|free_sized|free_aligned_sized|[mrx]allocx",
    r"|(_rjem_)?je_.*|_rjem_.*|tcmalloc::.*|tc_new(array)?(_.*)?",
    r"|mi_new(_.*)?|mi_(heap_)?(m|z|c|re|rez|rec)alloc[nf]?(_.*)?",
    // C++: operator new and new[] (`_Znwm`, `_Znam` where they were not demangled), and what
    // standard containers call.
    r"|operator (new|delete)(\[\])?|_Z(nw|na|dl|da)[jmP].*",
    r"|std::(__1::)?(allocator|__new_allocator|allocator_traits)<.*>::allocate",
    r"|__gnu_cxx::(new_allocator|malloc_allocator|__alloc_traits)<.*>::(allocate|_S_allocate)",
    r"|std::__1::__libcpp_allocate.*",
    // Rust.
    r"|(__rustc(\[[0-9a-f]+\])?::)?__(rust|rdl|rg)_(alloc|alloc_zeroed|realloc|dealloc)",
    r"|alloc::alloc::.*|<alloc::alloc::Global as .*|<std::alloc::System as .*",
    r"|<.* as core::alloc::global::GlobalAlloc>::(alloc|alloc_zeroed|realloc|dealloc)",
    // cgo, where Go code itself asks for C's memory.
    r"|.*\._Cfunc_(CString|CBytes|_CMalloc|calloc|realloc|strdup|strndup|free)|.*\._cgo_cmalloc",
    // jemalloc's profiler, where the functions above it were inlined or have no names.
    r"|prof_backtrace(_impl)?|prof_tctx_create|prof_alloc_prep|imalloc(_body)?",
    r"|libramson::.*",
);

/// Libraries whose code without a name is the allocator's, too: they come without symbols, and their own profilers record
/// their inner frames.
const ALLOCATOR_LIBRARIES: [&str; 3] = ["libjemalloc.so", "libtcmalloc", "libmimalloc.so"];

/// Removes from every stack the allocator's first frame (seen from the root) and all beneath it, so that the leaf is the
/// program's function. A stack keeps at least its root frame, and equal stacks that arise are merged. The rule is
/// pprof's for `drop_frames`, so that a written profile shows the same numbers there; applying it twice changes nothing.
///
/// In a location with inlined frames the matching line and those inlined into it go; this holds in every stack with
/// that location.
pub fn drop_allocator_frames(profile: &mut Profile) {
    static ALLOCATOR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!("^({DROP_FRAMES})$")).expect("a constant regexp"));
    let is_library = |mapping: &Mapping| {
        ALLOCATOR_LIBRARIES.iter().any(|library| mapping.basename().starts_with(library))
    };
    let nameless: Vec<bool> = profile
        .locations
        .iter()
        .map(|location| {
            let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
            location.lines.is_empty() && mapping.is_some_and(is_library)
        })
        .collect();
    drop(profile, |name| ALLOCATOR.is_match(name), nameless);
}

/// The same for the functions that a foreign profile wants dropped; names are given without their parameter list.
pub fn drop_frames(profile: &mut Profile, is_dropped: impl Fn(&str) -> bool) {
    drop(profile, is_dropped, vec![false; profile.locations.len()]);
}

/// `drop_whole` begins with the locations that go without being asked for their names.
fn drop(profile: &mut Profile, is_dropped: impl Fn(&str) -> bool, mut drop_whole: Vec<bool>) {
    let names = profile.functions.iter().map(|function| without_parameters(&function.name));
    let dropped: Vec<bool> = names.map(is_dropped).collect();
    if !dropped.contains(&true) && !drop_whole.contains(&true) {
        return;
    }
    // A location that has lines of the program, too, keeps these outer lines.
    let mut drop_beneath = vec![false; profile.locations.len()];
    for (index, location) in profile.locations.iter_mut().enumerate() {
        match location.lines.iter().rposition(|line| dropped[line.function]) {
            Some(outermost) if outermost + 1 == location.lines.len() => drop_whole[index] = true,
            Some(outermost) => {
                location.lines.drain(..=outermost);
                drop_beneath[index] = true;
            }
            None => {}
        }
    }
    let mut changed = false;
    for sample in &mut profile.samples {
        let dropped = leaf_frames_to_drop(&sample.locations, &drop_whole, &drop_beneath);
        sample.locations.drain(..dropped);
        changed |= dropped > 0;
    }
    if changed {
        merge_equal_samples(&mut profile.samples);
    }
}

/// How many locations go, counted from the leaf.
fn leaf_frames_to_drop(stack: &[u32], drop_whole: &[bool], drop_beneath: &[bool]) -> usize {
    let mut program_seen = false;
    for (position, &location) in stack.iter().enumerate().rev() {
        if drop_beneath[location as usize] {
            return position;
        }
        if drop_whole[location as usize] {
            if program_seen {
                return position + 1;
            }
        } else {
            program_seen = true;
        }
    }
    // With no frame of the program at all the root has to stand for it.
    if program_seen { 0 } else { stack.len().saturating_sub(1) }
}

/// The name up to its parameter list: up to the first `(` that is not part of `(anonymous namespace)` or `operator()`.
fn without_parameters(name: &str) -> &str {
    const NOT_A_LIST: [&str; 2] = ["(anonymous namespace)", "operator()"];
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut start = 0;
    loop {
        let Some(found) = name[start..].find('(') else { return name };
        let open = start + found;
        let part_of_name = NOT_A_LIST.iter().find_map(|word| {
            let at = open.checked_sub(word.find('(')?)?;
            (at >= start && name.as_bytes()[at..].starts_with(word.as_bytes()))
                .then_some(at + word.len())
        });
        match part_of_name {
            Some(end) => start = end,
            None => return &name[..open],
        }
    }
}

fn is_between_go_and_c(name: &str) -> bool {
    let is_wrapper = name.starts_with("_cgo_") && name.contains("func_");
    is_wrapper || ["runtime.asmcgocall", "runtime.cgocall"].contains(&name)
}

/// Shows stacks of Go's runtime as runtime/pprof does. Each of these addresses is that of one function, so that what is inlined there is not
/// shown once more; the runtime's own functions at the leaf are left out, if there are others, and so are the one that every goroutine begins with
/// and those between Go and C.
pub fn show_as_runtime_pprof(profile: &mut Profile, is_of_go: impl Fn(&Location) -> bool) {
    let of_go = profile.locations.iter_mut().filter(|location| is_of_go(location));
    of_go.for_each(|location| location.lines.truncate(1));
    let name = |location: &Location| {
        let line = location.lines.first()?;
        Some(profile.functions[line.function].name.clone())
    };
    let names: Vec<Option<Arc<str>>> = profile.locations.iter().map(name).collect();
    let name = |at: &u32| names[*at as usize].as_deref().unwrap_or_default();
    let is_runtime =
        |at: &u32| ["runtime.", "internal/runtime/"].iter().any(|of| name(at).starts_with(of));
    for StackSample { locations, .. } in &mut profile.samples {
        locations.pop_if(|at| name(at) == "runtime.goexit");
        let own = locations.iter().position(|at| !is_runtime(at));
        locations.drain(..own.unwrap_or(0));
        locations.retain(|at| !is_between_go_and_c(name(at)));
    }
}

#[cfg(test)]
#[path = "drop_frames_tests.rs"]
mod tests;

use super::*;
use crate::estimate::Estimate;
use crate::model::StackSample;
use crate::model::{Function, Line, Location};
use ramson_format::LookupAddress;

fn matches(name: &str) -> bool {
    let regex = Regex::new(&format!("^({DROP_FRAMES})$")).unwrap();
    regex.is_match(without_parameters(name))
}

/// A profile whose locations have the given lines (innermost first), and one stack per list, leaf first.
fn profile(locations: &[&[&str]], stacks: &[&[u32]]) -> Profile {
    let mut profile = Profile::default();
    for names in locations {
        let lines = names.iter().map(|name| {
            let name: std::sync::Arc<str> = (*name).into();
            let function = Function { system_name: name.clone(), name, file: "".into() };
            profile.functions.push(function);
            Line { function: profile.functions.len() - 1, line: 1 }
        });
        let lines = lines.collect();
        profile.locations.push(Location {
            mapping: None,
            address: LookupAddress(1),
            lines,
            offset: None,
        });
    }
    for stack in stacks {
        let values = [Estimate::new(8.0, 2.0); 4];
        profile.samples.push(StackSample {
            locations: stack.to_vec(),
            values,
            ..StackSample::default()
        });
    }
    profile
}

fn stacks(profile: &Profile) -> Vec<Vec<String>> {
    let name = |line: &Line| profile.functions[line.function].name.to_string();
    let names = |&location: &u32| profile.locations[location as usize].lines.iter().map(name);
    profile.samples.iter().map(|s| s.locations.iter().flat_map(names).collect()).collect()
}

#[test]
fn the_allocators_own_functions_match() {
    for name in [
        "malloc",
        "__libc_calloc",
        "posix_memalign",
        "je_malloc",
        "_rjem_mallocx",
        "_rjem_je_malloc_default",
        "prof_backtrace_impl",
        "imalloc_body",
        "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        "tc_malloc",
        "tc_newarray",
        "mi_malloc",
        "mi_heap_malloc",
        "mi_malloc_aligned",
        "mi_zalloc",
        "mi_new_nothrow",
        "operator new(unsigned long)",
        "operator new[](unsigned long, std::align_val_t, std::nothrow_t const&)",
        "_Znwm",
        "_ZnamSt11align_val_t",
        "std::allocator<char>::allocate(unsigned long)",
        "std::__new_allocator<std::vector<int, std::allocator<int> > >::allocate(unsigned long, void const*)",
        "std::allocator_traits<std::allocator<(anonymous namespace)::Row> >::allocate(std::allocator<int>&)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "__rust_alloc",
        "__rustc[1a2b]::__rust_alloc",
        "__rdl_alloc",
        "alloc::alloc::alloc",
        "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
    ] {
        assert!(matches(name), "{name}");
    }
}

#[test]
fn the_programs_functions_do_not_match() {
    for name in [
        "main",
        "malloc_everything",
        "my_malloc",
        "mi_write",
        "mi_open",
        "mi_newer",
        "mi_alloc_state",
        "tc_calc_rtable",
        "Pool::operator new(unsigned long)",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "std::map<int, std::allocator<int> >::allocate_node()",
        "alloc::vec::Vec<T>::push",
        "(anonymous namespace)::malloc_like(int)",
        "ramson::main",
        "",
    ] {
        assert!(!matches(name), "{name}");
    }
}

#[test]
fn parameter_list_is_cut() {
    assert_eq!(without_parameters("f(int (*)(char))"), "f");
    assert_eq!(without_parameters("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
    assert_eq!(without_parameters("A::operator()(int) const"), "A::operator()");
    assert_eq!(without_parameters(".malloc"), "malloc");
    assert_eq!(without_parameters("größe(int)"), "größe");
    assert_eq!(without_parameters("("), "");
}

#[test]
fn allocator_leaves_are_dropped() {
    let mut profile = profile(
        &[&["malloc"], &["operator new(unsigned long)"], &["work"], &["main"]],
        &[&[0, 1, 2, 3], &[1, 2, 3], &[3]],
    );
    drop_allocator_frames(&mut profile);
    assert_eq!(stacks(&profile), [vec!["work", "main"], vec!["main"]]);
    assert_eq!(profile.samples[0].values[3], Estimate::new(16.0, 4.0));
}

#[test]
fn inlined_allocator_frames_are_dropped() {
    let lines = ["std::allocator<int>::allocate(unsigned long)", "grow", "push"];
    let mut profile = profile(&[&["pool"], &lines, &["main"]], &[&[0, 1, 2]]);
    drop_allocator_frames(&mut profile);
    assert_eq!(stacks(&profile), [vec!["grow", "push", "main"]]);
}

#[test]
fn all_allocator_stack_keeps_root() {
    let mut profile = profile(&[&["malloc"], &["calloc"]], &[&[0, 1], &[1], &[]]);
    drop_allocator_frames(&mut profile);
    assert_eq!(stacks(&profile), [vec!["calloc"], vec![]]);
}

#[test]
fn dropping_twice_changes_nothing() {
    let mut once = profile(
        &[&["malloc"], &["free", "work"], &["main"], &["calloc"]],
        &[&[0, 1, 2], &[1], &[0, 2, 3], &[0, 3], &[2, 0, 2]],
    );
    drop_allocator_frames(&mut once);
    let mut twice = once.clone();
    drop_allocator_frames(&mut twice);
    assert_eq!(once, twice);
}

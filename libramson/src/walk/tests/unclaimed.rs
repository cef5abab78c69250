//! Code in no object, as compilers at run time make it.

use super::live::observed_from;
use super::oracle::{Told, new_walker, observe};
use super::programs::{Jit, Library, build, programs, tour_of};
use crate::walk::End;

/// Frames of a visitor that observes, without optimisation, at most.
const VISITOR_FRAMES: usize = 6;

#[test]
fn tableless_code_walks_by_frame_pointers() {
    let walker = new_walker();
    let jit = Jit::with_frame_pointer();
    let page = jit.address()..jit.address() + 4096;
    let stacks = observed_from(&walker, |visit| {
        programs().tour(5, 4, || jit.run(0, || jit.run(0, &mut *visit)));
    });
    assert_eq!(stacks.ours, stacks.framehop);
    assert_eq!(stacks.end, End::Outermost);
    assert_eq!(stacks.ours.iter().filter(|address| page.contains(address)).count(), 2);
}

#[test]
fn met_object_ends_unclaimed_scope() {
    let walker = new_walker();
    let jit = Jit::with_frame_pointer();
    // One sink: another test's library may just be going from where the code is.
    let told = Told::default();
    let walk = || jit.run(0, || drop(observe(&walker, &told, false)));
    let added = || told.added.lock().unwrap().len();
    walk();
    let (scope, before) = (walker.objects.unclaimed_scope(), added());
    walk();
    assert_eq!(walker.objects.unclaimed_scope(), scope);
    assert!(before > 0 && added() == before);
    let library = Library::open(&build("frames.c", &["-O2"]));
    let mut visit = || drop(observe(&walker, &told, false));
    let ways = [library.way()];
    // SAFETY: `way` is what it says.
    unsafe { (ways[0])(&tour_of(&mut visit, &ways), 1, 1) };
    assert_eq!(added(), before + 1);
    assert_ne!(walker.objects.unclaimed_scope(), scope);
}

#[test]
fn frameless_code_never_faults() {
    let walker = new_walker();
    let jit = Jit::without_frame_pointer();
    let page = jit.address()..jit.address() + 4096;
    for seed in 0..50 {
        let stacks = observed_from(&walker, |visit| {
            programs().tour(seed, 4, || jit.run(0, &mut *visit));
        });
        assert!(stacks.ours.iter().any(|address| page.contains(address)));
    }
}

#[test]
fn trampoline_is_walked_by_instructions() {
    let walker = new_walker();
    let jit = Jit::trampoline();
    let page = jit.address()..jit.address() + 4096;
    for seed in 0..50 {
        let mut both = None;
        programs().tour(seed, 4, || {
            let direct = observed_from(&walker, |visit| visit());
            let through = observed_from(&walker, |visit| jit.run(0, || jit.run(0, &mut *visit)));
            both = Some((direct.ours, through.ours, through.end));
        });
        let (direct, through, end) = both.expect("the visitor was not called");
        assert_eq!(end, End::Outermost);
        assert_eq!(through.iter().filter(|address| page.contains(address)).count(), 2);
        // The callers of the visitor are on both stacks.
        let same = through.iter().rev().zip(direct.iter().rev()).take_while(|(a, b)| a == b);
        assert!(same.count() + VISITOR_FRAMES >= direct.len(), "{through:x?} {direct:x?}");
    }
}

//! Stacks that nobody built: garbage registers, garbage words, racing threads. Nothing may fault, hang or mix things up.

use super::live::GuardedStack;
use super::oracle::{Told, caller_here, new_walker, observe, view};
use super::programs::{Jit, Library, build, programs};
use crate::walk::frames::StackMemory;
use crate::walk::frames::step;
use crate::walk::rules::{Cfa, FramePointer, Packed, Rule, RuleCache, follow_frame_pointer};
use crate::walk::{Caller, End, view_of};
use crate::{arch, resolve, sampler, sys};
use ramson_format::{LookupAddress, MAX_DEPTH};
use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[test]
fn garbage_frame_pointer_ends_walk() {
    let walker = new_walker();
    let jit = Jit::with_garbage();
    let page = jit.address()..jit.address() + 4096;
    let here = caller_here().stack_pointer;
    let mut guarded = GuardedStack::new(1);
    let high = guarded.low() as u64 + 4096;
    let garbage = [
        (0, End::Outermost),
        (1, End::Failed),
        (4096, End::Failed),
        (here + 3, End::Failed),
        (here - 4096, End::Failed),
        (high - 8, End::Failed),
        (high, End::Failed),
        (1 << 47, End::Failed),
        (0xffff_8000_0000_0000, End::Failed),
        (u64::MAX, End::Failed),
        (u64::MAX - 7, End::Failed),
    ];
    for (frame_pointer, end) in garbage {
        let mut stacks = None;
        jit.run(frame_pointer, || stacks = Some(observe(&walker, &Told::default(), false)));
        let stacks = stacks.unwrap();
        assert_eq!(stacks.end, end, "{frame_pointer:x}");
        assert!(page.contains(stacks.ours.last().unwrap()));
    }
}

/// A library with pages between its segments that cannot be accessed, and some of its addresses.
fn library_with_holes() -> Vec<u64> {
    let options = ["-O1", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code"];
    let way = Library::open(&build("frames.c", &options)).way() as usize as u64;
    let found = resolve::object_at(way).unwrap();
    (found.start..found.end).step_by(4096).map(|page| page + 77).chain([way + 5]).collect()
}

#[test]
fn random_registers_never_fault() {
    let walker = new_walker();
    programs();
    let holes = library_with_holes();
    let mut random = sampler::seed(11);
    let mut draw = |below: u64| {
        random = sampler::next_random(random);
        // The low bits of an xorshift-like generator are as good as the high ones here.
        (random >> 11) % below
    };
    let known: Vec<u64> = {
        let stacks = observe(&walker, &Told::default(), true);
        stacks.glibc.into_iter().chain(holes).collect()
    };
    let mut ends = [0; 3];
    for _ in 0..60_000 {
        let mut words = [0u64; 64];
        let low = words.as_ptr() as u64;
        let mut any = || match draw(8) {
            0..3 => known[draw(known.len() as u64) as usize].wrapping_add(draw(3)),
            3..6 => low + draw(70) * 8,
            6 => draw(1 << 20),
            _ => draw(u64::MAX) << draw(40),
        };
        words.iter_mut().for_each(|word| *word = any());
        let caller = Caller {
            lookup_address: LookupAddress(any()),
            stack_pointer: low + (any() & 0x78),
            frame_pointer: any(),
        };
        let view = view(&caller, &mut []);
        let mut frames = [LookupAddress(0); MAX_DEPTH];
        let walked = walker.walk(caller, &view, &mut frames, &Told::default());
        assert!((1..=MAX_DEPTH).contains(&walked.depth));
        ends[walked.end as usize] += 1;
        std::hint::black_box(&words);
    }
    assert!(ends[End::Failed as usize] > 1000, "{ends:?}");
}

#[test]
fn stack_view_is_readable_at_edges() {
    let mut stack = GuardedStack::new(3);
    let (low, high) = (stack.low() as u64, stack.low() as u64 + 3 * 4096);
    let mut copy = vec![0; 32 << 10];
    for (stack_pointer, readable) in [
        (low, 3 * 4096),
        (low - 8, 0),
        (low - 4096, 0),
        (high - 8, 8),
        (high - 1, 8),
        (high, 0),
        (low + 4095, 2 * 4096 + 8),
        (8, 0),
        (u64::MAX - 7, 0),
        (u64::MAX, 0),
        (1 << 63, 0),
    ] {
        let caller = Caller { lookup_address: LookupAddress(0), stack_pointer, frame_pointer: 0 };
        let view = view(&caller, &mut copy);
        assert!(view.is_foreign);
        let first = stack_pointer & !7;
        let words = (0..8192).take_while(|word| view.read(first.wrapping_add(word * 8)).is_some());
        assert_eq!(words.count() * 8, readable, "{stack_pointer:x}");
        assert_eq!(view.read(first.wrapping_sub(8)), None);
        assert_eq!(view.read(first.wrapping_add(1)), None);
    }
    let here = caller_here();
    assert!(!view(&here, &mut copy).is_foreign);
}

#[test]
fn distant_mapping_is_not_the_stack() {
    const PAGES: usize = 64;
    // One mapping: a coroutine's stack, a page that cannot be accessed, a thread's stack.
    let mut memory = GuardedStack::new(2 * PAGES + 1);
    let low = memory.low();
    // SAFETY: inside the mapping; nothing is there yet.
    let thread_stack = unsafe {
        assert_eq!(libc::mprotect(low.add(PAGES * 4096).cast(), 4096, libc::PROT_NONE), 0);
        low.add((PAGES + 1) * 4096)
    };
    extern "C" fn run(coroutine: *mut c_void) -> *mut c_void {
        let mut copy = vec![0; 32 << 10];
        let mut is_foreign = |stack_pointer| {
            let caller =
                Caller { lookup_address: LookupAddress(0), stack_pointer, frame_pointer: 0 };
            view(&caller, &mut copy).is_foreign
        };
        let low = coroutine as u64;
        let all = [low, low + 4096, low + (PAGES as u64 - 1) * 4096];
        let are_foreign = all.map(&mut is_foreign) == [true; 3];
        let own_is_not = !is_foreign(caller_here().stack_pointer);
        (are_foreign && own_is_not) as usize as *mut c_void
    }
    // SAFETY: as pthread_create(3) asks; the stack outlives the thread.
    unsafe {
        let mut attributes = std::mem::zeroed();
        let mut thread = std::mem::zeroed();
        let mut result = std::ptr::null_mut();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstack(&mut attributes, thread_stack.cast(), PAGES * 4096);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, run, low.cast()), 0);
        libc::pthread_join(thread, &mut result);
        assert_eq!(result as usize, 1);
    }
}

#[test]
fn invalid_frames_are_not_undone() {
    let words = [0u64, 0, 0x40_0000, 0x40_0000, 0, 5, 0, 1 << 47, 0, 0, 0, 0x40_0000];
    let at = |index: usize| (&raw const words[index]) as u64;
    let registers = |stack_pointer, frame_pointer| Caller {
        lookup_address: LookupAddress(0x40_0000),
        stack_pointer,
        frame_pointer,
    };
    let view = view(&registers(at(0), 0), &mut []);
    let by_frame_pointer = |stack_pointer, frame_pointer| {
        follow_frame_pointer(registers(stack_pointer, frame_pointer), &view)
            .map(|caller| (caller.lookup_address.0, caller.stack_pointer))
    };
    assert_eq!(by_frame_pointer(at(2), at(2)), Some((0x3f_ffff, at(4))));
    assert_eq!(by_frame_pointer(at(3), at(2)), None);
    assert_eq!(by_frame_pointer(at(0), at(4)), None);
    assert_eq!(by_frame_pointer(at(0), at(6)), None);
    // 0 ends the stack.
    assert_eq!(by_frame_pointer(at(0), at(8)), Some((u64::MAX, at(10))));
    // The CFA is not above the stack pointer.
    let rule = Rule::Restore(Cfa::FramePointer(16), FramePointer::Unchanged);
    let leads_to = |stack_pointer, frame_pointer| {
        step(rule, registers(stack_pointer, frame_pointer), &view).is_ok()
    };
    assert!(leads_to(at(3), at(2)));
    assert!(!leads_to(at(4), at(2)));
    assert!(!leads_to(at(6), at(2)));
    std::hint::black_box(&words);
}

#[test]
fn forked_child_reads_its_stack_directly() {
    // SAFETY: all zero is a thread that is not initialised yet.
    let thread: arch::Thread = unsafe { std::mem::zeroed() };
    let pid = sys::process_id();
    thread.tid.set(pid);
    let main_high = resolve::initial_stack().unwrap() as u64;
    let mut copy = vec![0; 32 << 10];
    let view = view_of(&thread, &caller_here(), pid, main_high, &mut copy);
    assert!(!view.is_foreign);
}

/// A rule that tells which address it is for.
fn rule_of(address: u64) -> Rule {
    let cfa = Cfa::StackPointer((address >> 3) as i64 & 0x7f_ffff);
    Rule::Restore(cfa, FramePointer::AtCfa((address & 0x7fff_fff8) as i64))
}

fn empty_rules() -> Box<RuleCache> {
    // SAFETY: zeroed memory with the layout of a `RuleCache`, from the allocator that `Box` returns it to; all of its words may be 0, which
    // is "no rule". A failed allocation would make a null box: then the test dies.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<RuleCache>()).cast()) }
}

#[test]
fn rule_set_holds_three_addresses() {
    let cache = empty_rules();
    let near = RuleCache::sets_of(0x7f00_0000_1000)[0];
    let same = (0x7f00_0000_1000..).filter(|&address| RuleCache::sets_of(address)[0] == near);
    let addresses: Vec<u64> = same.take(3).collect();
    for &address in &addresses {
        cache.put(address, 3, rule_of(address));
    }
    for &address in &addresses {
        assert_eq!(cache.get(address, |scope| scope == 3), Some(Packed::of(rule_of(address))));
    }
}

#[test]
fn racing_rule_cache_stays_right() {
    let cache = empty_rules();
    // Addresses of one far set, of which two differ by what their rules differ by as seldom as any two …
    let sharing = |from: u64, which: usize| {
        let set = RuleCache::sets_of(from)[which];
        (from..).filter(move |&address| RuleCache::sets_of(address)[which] == set)
    };
    let addresses: Vec<u64> = sharing(0x7f00_0000_1000, 1).take(4).collect();
    // … whose near sets are full, so that they take each other's place.
    for &address in &addresses {
        let others = sharing(address, 0).filter(|other| !addresses.contains(other)).take(2);
        for other in others {
            cache.put(other, 3, rule_of(other));
        }
    }
    // The address that a torn entry of the first two would be taken for if the words were only combined by exclusive or.
    let [first, second] = [0, 1].map(|index| Packed::of(rule_of(addresses[index])).0);
    let torn = addresses[0] ^ first ^ second;
    let hits = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (cache, addresses, hits, is_over) = (&cache, &addresses, &hits, &is_over);
            scope.spawn(move || {
                let mut random = sampler::seed(thread + 1);
                for _ in 0..400_000 {
                    random = sampler::next_random(random);
                    let address = addresses[(random >> 20) as usize % 4];
                    match cache.get(address, |scope| scope == 3) {
                        Some(rule) => {
                            assert_eq!(rule, Packed::of(rule_of(address)));
                            hits.fetch_add(1, Relaxed);
                        }
                        None => {
                            cache.put(address, 3, rule_of(address));
                        }
                    }
                    assert_eq!(cache.get(address, |scope| scope != 3), None);
                }
                is_over.store(true, Relaxed);
            });
        }
    });
    assert!(hits.load(Relaxed) > 1000);
    // Torn on purpose, as two stores that interleave leave it.
    let forged = RuleCache::check_of(addresses[0], 3, first);
    assert_ne!(forged, RuleCache::check_of(torn, 3, second));
}

//! Cost of a warm walk: ours, framehop's and backtrace()'s, measured in turns over the same stacks.
//!
//! `RAMSON_MEASURE=1 cargo test --release -p libramson measure_walks -- --nocapture --test-threads=1`

use super::live::on_new_stack;
use super::oracle::{
    Stacks, Told, backtrace, caller_here, framehop_walk, new_walker, observe, unwinder, view,
};
use super::programs::{Jit, Programs, without_frame_pointers};
use crate::walk::{Caller, StackView, Walker};
use framehop::x86_64::CacheX86_64;
use ramson_format::{LookupAddress, MAX_DEPTH};
use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

const DEPTHS: [usize; 4] = [10, 20, 30, 60];

/// Walks per turn, and turns.
struct Effort {
    walks: u32,
    turns: usize,
    is_printed: bool,
}

impl Effort {
    fn print(&self, line: std::fmt::Arguments) {
        if self.is_printed {
            println!("{line}");
        }
    }
}

/// Median nanoseconds per walk.
#[derive(Clone, Copy)]
struct Cost {
    ours: f64,
    framehop: f64,
    glibc: f64,
    /// The first walk, with nothing in the cache.
    ours_cold: f64,
    framehop_cold: f64,
}

fn nanoseconds_per_run(runs: u32, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..runs).for_each(|_| run());
    start.elapsed().as_nanos() as f64 / runs as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn walk_once(walker: &Walker, caller: Caller, told: &Told, copy: &mut [u8]) -> usize {
    let view = view_again(&caller, copy);
    let mut frames = [LookupAddress(0); MAX_DEPTH];
    let walked = walker.walk(caller, &view, &mut frames, told);
    black_box(&frames);
    walked.depth
}

/// As a sample asks for it: the process's facts are at hand.
fn view_again(caller: &Caller, copy: &mut [u8]) -> StackView {
    let thread = crate::arch::thread();
    crate::walk::view_of(thread, caller, thread.tid.get(), 0, copy)
}

/// Measures walks from the function that calls this. `is_permanent`: as if all objects had been there from the start.
#[inline(never)]
fn measure_here(effort: &Effort, is_permanent: bool) -> Cost {
    let caller = caller_here();
    let told = Told::default();
    let unwinder = unwinder();
    let mut copy = vec![0; 32 << 10];
    let full = view(&caller, &mut copy);
    let mut walker = new_walker();
    let mut cache = CacheX86_64::new();
    let mut framehop_frames = [0; MAX_DEPTH];
    let mut ours_cold = Vec::new();
    let mut framehop_cold = Vec::new();
    for _ in 0..effort.turns.min(15) {
        walker = new_walker();
        cache = CacheX86_64::new();
        ours_cold.push(nanoseconds_per_run(1, || {
            walk_once(&walker, caller, &told, &mut []);
        }));
        framehop_cold.push(nanoseconds_per_run(1, || {
            framehop_walk(&unwinder, &mut cache, caller, &full, &mut framehop_frames);
        }));
    }
    if is_permanent {
        walker
            .objects
            .objects
            .iter()
            .for_each(|object| object.is_permanent.store(1, std::sync::atomic::Ordering::Relaxed));
    }
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..effort.turns {
        costs[0].push(nanoseconds_per_run(effort.walks, || {
            black_box(walk_once(&walker, black_box(caller), &told, &mut []));
        }));
        costs[1].push(nanoseconds_per_run(effort.walks, || {
            let from = black_box(caller);
            framehop_walk(&unwinder, &mut cache, from, &full, &mut framehop_frames);
            black_box(&framehop_frames);
        }));
        costs[2].push(nanoseconds_per_run(effort.walks.div_ceil(10), || {
            let mut found = [std::ptr::null_mut::<c_void>(); MAX_DEPTH];
            // SAFETY: the buffer is as long as is said.
            unsafe { backtrace(found.as_mut_ptr(), MAX_DEPTH as i32) };
            black_box(&found);
        }));
    }
    let [ours, framehop, glibc] = costs.map(median);
    let ours_cold = median(ours_cold);
    let framehop_cold = median(framehop_cold);
    Cost { ours, framehop, glibc, ours_cold, framehop_cold }
}

fn observe_tour(programs: &Programs, seed: u64, depth: i32) -> Stacks {
    let mut stacks = None;
    let walker = new_walker();
    programs.tour(seed, depth, || stacks = Some(observe(&walker, &Told::default(), true)));
    stacks.unwrap()
}

/// Seed and depth of the tour whose stack has closest to `frames` frames.
fn tour_with(programs: &Programs, frames: usize) -> (u64, i32) {
    let tours = (0..600).map(|number| (number, (number % 20) as i32));
    tours
        .min_by_key(|&(seed, depth)| {
            let stacks = observe_tour(programs, seed, depth);
            stacks.assert_complete_and_equal();
            stacks.ours.len().abs_diff(frames)
        })
        .expect("a tour")
}

fn measure_depths(effort: &Effort) {
    let programs = without_frame_pointers();
    effort.print(format_args!(
        "depth  ours ours, dlopen framehop  backtrace()  first walk: ours  framehop   (ns, median)"
    ));
    for frames in DEPTHS {
        let (seed, depth) = tour_with(programs, frames);
        let mut cost = None;
        let mut loaded_cost = None;
        programs.tour(seed, depth, || cost = Some(measure_here(effort, true)));
        programs.tour(seed, depth, || loaded_cost = Some(measure_here(effort, false)));
        let Cost { ours, framehop, glibc, ours_cold, framehop_cold } = cost.unwrap();
        let ours_loaded = loaded_cost.unwrap().ours;
        effort.print(format_args!(
            "{frames:5} {ours:5.0} {ours_loaded:12.0} {framehop:9.0} {glibc:12.0} {ours_cold:17.0} {framehop_cold:9.0}"
        ));
        assert!(ours > 0.0 && framehop > 0.0 && glibc > 0.0);
    }
}

/// Thirty frames of code without tables, from one to the next.
fn measure_jit(effort: &Effort) {
    fn nest(jit: &Jit, left: u32, last: &mut dyn FnMut()) {
        jit.run(0, &mut || if left > 1 { nest(jit, left - 1, last) } else { last() });
    }
    let jit = Jit::with_frame_pointer();
    let mut cost = None;
    nest(&jit, 30, &mut || cost = Some(measure_here(effort, true)));
    let Cost { ours, framehop, .. } = cost.unwrap();
    effort.print(format_args!(
        "30 frames of code without tables among others: ours {ours:.0}, framehop {framehop:.0}"
    ));
}

/// A stack that is not the thread's own is copied.
fn measure_copy(effort: &Effort) {
    let mut cost = 0.0;
    on_new_stack(64, &mut || {
        let caller = caller_here();
        let walker = new_walker();
        let told = Told::default();
        let mut copy = vec![0; 32 << 10];
        let turn = || {
            nanoseconds_per_run(effort.walks.div_ceil(10), || {
                black_box(walk_once(&walker, caller, &told, &mut copy));
            })
        };
        cost = median(std::iter::repeat_with(turn).take(effort.turns).collect());
    });
    effort.print(format_args!("shallow, on a coroutine's stack of 256 KiB: ours {cost:.0}"));
}

#[test]
fn measure_walks_when_asked() {
    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        let is_asked = std::env::var_os("RAMSON_MEASURE").is_some_and(|value| value == "1");
        let effort = if is_asked {
            Effort { walks: 500, turns: 2001, is_printed: true }
        } else {
            Effort { walks: 100, turns: 10, is_printed: false }
        };
        measure_depths(&effort);
        measure_jit(&effort);
        measure_copy(&effort);
        std::ptr::null_mut()
    }
    // A bare thread, so that there are few frames below.
    // SAFETY: as pthread_create(3) asks.
    unsafe {
        let mut thread = std::mem::zeroed();
        let attributes = std::ptr::null();
        let argument = std::ptr::null_mut();
        assert_eq!(libc::pthread_create(&mut thread, attributes, run, argument), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
}

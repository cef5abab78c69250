//! Allocates in four threads, frees half of it, prints how many bytes are allocated, and sleeps. jemalloc counts them itself; of the others
//! a wrapper counts what is asked for.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[cfg(feature = "jemalloc")]
static INNER: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "mi")]
static INNER: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(feature = "sn")]
static INNER: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        INNER.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        INNER.alloc_zeroed(layout)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        INNER.dealloc(block, layout)
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Relaxed);
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        INNER.realloc(block, layout, size)
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

#[cfg(feature = "jemalloc")]
fn allocated() -> usize {
    tikv_jemalloc_ctl::epoch::advance().unwrap();
    tikv_jemalloc_ctl::stats::allocated::read().unwrap()
}

#[cfg(not(feature = "jemalloc"))]
fn allocated() -> usize {
    ALLOCATED.load(Relaxed)
}

fn churn(rounds: u64) -> usize {
    let mut kept = 0;
    for round in 0..rounds {
        let mut growing: Vec<u64> = Vec::new();
        (0..round % 50).for_each(|item| growing.push(item));
        kept += growing.len();
    }
    kept
}

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(1000, |count| count.parse().unwrap());
    // It was only to start.
    if count == 0 {
        return;
    }
    // The buffer of standard output is allocated before the count.
    println!("ready");
    let mut map = HashMap::new();
    for number in 0..count {
        map.insert(number, vec![1u8; (number % 1000 + 1) as usize]);
    }
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(move || churn(count))).collect();
    let churned: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    (0..count / 2).for_each(|number| drop(map.remove(&number)));
    assert!(churned > 0);
    println!("{}", allocated());
    std::thread::sleep(std::time::Duration::from_secs(600));
    println!("{}", map.len());
}

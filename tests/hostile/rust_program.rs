// A Rust program with the system allocator: threads, channels, panics that are caught, thread-locals with destructors, layouts of every
// alignment, and a hook that allocates while it panics.
// ends: 1
// representative

use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook};
use std::sync::mpsc::channel;
use std::thread;

thread_local! {
    static KEPT: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Noisy(Vec<u8>);

impl Drop for Noisy {
    fn drop(&mut self) {
        self.0 = vec![1; self.0.len() * 2];
    }
}

fn deep(depth: usize) -> usize {
    let kept = Noisy(vec![0; depth * 10 + 1]);
    if depth == 0 {
        panic!("bottom {}", "x".repeat(100));
    }
    deep(depth - 1) + kept.0.len()
}

fn layouts() {
    for shift in 0..16 {
        for size in [1, 100, 5000, 300_000] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            // SAFETY: the layout is not empty, and each block is freed with the layout it has.
            unsafe {
                let (block, zeroed) = (alloc(layout), alloc_zeroed(layout));
                assert!(block.addr() % (1 << shift) == 0 && *zeroed.add(size - 1) == 0);
                block.write_bytes(7, size);
                let grown = realloc(block, layout, size * 3);
                assert!(*grown.add(size - 1) == 7 && grown.addr() % (1 << shift) == 0);
                dealloc(grown, Layout::from_size_align(size * 3, 1 << shift).unwrap());
                dealloc(zeroed, layout);
                let system = System.alloc(layout);
                System.dealloc(system, layout);
            }
        }
    }
}

fn work(number: usize) -> usize {
    KEPT.with_borrow_mut(|kept| kept.extend((0..100).map(|i| format!("{number} {i}"))));
    let map: HashMap<usize, String> = (0..1000).map(|i| (i, i.to_string())).collect();
    let tree: BTreeMap<_, _> = map.iter().map(|(key, value)| (value.clone(), *key)).collect();
    let caught = catch_unwind(|| deep(50)).unwrap_err();
    let length = caught.downcast_ref::<String>().unwrap().len();
    let again = catch_unwind(AssertUnwindSafe(|| resume_unwind(caught))).unwrap_err();
    tree.values().sum::<usize>() + length + again.downcast::<String>().unwrap().len()
}

fn main() {
    set_hook(Box::new(|facts| drop(facts.to_string().repeat(3))));
    layouts();
    let (sender, receiver) = channel();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(vec![work(number); number + 1]).unwrap())
        })
        .collect();
    drop(sender);
    let mut sums: Vec<_> = receiver.iter().collect();
    sums.sort();
    println!("{sums:?}");
    for thread in threads {
        thread.join().unwrap();
    }
    let dead = thread::spawn(|| deep(10)).join().unwrap_err();
    println!("{}", dead.downcast::<String>().unwrap().len());
    println!("{}", work(9));
    std::process::exit(1);
}

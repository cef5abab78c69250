//! Words that loom watches.
//!
//! A loom atomic is a large object that lives for one execution; the words of a profile lie in a mapping and have a size. A word here
//! therefore keeps its place and its size, and while a model runs it stands for a loom atomic that belongs to its address. Memory itself
//! stays as it was before the model: every execution starts from the values in it.
//!
//! loom wants its atomics made before the threads that share them. Which words an execution will touch is not known before: when
//! it meets a new one, the word is noted and the model begun again.

use loom::sync::atomic::AtomicU64 as Watched;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{self as real, Ordering};

/// Switches away from a thread that could have gone on, per execution; the authors of such checkers found that most faults
/// need no more than two.
const PREEMPTIONS: usize = 2;
/// Steps of one execution: more means an endless loop.
const MAX_BRANCHES: usize = 100_000;

/// How the threads of a model see each other's stores.
#[derive(Clone, Copy)]
pub enum Seen {
    /// Whatever the memory orders that the code names allow: threads of the program.
    AsOrdered,
    /// The latest store to each word: a reader outside copies what one x86-64 processor after the other has stored.
    AtOnce,
}

/// A word during one execution.
#[derive(Clone)]
enum Twin {
    AsOrdered(Rc<Watched>),
    /// Every step of any thread is one on the first, so loom tries them in every order.
    AtOnce(Rc<Watched>, Rc<Cell<u64>>),
}

impl Twin {
    fn load(&self, order: Ordering) -> u64 {
        match self {
            Self::AsOrdered(word) => word.load(order),
            Self::AtOnce(..) => self.update(order, |_| None),
        }
    }

    fn store(&self, value: u64, order: Ordering) {
        match self {
            Self::AsOrdered(word) => word.store(value, order),
            Self::AtOnce(..) => drop(self.update(order, |_| Some(value))),
        }
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        match self {
            Self::AsOrdered(word) => word.compare_exchange(current, new, success, failure),
            Self::AtOnce(..) => {
                let found = self.update(success, |value| (value == current).then_some(new));
                if found == current { Ok(found) } else { Err(found) }
            }
        }
    }

    /// A read-modify-write; returns what was there before.
    fn update(&self, order: Ordering, change: impl Fn(u64) -> Option<u64>) -> u64 {
        match self {
            Self::AsOrdered(word) => {
                word.fetch_update(order, Ordering::Relaxed, change).unwrap_or_else(|value| value)
            }
            Self::AtOnce(step, value) => {
                step.fetch_add(1, Ordering::Relaxed);
                let before = value.get();
                value.set(change(before).unwrap_or(before));
                before
            }
        }
    }
}

struct Word {
    bytes: usize,
    /// Value in memory.
    initial: u64,
    /// There while an execution runs.
    twin: Option<Twin>,
}

thread_local! {
    /// By address; `None` outside models. loom runs all threads of a model on one thread of the system.
    static WORDS: RefCell<Option<BTreeMap<usize, Word>>> = const { RefCell::new(None) };
}

/// An execution met a word for the first time.
struct Begin;

/// Runs `check` in every order of its threads' steps with so many switches (`PREEMPTIONS`).
pub fn model(seen: Seen, check: impl Fn() + Send + Sync + 'static) {
    let check = Arc::new(check);
    WORDS.set(Some(BTreeMap::new()));
    loop {
        let check = check.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(PREEMPTIONS));
        builder.max_branches = MAX_BRANCHES;
        let run = AssertUnwindSafe(|| {
            builder.check(move || {
                let step = Rc::new(Watched::new(0));
                for_all_words(|word| {
                    word.twin = Some(match seen {
                        Seen::AsOrdered => Twin::AsOrdered(Rc::new(Watched::new(word.initial))),
                        Seen::AtOnce => {
                            Twin::AtOnce(step.clone(), Rc::new(Cell::new(word.initial)))
                        }
                    });
                });
                check();
                for_all_words(|word| word.twin = None);
            });
        });
        let outcome = catch_unwind(run);
        for_all_words(|word| word.twin = None);
        match outcome {
            Err(reason) if reason.is::<Begin>() => {}
            outcome => {
                WORDS.set(None);
                return outcome.unwrap_or_else(|reason| resume_unwind(reason));
            }
        }
    }
}

fn for_all_words(mut change: impl FnMut(&mut Word)) {
    WORDS.with_borrow_mut(|words| {
        words.iter_mut().flatten().for_each(|(_, word)| change(word));
    });
}

/// Returns the stand-in for a word of `bytes` bytes at `address`; `None` outside models.
fn twin(address: usize, bytes: usize, initial: impl Fn() -> u64) -> Option<Twin> {
    let known = WORDS.with_borrow_mut(|words| {
        let word = words.as_mut()?.entry(address).or_insert_with(|| Word {
            bytes,
            initial: initial(),
            twin: None,
        });
        assert_eq!(word.bytes, bytes, "one address, words of two sizes");
        Some(word.twin.clone())
    })?;
    Some(known.unwrap_or_else(|| resume_unwind(Box::new(Begin))))
}

/// Copies, one after the other, the words of a model at `addresses`: hands over where each is and what it holds.
pub fn copy(addresses: Range<usize>, mut take: impl FnMut(usize, &[u8])) {
    let twins: Vec<(usize, usize, Twin)> = WORDS.with_borrow(|words| {
        let words = words.iter().flat_map(|words| words.range(addresses.clone()));
        let running =
            |(&address, word): (&usize, &Word)| Some((address, word.bytes, word.twin.clone()?));
        words.filter_map(running).collect()
    });
    for (address, bytes, twin) in twins {
        let value = twin.load(Ordering::Acquire).to_le_bytes();
        take(address, &value[..bytes]);
    }
}

/// See `core::sync::atomic::fence`.
pub fn fence(order: Ordering) {
    if WORDS.with_borrow(Option::is_some) {
        loom::sync::atomic::fence(order);
    } else {
        real::fence(order);
    }
}

macro_rules! word {
    ($name:ident, $integer:ty) => {
        /// See `core::sync::atomic`.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(real::$name);

        #[expect(missing_docs, reason = "as in core::sync::atomic")]
        impl $name {
            pub const fn new(value: $integer) -> Self {
                Self(real::$name::new(value))
            }

            fn twin(&self) -> Option<Twin> {
                let address = core::ptr::from_ref(self) as usize;
                twin(address, size_of::<Self>(), || self.0.load(Ordering::Relaxed) as u64)
            }

            pub fn load(&self, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => twin.load(order) as $integer,
                    None => self.0.load(order),
                }
            }

            pub fn store(&self, value: $integer, order: Ordering) {
                match self.twin() {
                    Some(twin) => twin.store(value as u64, order),
                    None => self.0.store(value, order),
                }
            }

            pub fn swap(&self, value: $integer, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => twin.update(order, |_| Some(value as u64)) as $integer,
                    None => self.0.swap(value, order),
                }
            }

            pub fn compare_exchange(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                match self.twin() {
                    Some(twin) => twin
                        .compare_exchange(current as u64, new as u64, success, failure)
                        .map(|value| value as $integer)
                        .map_err(|value| value as $integer),
                    None => self.0.compare_exchange(current, new, success, failure),
                }
            }

            pub fn compare_exchange_weak(
                &self,
                current: $integer,
                new: $integer,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$integer, $integer> {
                self.compare_exchange(current, new, success, failure)
            }

            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($integer) -> Option<$integer>,
            ) -> Result<$integer, $integer> {
                let mut current = self.load(fetch);
                while let Some(new) = change(current) {
                    match self.compare_exchange(current, new, set, fetch) {
                        Ok(value) => return Ok(value),
                        Err(value) => current = value,
                    }
                }
                Err(current)
            }

            pub fn fetch_add(&self, addend: $integer, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => twin.update(order, |value| {
                        Some((value as $integer).wrapping_add(addend) as u64)
                    }) as $integer,
                    None => self.0.fetch_add(addend, order),
                }
            }

            pub fn fetch_sub(&self, subtrahend: $integer, order: Ordering) -> $integer {
                self.fetch_add(subtrahend.wrapping_neg(), order)
            }

            pub fn fetch_or(&self, bits: $integer, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => twin.update(order, |value| Some(value | bits as u64)) as $integer,
                    None => self.0.fetch_or(bits, order),
                }
            }

            pub fn fetch_and(&self, bits: $integer, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => twin.update(order, |value| Some(value & bits as u64)) as $integer,
                    None => self.0.fetch_and(bits, order),
                }
            }

            pub fn fetch_max(&self, value: $integer, order: Ordering) -> $integer {
                match self.twin() {
                    Some(twin) => {
                        twin.update(order, |other| Some(other.max(value as u64))) as $integer
                    }
                    None => self.0.fetch_max(value, order),
                }
            }
        }
    };
}

word!(AtomicI32, i32);
word!(AtomicU8, u8);
word!(AtomicU32, u32);
word!(AtomicU64, u64);

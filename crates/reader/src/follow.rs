//! One profile read again and again. A stack keeps its index from one snapshot to the next.

use crate::ReadAt;
use crate::defect::{Defect, ReadError};
use crate::entries;
use crate::fields::Entry;
use crate::reading::Reading;
use crate::region::Region;
use crate::snapshot::{Counting, Header, Snapshot, Stack};
use hashbrown::{DefaultHashBuilder, HashTable};
use ramson_format::{KINDS, Kind, LookupAddress, RegionKind, flags};
use std::hash::BuildHasher;

/// Reads the profile of one process, any number of times.
#[derive(Default)]
pub struct Follower {
    snapshot: Option<Snapshot>,
    numbers: Numbers,
}

/// Which entries of the file the stacks of the snapshot are.
#[derive(Default)]
struct Numbers {
    /// For each entry the index of its stack; `None`: it was not whole.
    renumbered: Vec<Option<usize>>,
    /// Frames of all that are whole.
    frames: u64,
    /// Indices of stacks, by what they are.
    known: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl Follower {
    /// Takes a reading that was made elsewhere, of the same process as the one before.
    pub fn take(&mut self, snapshot: Snapshot) -> &mut Snapshot {
        self.snapshot.insert(snapshot)
    }

    /// Reads what there is now; of another process image than before, all anew. Never panics, whatever the bytes; takes memory
    /// in proportion to the bytes that are present. After an error the snapshot is the one before.
    pub fn read<S: ReadAt + ?Sized>(&mut self, source: &S) -> Result<&mut Snapshot, ReadError> {
        if let Some(passed) = source.apart() {
            let snapshot = passed.snapshot()?;
            return Ok(self.go_on_with(snapshot));
        }
        let mut reading = Reading::begin(source)?;
        let (keys, samples) = reading.live_table()?;
        let (mut freed, max_freed) = reading.freed()?;
        // Newer than the samples: none of those may name a stack that we do not know yet.
        reading.read_header()?;
        let mut header = reading.facts();
        let goes_on = self.goes_on(&header);
        let entries = reading.region(RegionKind::Stacks)?;
        let frames = if goes_on && self.numbers.has_all(&entries) {
            reading.unread(RegionKind::Frames)?
        } else {
            reading.region(RegionKind::Frames)?
        };
        let (mappings, allocators) = reading.objects()?;
        let mut stacks = self.take_stacks(goes_on);
        let bad = self.numbers.update(&mut stacks, &entries, &frames);
        reading.count(bad, Defect::BadStacks);
        let number = |stack: usize| self.numbers.renumbered.get(stack).copied().flatten();
        reading.add_failures(&mut header, number);
        let (live, extents) = reading.live(&keys, &samples, &self.numbers.renumbered);
        freed.retain_mut(|freed| {
            // A free whose stack was damaged has none; one whose allocation's stack was is of no use.
            freed.free_stack = freed.free_stack.and_then(number);
            number(freed.alloc_stack).map(|stack| freed.alloc_stack = stack).is_some()
        });
        let defects = reading.defects;
        let counting = Counting::default();
        let snapshot = Snapshot {
            header,
            mappings,
            allocators,
            stacks,
            live,
            extents,
            freed,
            max_freed,
            defects,
            go_as_of_ns: None,
            counting,
        };
        Ok(self.snapshot.insert(snapshot))
    }

    /// Takes a snapshot that was read elsewhere, with the stacks under the indices that they have here.
    fn go_on_with(&mut self, mut new: Snapshot) -> &mut Snapshot {
        let goes_on = self.goes_on(&new.header);
        let mut stacks = self.take_stacks(goes_on);
        let renumbered: Vec<usize> = std::mem::take(&mut new.stacks)
            .into_iter()
            .enumerate()
            .map(|(number, stack)| self.numbers.take(&mut stacks, number, stack))
            .collect();
        new.stacks = stacks;
        let stack_of = |stack: &mut usize| *stack = renumbered[*stack];
        new.live.iter_mut().for_each(|sample| stack_of(&mut sample.stack));
        new.extents.iter_mut().for_each(|extent| stack_of(&mut extent.stack));
        for freed in &mut new.freed {
            stack_of(&mut freed.alloc_stack);
            freed.free_stack.iter_mut().for_each(stack_of);
        }
        let header = &mut new.header;
        let failures = header.last_failure.iter_mut().chain(&mut header.last_abort);
        failures.for_each(|failure| stack_of(&mut failure.stack));
        self.snapshot.insert(new)
    }

    /// Whether it is of the same process image as the snapshot before.
    /// Returns the stacks that are known already; of a recording that does not go on, the first ones that each has.
    fn take_stacks(&mut self, goes_on: bool) -> Vec<Stack> {
        match self.snapshot.take() {
            Some(before) if goes_on => before.stacks,
            _ => {
                self.numbers = Numbers::default();
                KINDS.map(Stack::overflow).to_vec()
            }
        }
    }

    fn goes_on(&self, header: &Header) -> bool {
        // A recording that moved from memory to a file has its stacks under other numbers.
        let place = |header: &Header| header.flags & flags::PRIVATE;
        let image =
            |header: &Header| (header.pid, header.start_monotonic_ns, header.run_id, place(header));
        let is_same = |before: &Snapshot| image(&before.header) == image(header);
        self.snapshot.as_ref().is_some_and(is_same)
    }

    /// The latest one; `None` before the first.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The same, to choose how its live bytes are counted.
    pub fn snapshot_mut(&mut self) -> Option<&mut Snapshot> {
        self.snapshot.as_mut()
    }

    /// Memory that it holds, nearly.
    pub fn bytes(&self) -> usize {
        let Some(snapshot) = &self.snapshot else { return 0 };
        let frames = snapshot.stacks.iter().map(|stack| size_of_val(&*stack.frames));
        size_of_val(&*snapshot.stacks) + frames.sum::<usize>() + size_of_val(&*snapshot.live)
    }
}

impl Numbers {
    /// Whether each of these entries was whole before.
    fn has_all(&self, entries: &Region) -> bool {
        let is_known = |number: usize| self.renumbered.get(number).is_some_and(Option::is_some);
        entries.entries().all(|(number, _)| is_known(number))
    }

    /// Brings the counters of `stacks` up to date, and adds the stacks that are new. How many entries are not whole.
    fn update(&mut self, stacks: &mut Vec<Stack>, entries: &Region, frames: &Region) -> u64 {
        let new = (entries.count() as usize).saturating_sub(stacks.len());
        stacks.reserve_exact(new);
        self.known.reserve(new, |&index| self.hasher.hash_one(identity(&stacks[index])));
        let mut counted = Vec::new();
        let mut bad = entries.absent;
        for (number, bytes) in entries.entries() {
            if number >= self.renumbered.len() {
                self.renumbered.resize(number + 1, None);
            }
            let known = self.renumbered[number];
            let found = known.or_else(|| self.add(stacks, number, Entry(bytes), frames));
            self.renumbered[number] = found;
            let Some(index) = found else {
                bad += 1;
                continue;
            };
            counted.resize(stacks.len(), false);
            let stack = &mut stacks[index];
            let mut counters = entries::counters(Entry(bytes));
            if let Some(kind) = KINDS.get(number) {
                counters.flags = kind.stack_flags();
            }
            // Two threads that met a stack at once each wrote an entry.
            if std::mem::replace(&mut counted[index], true) {
                stack.add_counters(counters);
            } else {
                *stack = Stack { frames: std::mem::take(&mut stack.frames), ..counters };
            }
        }
        bad
    }

    /// The index of the stack of a new entry, if it is whole.
    fn add(
        &mut self,
        stacks: &mut Vec<Stack>,
        number: usize,
        entry: Entry,
        frames: &Region,
    ) -> Option<usize> {
        if number < KINDS.len() {
            return Some(number);
        }
        let stack = entries::stack(entry, frames)?;
        // Each has frames of its own: they are no more than there are.
        let all_frames = self.frames + stack.frames.len() as u64;
        self.frames = Some(all_frames).filter(|&all| all <= frames.count())?;
        Some(self.index_of(stacks, stack))
    }

    /// The index of a whole stack, which has now these counters.
    fn take(&mut self, stacks: &mut Vec<Stack>, number: usize, stack: Stack) -> usize {
        let index = match KINDS.get(number) {
            Some(_) => number,
            None => self.index_of(stacks, stack.clone()),
        };
        stacks[index] = stack;
        index
    }

    /// The index of the stack with these frames, which is added if there is none.
    fn index_of(&mut self, stacks: &mut Vec<Stack>, stack: Stack) -> usize {
        let hash = self.hasher.hash_one(identity(&stack));
        let known = self.known.find(hash, |&index| identity(&stacks[index]) == identity(&stack));
        if let Some(&index) = known {
            return index;
        }
        let index = stacks.len();
        stacks.push(stack);
        let rehash = |&index: &usize| self.hasher.hash_one(identity(&stacks[index]));
        self.known.insert_unique(hash, index, rehash);
        index
    }
}

/// Entries with the same are one stack.
fn identity(stack: &Stack) -> (Kind, u32, &[LookupAddress]) {
    (stack.kind(), stack.epoch, &stack.frames)
}

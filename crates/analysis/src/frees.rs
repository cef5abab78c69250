//! Sampled blocks that were freed of late, with the stacks that allocated and freed them: for the address that a program
//! crashed on.

use crate::named::{Named, assemble_stacks, stack_number};
use crate::naming::Names;
use ramson_profile::format::format_objects;
use ramson_profile::{FrameName, FrameTable, Profile};
use ramson_reader::{Freed, LiveSample};
use ramson_source::{Failure, Recording};
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Frees {
    /// Number of frees that the profile can hold.
    pub max_frees: u64,
    /// Address that was asked for; null: none.
    pub address: Option<Address>,
    /// Pairs of freeing and allocating function; those with the most blocks first.
    pub pairs: Vec<Pair>,
    /// Freed blocks, the latest first.
    pub frees: Vec<FreedBlock>,
    /// Live blocks in which the address lies. `live` is what the whole process has.
    #[serde(rename = "live_blocks")]
    pub live: Vec<Block>,
    /// When the process began to be recorded; nanoseconds since 1970.
    #[serde(skip)]
    pub start_unix_ns: u64,
    /// Why there is nothing, if there is nothing.
    #[serde(skip)]
    pub nothing: Option<String>,
}

/// A block that was sampled.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Block {
    /// First byte.
    pub address: Address,
    /// Requested bytes.
    pub size: u64,
    /// Bytes from the block's first byte to the address that was asked for; null: none was.
    pub offset: Option<u64>,
    /// Nanoseconds since 1970.
    pub alloc_unix_ns: u64,
    /// Thread that allocated it.
    pub alloc_tid: u32,
    /// Leaf first; `None`: not known.
    pub alloc_stack: Option<Vec<FrameName>>,
}

/// A block that was freed.
#[derive(Serialize, schemars::JsonSchema)]
pub struct FreedBlock {
    /// Number of the free among those that were remembered, from 1.
    pub number: u64,
    /// The block, as it was allocated.
    #[serde(flatten)]
    pub block: Block,
    /// Nanoseconds since 1970.
    pub free_unix_ns: u64,
    /// Thread that freed it.
    pub free_tid: u32,
    /// Leaf first; `None`: not known.
    pub free_stack: Option<Vec<FrameName>>,
}

/// Remembered blocks that one function freed and one allocated: raw samples, not estimates of all blocks.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Pair {
    /// `None`: not known.
    pub freed_by: Option<FrameName>,
    /// `None`: not known.
    pub allocated_by: Option<FrameName>,
    /// Number of blocks.
    pub blocks: u64,
    /// Their requested bytes.
    pub bytes: u64,
    /// How long these were live on average.
    pub mean_lifetime_ns: u64,
}

/// An address in hexadecimal.
#[derive(Clone, Copy)]
pub struct Address(pub u64);

impl schemars::JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^0x[0-9a-f]+$" })
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// The blocks; `profile` has their stacks, as `named` made it and filters left it.
pub fn frees(recording: &Recording, profile: &Profile, address: Option<u64>) -> Frees {
    let table = FrameTable::new(profile);
    let frames = |sample| table.stack(sample).map(|at| table.name_at(at)).collect();
    let numbered = |sample| Some((stack_number(sample)?, frames(sample)));
    let stacks: HashMap<usize, Vec<FrameName>> =
        profile.samples.iter().filter_map(numbered).collect();
    let header = &recording.snapshot.header;
    let block = |start: u64, size, alloc_ns, alloc_tid, stack| Block {
        address: Address(start),
        size,
        offset: address.map(|address| address - start),
        alloc_unix_ns: header.unix_ns(alloc_ns),
        alloc_tid,
        alloc_stack: stacks.get(&stack).cloned(),
    };
    let is_left = |stack: usize| stacks.contains_key(&stack);
    let freed = freed(recording, address)
        .filter(|freed| is_left(freed.alloc_stack) || freed.free_stack.is_some_and(is_left));
    let freed = freed.map(|freed| FreedBlock {
        number: freed.number,
        block: block(
            freed.address,
            freed.size,
            freed.alloc_monotonic_ns,
            freed.alloc_tid,
            freed.alloc_stack,
        ),
        free_unix_ns: header.unix_ns(freed.free_monotonic_ns),
        free_tid: freed.free_tid,
        free_stack: freed.free_stack.and_then(|stack| stacks.get(&stack).cloned()),
    });
    let frees: Vec<_> = freed.collect();
    let live = live(recording, address).filter(|live| is_left(live.stack));
    let live: Vec<_> =
        live.map(|it| block(it.address, it.size, it.monotonic_ns, it.tid, it.stack)).collect();
    let is_nothing = frees.is_empty() && live.is_empty();
    Frees {
        max_frees: recording.snapshot.max_freed,
        address: address.map(Address),
        pairs: pairs(&frees),
        frees,
        live,
        start_unix_ns: header.start_realtime_ns,
        nothing: is_nothing.then(|| nothing(recording, address)),
    }
}

fn pairs(frees: &[FreedBlock]) -> Vec<Pair> {
    let leaf = |stack: &Option<Vec<FrameName>>| stack.as_ref()?.first().cloned();
    let mut pairs: HashMap<_, Pair> = HashMap::new();
    let mut lifetimes: HashMap<_, u128> = HashMap::new();
    for freed in frees {
        let key = (leaf(&freed.free_stack), leaf(&freed.block.alloc_stack));
        let (freed_by, allocated_by) = key.clone();
        let lived = freed.free_unix_ns.saturating_sub(freed.block.alloc_unix_ns);
        *lifetimes.entry(key.clone()).or_default() += u128::from(lived);
        let empty = Pair { freed_by, allocated_by, blocks: 0, bytes: 0, mean_lifetime_ns: 0 };
        let pair = pairs.entry(key).or_insert(empty);
        pair.blocks += 1;
        pair.bytes = pair.bytes.saturating_add(freed.block.size);
    }
    let with_mean = |(key, mut pair): (_, Pair)| {
        pair.mean_lifetime_ns = (lifetimes[&key] / u128::from(pair.blocks)) as u64;
        pair
    };
    let mut pairs: Vec<Pair> = pairs.into_iter().map(with_mean).collect();
    let name = |of: &Option<FrameName>| of.as_ref().map(FrameName::short);
    let order = |pair: &Pair| (name(&pair.freed_by), name(&pair.allocated_by));
    pairs.sort_by_cached_key(|pair| (Reverse(pair.blocks), Reverse(pair.bytes), order(pair)));
    pairs
}

/// The stacks of the blocks that will be shown, with their names.
pub fn named(recording: &Recording, names: &Names, address: Option<u64>) -> Result<Named, Failure> {
    let of_freed = freed(recording, address)
        .flat_map(|freed| [Some(freed.alloc_stack), freed.free_stack].into_iter().flatten());
    let of_live = live(recording, address).map(|live| live.stack);
    let stacks: BTreeSet<usize> = of_freed.chain(of_live).collect();
    assemble_stacks(recording, names, &stacks)
}

/// The latest first.
fn freed(recording: &Recording, address: Option<u64>) -> impl Iterator<Item = &Freed> {
    let freed = recording.snapshot.freed.iter();
    freed.filter(move |freed| {
        address.is_none_or(|address| lies_in(address, freed.address, freed.size))
    })
}

/// Live blocks are shown only where an address lies in them.
fn live(recording: &Recording, address: Option<u64>) -> impl Iterator<Item = &LiveSample> {
    let live = recording.snapshot.live.iter();
    live.filter(move |live| {
        address.is_some_and(|address| lies_in(address, live.address, live.size))
    })
}

fn lies_in(address: u64, start: u64, bytes: u64) -> bool {
    address >= start && address - start < bytes.max(1)
}

fn nothing(recording: &Recording, address: Option<u64>) -> String {
    let snapshot = &recording.snapshot;
    let remembered = snapshot.freed.len() as u64;
    if snapshot.max_freed == 0 {
        return "this profile remembers no frees: start the program with \"ramson run --recent-frees 1024\" or RAMSON_FREES=1024".into();
    }
    let Some(address) = address else { return "no sampled block was freed yet".into() };
    let mut text = format!(
        "{address:#x} is in none of the {} sampled blocks that were freed last, and in no live one.",
        format_objects(remembered as f64)
    );
    if snapshot.header.interval_bytes > 1 {
        text += " Most blocks are not sampled: --interval 1 --recent-frees 65536 records every one";
    } else if remembered >= snapshot.max_freed {
        text += " Older frees are forgotten: a larger --recent-frees remembers more";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_matched_to_its_block() {
        assert!(lies_in(0x1000, 0x1000, 64) && lies_in(0x103f, 0x1000, 64));
        assert!(!lies_in(0xfff, 0x1000, 64) && !lies_in(0x1040, 0x1000, 64));
        // malloc(0) gives an address of its own.
        assert!(lies_in(0x1000, 0x1000, 0) && !lies_in(0x1001, 0x1000, 0));
    }
}

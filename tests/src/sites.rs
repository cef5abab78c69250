//! Which call site of a test program holds what.

use crate::build::tool;
use ramson_format::{Health, Kind};
use ramson_reader::{Extent, LiveSample, Snapshot, Stack};
use std::collections::BTreeMap;
use std::path::Path;

/// The functions of a program, from nm.
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads the functions of the program at `path`.
    pub fn of(path: &Path) -> Self {
        let mut functions: Vec<_> = tool("nm", &["--defined-only".as_ref(), path.as_os_str()])
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
                is_code.then_some((address, words.next()?.to_owned()))
            })
            .collect();
        functions.sort();
        Self(functions)
    }

    /// The function at a file address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map(|index| self.0[index].1.as_str())
    }
}

/// Allocations of a call site, in exact numbers if everything was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Sampled, unweighted.
    pub alloc_objects: u64,
    /// Sampled, unweighted.
    pub alloc_bytes: u64,
    /// Sampled, unweighted.
    pub freed_objects: u64,
    /// Sampled, unweighted.
    pub freed_bytes: u64,
    /// Live samples, or extents without reservations.
    pub live_objects: u64,
    /// Their sizes.
    pub live_bytes: u64,
    /// Weighted objects that were allocated.
    pub weighted_alloc_objects: f64,
    /// Weighted bytes that were allocated.
    pub weighted_alloc_space: f64,
}

impl Site {
    /// `alloc` and `live` objects, all of `size` bytes, each counted once.
    pub fn exactly(alloc: u64, live: u64, size: u64) -> Self {
        Self {
            alloc_objects: alloc,
            alloc_bytes: alloc * size,
            freed_objects: alloc - live,
            freed_bytes: (alloc - live) * size,
            live_objects: live,
            live_bytes: live * size,
            weighted_alloc_objects: alloc as f64,
            weighted_alloc_space: (alloc * size) as f64,
        }
    }

    fn add_stack(&mut self, stack: &Stack) {
        self.alloc_objects += stack.sampled_alloc_objects;
        self.alloc_bytes += stack.sampled_alloc_bytes;
        self.freed_objects += stack.sampled_freed_objects;
        self.freed_bytes += stack.sampled_freed_bytes;
        self.weighted_alloc_objects += stack.alloc_objects;
        self.weighted_alloc_space += stack.alloc_space;
    }

    fn add_live(&mut self, sample: &LiveSample) {
        self.live_objects += 1;
        self.live_bytes += sample.size;
    }

    fn add_extent(&mut self, extent: &Extent) {
        if !extent.is_reserved {
            self.live_objects += 1;
            self.live_bytes += extent.bytes;
        }
    }
}

/// The counts of every function whose name begins with `site_`, taken over the innermost such frame of each stack.
pub fn sites(snapshot: &Snapshot, program: &Path) -> BTreeMap<String, Site> {
    let symbols = Symbols::of(program);
    let names: Vec<_> =
        snapshot.stacks.iter().map(|stack| site_name(snapshot, stack, program, &symbols)).collect();
    let mut sites = BTreeMap::<String, Site>::new();
    for (stack, name) in snapshot.stacks.iter().zip(&names) {
        if let Some(name) = name {
            sites.entry(name.clone()).or_default().add_stack(stack);
        }
    }
    for sample in &snapshot.live {
        if let Some(name) = &names[sample.stack] {
            sites.entry(name.clone()).or_default().add_live(sample);
        }
    }
    for extent in &snapshot.extents {
        if let Some(name) = &names[extent.stack] {
            sites.entry(name.clone()).or_default().add_extent(extent);
        }
    }
    sites
}

fn site_name(
    snapshot: &Snapshot,
    stack: &Stack,
    program: &Path,
    symbols: &Symbols,
) -> Option<String> {
    let program = program.canonicalize().ok()?;
    stack.frames.iter().find_map(|&address| {
        let mapping = &snapshot.mappings[snapshot.mapping_at(address, stack.epoch)?];
        if Path::new(&mapping.path) != program {
            return None;
        }
        let name = symbols.at(address.0 - mapping.bias)?;
        name.starts_with("site_").then(|| name.to_owned())
    })
}

/// The sum over all stacks.
pub fn total(snapshot: &Snapshot) -> Site {
    let mut total = Site::default();
    snapshot.stacks.iter().for_each(|stack| total.add_stack(stack));
    snapshot.live.iter().for_each(|sample| total.add_live(sample));
    snapshot.extents.iter().for_each(|extent| total.add_extent(extent));
    total
}

/// The sum over the heap's stacks. Mappings add up in bytes only: a mapping that is cut in two becomes two extents.
pub fn heap_total(snapshot: &Snapshot) -> Site {
    let mut total = Site::default();
    let stacks = snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Heap);
    stacks.for_each(|stack| total.add_stack(stack));
    snapshot.live.iter().for_each(|sample| total.add_live(sample));
    total
}

/// Live samples of `size` bytes.
pub fn live_of_size(snapshot: &Snapshot, size: u64) -> u64 {
    snapshot.live.iter().filter(|sample| sample.size == size).count() as u64
}

/// A health counter.
pub fn health(snapshot: &Snapshot, counter: Health) -> u64 {
    snapshot.header.health[counter as usize]
}

/// The quantities of [`estimates`].
pub const ESTIMATES: [&str; 4] = ["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"];

/// Value and variance of each of `ESTIMATES`.
pub fn estimates(snapshot: &Snapshot) -> [(f64, f64); 4] {
    let mut sums = [(0.0, 0.0); 4];
    let mut add = |index: usize, value: f64, variance: f64| {
        sums[index] = (sums[index].0 + value, sums[index].1 + variance);
    };
    for sample in &snapshot.live {
        let objects = sample.inverse_probability;
        let size = sample.size as f64;
        let variance = objects * (objects - 1.0);
        add(0, objects * size, variance * size * size);
        add(1, objects, variance);
    }
    for stack in &snapshot.stacks {
        add(2, stack.alloc_space, stack.alloc_space_variance);
        add(3, stack.alloc_objects, stack.alloc_objects_variance);
    }
    sums
}

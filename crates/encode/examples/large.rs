//! Writes a large pprof file, the same one for the same arguments: `large FILE [SAMPLES [SEED]]`. A million samples make about
//! 100 MB before gzip; a FILE that ends in `.gz` is packed.
//!
//! Stacks are walks from few roots through a graph of calls, 10 to 49 addresses deep. They share their outer frames, as real ones do, and
//! nearly all differ: the worst case for whatever interns stacks or builds trees.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};

const LOCATIONS: u64 = 50_000;
const FUNCTIONS: u64 = 20_000;
const FILES: u64 = 1_000;
const THREADS: u64 = 16;
/// Number of locations that one location calls.
const FAN_OUT: u64 = 6;
const LEAST_DEPTH: u64 = 10;
const DEPTHS: u64 = 40;
/// Entries of the string table, after the empty text.
const WORDS: [&str; 9] = [
    "alloc_objects",
    "count",
    "alloc_space",
    "bytes",
    "inuse_objects",
    "inuse_space",
    "space",
    "thread",
    "/usr/bin/large",
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: u64| match arguments.get(index) {
        Some(text) => text.parse().map_err(|_| io::Error::other(format!("{text}: not a number"))),
        None => Ok(default),
    };
    let path = arguments.get(1).ok_or_else(|| io::Error::other("large FILE [SAMPLES [SEED]]"))?;
    let samples = number(2, 1_000_000)?;
    let seed = number(3, 1)?;
    let out = BufWriter::new(std::fs::File::create(path)?);
    if path.ends_with(".gz") {
        let mut gzip = GzEncoder::new(out, Compression::fast());
        write(&mut gzip, samples, seed)?;
        gzip.finish()?.flush()
    } else {
        let mut out = out;
        write(&mut out, samples, seed)?;
        out.flush()
    }
}

fn write(out: &mut dyn Write, samples: u64, seed: u64) -> io::Result<()> {
    for (name, unit) in [(1, 2), (3, 4), (5, 2), (6, 4)] {
        message(out, 1, &fields(&[(1, name), (2, unit)]))?;
    }
    let mut random = Random(seed);
    let mut stack = Vec::new();
    for _ in 0..samples {
        message(out, 2, &sample(&mut random, &mut stack))?;
    }
    message(out, 3, &fields(&[(1, 1), (2, 0x40_0000), (3, 0x4000_0000), (5, 9)]))?;
    for location in 0..LOCATIONS {
        let mut bytes = fields(&[(1, location + 1), (2, 1), (3, 0x40_1000 + 16 * location)]);
        let function = mixed(location) % FUNCTIONS;
        message(&mut bytes, 4, &fields(&[(1, function + 1), (2, location % 997 + 1)]))?;
        message(out, 4, &bytes)?;
    }
    let first_thread = WORDS.len() as u64 + 1;
    let first_file = first_thread + THREADS;
    let first_name = first_file + FILES;
    for function in 0..FUNCTIONS {
        let name = first_name + function;
        let file = first_file + function % FILES;
        message(out, 5, &fields(&[(1, function + 1), (2, name), (3, name), (4, file)]))?;
    }
    message(out, 6, b"")?;
    for word in WORDS {
        message(out, 6, word.as_bytes())?;
    }
    for thread in 0..THREADS {
        message(out, 6, format!("worker-{thread}").as_bytes())?;
    }
    for file in 0..FILES {
        message(out, 6, format!("/src/large/module_{}/file_{file}.rs", file % 40).as_bytes())?;
    }
    for function in 0..FUNCTIONS {
        let name = format!("large::module_{}::function_{function}", function % FILES % 40);
        message(out, 6, name.as_bytes())?;
    }
    message(out, 11, &fields(&[(1, 7), (2, 4)]))?;
    out.write_all(&fields(&[(12, 512 << 10)]))
}

/// Some stack with its four values, a block size and, on every second one, a thread.
fn sample(random: &mut Random, stack: &mut Vec<u64>) -> Vec<u8> {
    stack.clear();
    let mut location = random.below(4);
    for _ in 0..LEAST_DEPTH + random.below(DEPTHS) {
        stack.push(location + 1);
        // Most calls go where most calls went before.
        let callee = random.below(FAN_OUT).min(random.below(FAN_OUT));
        location = mixed(location * FAN_OUT + callee) % LOCATIONS;
    }
    let mut packed = Vec::with_capacity(3 * stack.len());
    for &id in stack.iter().rev() {
        varint(&mut packed, id);
    }
    let block_bytes = 16 << random.below(12);
    let allocated = 1 + random.below(100);
    let live = random.below(20);
    let mut values = Vec::new();
    for value in [allocated, allocated * block_bytes, live, live * block_bytes] {
        varint(&mut values, value);
    }
    let mut bytes = Vec::with_capacity(packed.len() + 40);
    part(&mut bytes, 1, &packed);
    part(&mut bytes, 2, &values);
    part(&mut bytes, 3, &fields(&[(1, 4), (3, block_bytes), (4, 4)]));
    if random.below(2) == 0 {
        let thread = WORDS.len() as u64 + 1 + random.below(THREADS);
        part(&mut bytes, 3, &fields(&[(1, 8), (2, thread)]));
    }
    bytes
}

fn fields(list: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(field, number) in list {
        varint(&mut bytes, field << 3);
        varint(&mut bytes, number);
    }
    bytes
}

fn part(bytes: &mut Vec<u8>, field: u64, message: &[u8]) {
    varint(bytes, field << 3 | 2);
    varint(bytes, message.len() as u64);
    bytes.extend_from_slice(message);
}

fn message(out: &mut dyn Write, field: u64, message: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(message.len() + 8);
    part(&mut bytes, field, message);
    out.write_all(&bytes)
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % limit
    }
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

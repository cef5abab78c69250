use super::*;
use prost::encoding::encode_varint;

/// A fixed sequence that looks random.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = ramson_format::mix(self.0, 0x5eed);
        self.0 % below
    }
}

const INTERVAL: u64 = 512 << 10;

fn empty() -> State {
    State { numbers: vec![1, 0, INTERVAL], counters: Vec::new(), blocks: Vec::new() }
}

/// Some samples of blocks of any size, of which half are freed at once.
fn run_on(state: &mut State, sequence: &mut Sequence, stacks: u64, samples: u64) {
    let time = state.numbers[1] + 1_000_000;
    state.numbers[1] = time;
    for sample in 0..samples {
        let stack = sequence.next(stacks) as usize;
        if state.counters.len() <= stack {
            state.counters.resize(stack + 1, Counters::default());
        }
        let size = 1 << sequence.next(24) | sequence.next(100);
        let weight = 1.0 / sampling_probability(size, state.interval_bytes());
        let counters = &mut state.counters[stack];
        counters.sampled_objects += 1;
        counters.sampled_bytes += size;
        let units = [SampleUnit::Objects, SampleUnit::Bytes];
        let [objects, space] = units.map(|unit| Estimate::of_sample(size, weight, unit));
        let added = [objects.value, space.value, objects.variance, space.variance];
        counters.weighted.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
        if sequence.next(2) == 0 {
            counters.lifetimes[sequence.next(LIFETIME_BUCKETS as u64) as usize] += 1;
            continue;
        }
        state.blocks.push(Block {
            monotonic_ns: time + sample,
            key: 0x7f00_0000_0000 + sequence.next(1 << 36) / 16 * 16,
            size,
            stack: stack as u32,
            tid: 1000 + sequence.next(8) as u32,
            inverse_probability: weight as f32,
            flags: 0,
        });
    }
    let gone = sequence.next(state.blocks.len() as u64 + 1) / 4;
    for _ in 0..gone {
        let index = sequence.next(state.blocks.len() as u64) as usize;
        state.blocks.remove(index);
    }
    state.blocks.sort_unstable_by_key(Block::key);
}

#[test]
fn chain_restores_counts_exactly() {
    let mut sequence = Sequence(7);
    let mut now = empty();
    let mut written = Trail::default();
    let mut read = Trail::default();
    for round in 0..300 {
        let stacks = 20 + round;
        run_on(&mut now, &mut sequence, stacks, round % 40);
        if round == 100 {
            now.numbers[2] = 4 * INTERVAL;
        }
        let bytes = written.append(&now);
        read.read(&bytes).unwrap();
        let state = &read.state;
        assert_eq!(*state, written.state);
        assert_eq!((&state.numbers, &state.blocks), (&now.numbers, &now.blocks));
        for (read, now) in state.counters.iter().zip(&now.counters) {
            assert_eq!(
                (read.sampled_objects, read.sampled_bytes, read.lifetimes),
                (now.sampled_objects, now.sampled_bytes, now.lifetimes)
            );
            let each = unit(now.sampled_objects, now.sampled_bytes, 4 * INTERVAL);
            for (index, each) in each.into_iter().enumerate() {
                let error = (read.weighted[index] - now.weighted[index]).abs();
                let parts = if index < 2 { 192.0 } else { 48.0 };
                let most = each / parts + now.weighted[index] * 1e-11 + 1e-5;
                assert!(error <= most, "{index}: {error} > {most}");
            }
        }
    }
    assert!(now.blocks.len() > 20 && now.counters.len() > 200);
}

#[test]
fn unchanged_snapshot_takes_few_bytes() {
    let mut now = empty();
    let mut sequence = Sequence(3);
    let mut trail = Trail::default();
    run_on(&mut now, &mut sequence, 2000, 5000);
    let (first, second, third) = (trail.append(&now), trail.append(&now), trail.append(&now));
    assert!(first.len() > 10_000, "{}", first.len());
    assert!(second.len() < 64 && third.len() < 64, "{} {}", second.len(), third.len());
}

#[test]
fn impossible_states_are_restored() {
    let mut now = empty();
    let mut sequence = Sequence(11);
    let mut written = Trail::default();
    let mut read = Trail::default();
    for round in 0..200 {
        run_on(&mut now, &mut sequence, 40, 30);
        for _ in 0..sequence.next(3) {
            let any = sequence.next(u64::MAX) >> sequence.next(64);
            let stacks = now.counters.len() as u64;
            let counters = &mut now.counters[sequence.next(stacks) as usize];
            match sequence.next(4) {
                0 => counters.sampled_objects = any,
                1 => counters.sampled_bytes = any,
                _ => counters.lifetimes[sequence.next(LIFETIME_BUCKETS as u64) as usize] = any,
            }
            let blocks = now.blocks.len() as u64;
            if blocks > 0 {
                let block = &mut now.blocks[sequence.next(blocks) as usize];
                match sequence.next(4) {
                    0 => block.monotonic_ns = any,
                    1 => block.key = any,
                    2 => block.size = any,
                    _ => (block.tid, block.flags) = (any as u32, any as u32 & 7),
                }
            }
        }
        if round % 50 == 49 {
            now.counters.truncate(20);
            now.numbers.truncate(4);
        } else {
            now.numbers.push(sequence.next(u64::MAX));
        }
        now.blocks.sort_unstable_by_key(Block::key);
        let bytes = written.append(&now);
        read.read(&bytes).unwrap();
        let whole = |state: &State| -> Vec<_> {
            let of = |counters: &Counters| {
                (counters.sampled_objects, counters.sampled_bytes, counters.lifetimes)
            };
            state.counters.iter().map(of).collect()
        };
        assert_eq!(whole(&read.state), whole(&now), "{round}");
        assert_eq!((&read.state.numbers, &read.state.blocks), (&now.numbers, &now.blocks));
    }
}

#[test]
fn damaged_differences_never_panic() {
    let mut now = empty();
    let mut sequence = Sequence(5);
    let mut before = Trail::default();
    run_on(&mut now, &mut sequence, 30, 100);
    before.append(&now);
    run_on(&mut now, &mut sequence, 40, 100);
    let bytes = before.clone().append(&now);
    let mut tried = 0;
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(11) {
        tried += 3;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << sequence.next(8);
        refused += usize::from(before.clone().read(&damaged).is_err());
        refused += usize::from(before.clone().read(&bytes[..at]).is_err());
        refused += usize::from(Trail::default().read(&bytes[at + 1..]).is_err());
    }
    assert!(tried > 100 && refused + 2 > tried, "{refused} of {tried}");
    // Whole frames of columns with any numbers.
    for _ in 0..300 {
        let mut columns = Written::default();
        for column in &mut columns.0 {
            for _ in 0..sequence.next(40) {
                encode_varint(sequence.next(u64::MAX) >> sequence.next(64), column);
            }
        }
        let _ = before.clone().read(&columns.finish());
    }
}

use super::*;
use ramson_format::LIFETIME_BUCKETS;

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
            address: 0x7f00_0000_0000 + sequence.next(1 << 36) / 16 * 16,
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
fn a_chain_gives_back_counts_and_blocks_exactly_and_estimates_within_half_a_step() {
    let mut sequence = Sequence(7);
    let (mut now, mut stored, mut read) = (empty(), State::default(), State::default());
    for round in 0..300 {
        let stacks = 20 + round;
        run_on(&mut now, &mut sequence, stacks, round % 40);
        if round == 100 {
            now.numbers[2] = 4 * INTERVAL;
        }
        let (bytes, kept) = encode(&stored, &now).unwrap();
        stored = kept;
        read = decode(read, &bytes).unwrap();
        assert_eq!(read, stored);
        assert_eq!((&read.numbers, &read.blocks), (&now.numbers, &now.blocks));
        for (read, now) in read.counters.iter().zip(&now.counters) {
            assert_eq!(
                (read.sampled_objects, read.sampled_bytes, read.lifetimes),
                (now.sampled_objects, now.sampled_bytes, now.lifetimes)
            );
            let each = unit(now.sampled_objects, now.sampled_bytes, 4 * INTERVAL);
            for (index, each) in each.into_iter().enumerate() {
                let error = (read.weighted[index] - now.weighted[index]).abs();
                let parts = if index < 2 { 64.0 } else { 16.0 };
                let most = each / parts + now.weighted[index] * 1e-11 + 1e-5;
                assert!(error <= most, "{index}: {error} > {most}");
            }
        }
    }
    assert!(now.blocks.len() > 20 && now.counters.len() > 200);
}

#[test]
fn nothing_new_is_some_tens_of_bytes() {
    let (mut now, mut sequence) = (empty(), Sequence(3));
    run_on(&mut now, &mut sequence, 2000, 5000);
    let (first, stored) = encode(&State::default(), &now).unwrap();
    let (again, _) = encode(&stored, &now).unwrap();
    assert!(first.len() > 10_000 && again.len() < 64, "{} {}", first.len(), again.len());
}

#[test]
fn damaged_bytes_are_refused_or_read_and_never_a_panic() {
    let (mut now, mut sequence) = (empty(), Sequence(5));
    run_on(&mut now, &mut sequence, 30, 100);
    let before = now.clone();
    run_on(&mut now, &mut sequence, 40, 100);
    let (bytes, _) = encode(&before, &now).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << sequence.next(8);
        let _ = decode(before.clone(), &damaged);
        let _ = decode(before.clone(), &bytes[..at]);
        let _ = decode(State::default(), &bytes[at..]);
    }
    // Columns that say anything, and not only bytes that do not decompress.
    for _ in 0..2000 {
        let mut out = Writer::new(COLUMNS);
        for _ in 0..sequence.next(60) {
            let number = sequence.next(u64::MAX) >> sequence.next(64);
            out.push(sequence.next(COLUMNS as u64) as usize, number);
        }
        let _ = decode(before.clone(), &out.finish().unwrap());
    }
}

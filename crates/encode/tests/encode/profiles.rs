//! Profiles made for tests: one by hand with everything that is special, and random ones.

use ramson_profile::{
    Estimate, Function, Line, Location, LookupAddress, Mapping, Profile, StackSample,
};

pub const PUSH: &str = "std::vector<Row, std::allocator<Row> >::push_back(Row const&)";
pub const PARSE: &str = "Parser::parse(std::string const&, int)";
pub const LAMBDA: &str = "(anonymous namespace)::load(int)::{lambda(int)#1}::operator()(int) const";
pub const NEW: &str = "operator new(unsigned long)";

/// Indices into `by_hand`'s locations.
pub mod at {
    pub const MAIN: u32 = 0;
    /// `PUSH` inlined into `PARSE`.
    pub const PARSE: u32 = 1;
    /// Another call in `PARSE`.
    pub const PARSE_AGAIN: u32 = 2;
    pub const LAMBDA: u32 = 3;
    /// In the symbolized mapping, without a name.
    pub const NAMELESS: u32 = 4;
    /// In no mapping.
    pub const JIT: u32 = 5;
    /// The allocator's.
    pub const NEW: u32 = 6;
}

/// C++ names with parameters, inlined frames, recursion, an address without a name, JIT code, an empty stack. The binary
/// does not exist.
pub fn by_hand() -> Profile {
    let function = |name: &str, system_name: &str| Function {
        name: name.into(),
        system_name: system_name.into(),
        file: "src/parse.cc".into(),
    };
    let location = |address, lines: &[(usize, u32)]| Location {
        mapping: Some(0),
        address: LookupAddress(address),
        offset: None,
        lines: lines.iter().map(|&(function, line)| Line { function, line }).collect(),
    };
    let mut locations = vec![
        location(0x40_1000, &[(0, 12)]),
        location(0x40_1100, &[(1, 1280), (2, 40)]),
        location(0x40_1200, &[(2, 55)]),
        location(0x40_1300, &[(3, 7)]),
        location(0x40_1400, &[]),
    ];
    locations.push(Location {
        mapping: None,
        address: LookupAddress(0x7fff_0000_1234),
        offset: None,
        lines: vec![],
    });
    locations.push(location(0x40_1500, &[(4, 0)]));
    Profile {
        interval_bytes: 524_288,
        start_unix_ns: 1_700_000_000_000_000_000,
        time_unix_ns: 1_700_000_060_000_000_000,
        command: "parse".into(),
        mappings: vec![Mapping {
            start: 0x40_0000,
            end: 0x50_0000,
            file_offset: 0x1000,
            bias: 0x10_0000,
            path: "/nowhere/parse".into(),
            build_id: "00ff".into(),
            ..Mapping::default()
        }],
        locations,
        functions: vec![
            function("main", "main"),
            function(PUSH, "_ZNSt6vectorI3RowSaIS0_EE9push_backERKS0_"),
            function(PARSE, "_ZN6Parser5parseERKSsi"),
            function(LAMBDA, LAMBDA),
            function(NEW, "_Znwm"),
        ],
        samples: vec![
            stack(&[at::NEW, at::PARSE, at::PARSE_AGAIN, at::PARSE_AGAIN, at::MAIN], 100, 4096, 10),
            stack(&[at::LAMBDA, at::PARSE_AGAIN, at::MAIN], 3, 1000, 3),
            stack(&[at::NAMELESS, at::LAMBDA, at::MAIN], 7, 64, 0),
            stack(&[at::JIT, at::MAIN], 1, 33, 1),
            stack(&[], 2, 16, 2),
        ],
        ..Profile::default()
    }
}

/// `objects` allocations of `size` bytes, of which `live` are live.
pub fn stack(locations: &[u32], objects: i64, size: i64, live: i64) -> StackSample {
    let values = [objects, objects * size, live, live * size];
    let values = values.map(|value| Estimate::exact(value as f64));
    StackSample { locations: locations.to_vec(), values, ..StackSample::default() }
}

/// SplitMix64: the same numbers on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Some functions, some of them with equal names in other files and some the allocator's; locations with up to three
/// inlined lines, one without a name per mapping; stacks with much recursion; values of any sign.
pub fn random(seed: u64) -> Profile {
    let mut random = Random(seed);
    let functions = 3 + random.below(12);
    let mut profile = Profile {
        interval_bytes: 1 << random.below(22),
        time_unix_ns: 1,
        functions: (0..functions).map(|index| random_function(index, &mut random)).collect(),
        mappings: (0..1 + random.below(3)).map(random_mapping).collect(),
        ..Profile::default()
    };
    let mappings = profile.mappings.len();
    // Each mapping has a named location, or pprof would look for its binary, and a nameless one.
    for mapping in 0..mappings {
        for lines in [vec![], vec![Line { function: random.below(functions), line: 1 }]] {
            profile.locations.push(random_location(mapping, lines, &mut random));
        }
    }
    for _ in 0..2 + random.below(20) {
        let lines = (0..1 + random.below(3))
            .map(|_| Line { function: random.below(functions), line: random.below(90) as u32 })
            .collect();
        let mapping = random.below(mappings);
        profile.locations.push(random_location(mapping, lines, &mut random));
    }
    let negative = random.below(4) == 0;
    for _ in 0..1 + random.below(40) {
        let depth = random.below(12);
        let locations: Vec<u32> =
            (0..depth).map(|_| random.below(profile.locations.len()) as u32).collect();
        let sign = if negative && random.below(2) == 0 { -1 } else { 1 };
        let bits = random.below(20);
        let objects = sign * random.below(1 << bits) as i64;
        let live = if random.below(3) == 0 { 0 } else { objects / 2 };
        profile.samples.push(stack(&locations, objects, random.below(1 << 16) as i64, live));
    }
    profile
}

fn random_function(index: usize, random: &mut Random) -> Function {
    let name = match random.below(8) {
        0 => "operator new(unsigned long)".to_string(),
        1 => "std::allocator<int>::allocate(unsigned long)".to_string(),
        2 => "(anonymous namespace)::same(int)".to_string(),
        3 => "alloc::vec::Vec<T,A>::push".to_string(),
        _ => format!("ns::f{index}<int>(char const*)"),
    };
    let system_name = if random.below(2) == 0 { name.clone() } else { format!("_Z{index}") };
    Function {
        name: name.into(),
        system_name: system_name.into(),
        file: format!("{index}.cc").into(),
    }
}

fn random_mapping(index: usize) -> Mapping {
    let start = 0x10_0000 * (index as u64 + 1);
    Mapping {
        start,
        end: start + 0x10_0000,
        file_offset: 0,
        bias: start,
        path: format!("/nowhere/lib{index}.so"),
        build_id: format!("{index:02x}"),
        ..Mapping::default()
    }
}

fn random_location(mapping: usize, lines: Vec<Line>, random: &mut Random) -> Location {
    let address = 0x10_0000 * (mapping as u64 + 1) + random.below(0x10_0000) as u64;
    Location { mapping: Some(mapping), address: LookupAddress(address), lines, offset: None }
}

//! A profile as collapsed stacks, the input of flame graph scripts: one line `root;child;leaf value` per stack.

use ramson_profile::{FrameTable, Profile, SampleType, StackSample, Stacks};
use std::io::{self, Write};

/// Writes one line per distinct stack of function names, sorted, root first, with the rounded value of `sample_type`. In
/// a name `;` becomes `:`; it has no control characters (`FrameTable`). Stacks whose value rounds to 0 are left out. A diff has
/// negative values, which few readers accept. Stacks that are labelled as mmap begin with a frame `[mmap]` where others are not.
pub fn write(profile: &Profile, out: &mut dyn Write, sample_type: SampleType) -> io::Result<()> {
    let frames = FrameTable::new(profile);
    let mut names: Vec<String> =
        frames.ids().map(|id| frames.name(id).name.replace(';', ":")).collect();
    let mmap = names.len();
    names.push("[mmap]".to_owned());
    let is_mmap = |sample: &StackSample| sample.kind() == Some("mmap");
    let is_mixed = !profile.samples.iter().all(is_mmap);
    let Ranks { as_leaf, as_caller, name_of } = Ranks::new(&names);
    let words = profile.samples.iter().map(|sample| sample.locations.len()).sum();
    let mut stacks = Stacks::with_capacity(profile.samples.len(), words);
    for sample in &profile.samples {
        let mut leaf_first = frames.stack(sample).map(|at| at.frame.index());
        let leaf = leaf_first.next().map(|leaf| as_leaf[leaf]);
        let kind = (is_mixed && is_mmap(sample)).then_some(mmap);
        let callers = kind.into_iter().chain(leaf_first.rev());
        stacks.push(callers.map(|caller| as_caller[caller]).chain(leaf));
    }
    for equal in stacks.sorted() {
        let values =
            stacks.members(&equal).map(|index| profile.samples[index].value(sample_type).value);
        let value = values.fold(0.0, |sum, value| sum + value).round() as i64;
        if value != 0 {
            // Name by name: a line is as long as all its names together.
            for (depth, &rank) in stacks.get(stacks.first(&equal)).iter().enumerate() {
                let separator = if depth == 0 { "" } else { ";" };
                write!(out, "{separator}{}", names[name_of[rank as usize]])?;
            }
            writeln!(out, " {value}")?;
        }
    }
    out.flush()
}

/// Numbers that sort stacks as their lines sort as texts. No name holds the separator, so two lines compare as the first
/// names that differ, each with the separator that follows it.
struct Ranks {
    /// Rank of each name if nothing follows.
    as_leaf: Vec<u32>,
    /// Rank of each name if a callee follows. Equal names have equal ranks.
    as_caller: Vec<u32>,
    /// Some name of each rank.
    name_of: Vec<usize>,
}

impl Ranks {
    fn new(names: &[String]) -> Ranks {
        let places = |&(name, has_callee): &(usize, bool)| {
            let separator: &[u8] = if has_callee { b";" } else { b"" };
            names[name].bytes().chain(separator.iter().copied())
        };
        let mut order: Vec<(usize, bool)> =
            (0..names.len()).flat_map(|name| [(name, false), (name, true)]).collect();
        order.sort_by(|one, other| places(one).cmp(places(other)));
        let mut as_leaf = vec![0; names.len()];
        let mut as_caller = vec![0; names.len()];
        let mut name_of = Vec::new();
        for equal in order.chunk_by(|one, other| one.1 == other.1 && names[one.0] == names[other.0])
        {
            for &(name, has_callee) in equal {
                let ranks = if has_callee { &mut as_caller } else { &mut as_leaf };
                ranks[name] = name_of.len() as u32;
            }
            name_of.push(equal[0].0);
        }
        Ranks { as_leaf, as_caller, name_of }
    }
}

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
    // Numbers that sort stacks as their lines sort as texts: no name holds the separator, so two lines compare as the first
    // names that differ, each with the separator that follows it.
    let mut texts: Vec<String> =
        names.iter().flat_map(|name| [name.clone(), format!("{name};")]).collect();
    texts.sort_unstable();
    texts.dedup();
    let rank = |text: &String| texts.binary_search(text).map_or(0, |rank| rank as u32);
    let as_leaf: Vec<u32> = names.iter().map(rank).collect();
    let as_caller: Vec<u32> = names.iter().map(|name| rank(&format!("{name};"))).collect();
    let stacks = profile.samples.iter().map(|sample| {
        let mut leaf_first = frames.stack(sample).map(|at| at.frame.index());
        let leaf = leaf_first.next().map(|leaf| as_leaf[leaf]);
        let kind = (is_mixed && is_mmap(sample)).then_some(mmap);
        let callers = kind.into_iter().chain(leaf_first.rev());
        callers.map(|caller| as_caller[caller]).chain(leaf)
    });
    let mut stacks: Stacks = stacks.collect();
    for equal in stacks.sorted() {
        let values =
            stacks.members(&equal).map(|index| profile.samples[index].value(sample_type).value);
        let value = values.fold(0.0, |sum, value| sum + value).round() as i64;
        if value != 0 {
            for &rank in stacks.get(stacks.first(&equal)) {
                out.write_all(texts[rank as usize].as_bytes())?;
            }
            writeln!(out, " {value}")?;
        }
    }
    out.flush()
}

//! A profile as collapsed stacks, the input of flame graph scripts: one line `root;child;leaf value` per stack.

use ramson_profile::{FrameTable, Profile, SampleType};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes one line per distinct stack of function names, sorted, root first, with the rounded value of `sample_type`. In
/// a name `;` becomes `:` and a control character a space. Stacks whose value rounds to 0 are left out. A diff has
/// negative values, which few readers accept.
pub fn write(profile: &Profile, out: &mut dyn Write, sample_type: SampleType) -> io::Result<()> {
    let frames = FrameTable::new(profile);
    let names: Vec<String> = frames.ids().map(|id| one_word(&frames.name(id).name)).collect();
    let mut stacks: BTreeMap<String, f64> = BTreeMap::new();
    for sample in &profile.samples {
        let mut text = String::new();
        for at in frames.stack(sample).rev() {
            if !text.is_empty() {
                text.push(';');
            }
            text.push_str(&names[at.frame.index()]);
        }
        *stacks.entry(text).or_default() += sample.value(sample_type).value;
    }
    for (stack, value) in stacks {
        let value = value.round() as i64;
        if value != 0 {
            writeln!(out, "{stack} {value}")?;
        }
    }
    out.flush()
}

fn one_word(name: &str) -> String {
    let replace = |letter: char| match letter {
        ';' => ':',
        _ if letter.is_control() => ' ',
        _ => letter,
    };
    name.chars().map(replace).collect()
}

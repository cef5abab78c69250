//! Excess that no real profile has, and a made-up one may: it is cut off before anything is computed. A few bytes of a file name a code
//! address again, and each time all its inlined frames; a view or an encoder that goes through the frames of all stacks would take
//! time and memory for their product.

use crate::merge::merge_equal_samples;
use crate::model::{Profile, StackSample};
use hashbrown::HashMap;
use std::sync::Arc;

/// Frames of a stack, inlined ones included. A deeper stack is cut at the root.
const MOST_STACK_FRAMES: usize = 4096;
/// Bytes of the name of a function or file. The longest of C++ templates have some thousands.
pub const MOST_NAME_BYTES: usize = 16 << 10;
/// Frames inlined into one code address. Frames further out are cut.
const MOST_INLINED: usize = 256;
/// Frames of all stacks together, on average, for each code address in them; real programs have one to three.
const MOST_FRAMES_PER_ADDRESS: u64 = 8;
/// Frames that any profile may have.
const FREE_FRAMES: u64 = 1 << 18;

/// How much was cut off. No value changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    /// Frames of stacks.
    pub frames: u64,
    /// Names of functions and files that lost their end.
    pub names: u64,
}

/// Cuts stacks, inlined frames and names to what real ones have. Takes one pass over the stacks where nothing is to be cut.
pub fn cut_excess(profile: &mut Profile) -> Excess {
    let names = cut_names(profile);
    let before = Sums::of(profile);
    let mut now = before;
    if before.most_inlined > MOST_INLINED {
        cut_inlined(profile, MOST_INLINED);
        now = Sums::of(profile);
    }
    if now.deepest > MOST_STACK_FRAMES {
        cut_stacks(profile);
        now = Sums::of(profile);
    }
    // The loop ends, because `MOST_FRAMES_PER_ADDRESS` frames at each address are within the bound whatever the stacks are.
    while now.frames > FREE_FRAMES + MOST_FRAMES_PER_ADDRESS * now.addresses {
        cut_inlined(profile, now.most_inlined / 2);
        now = Sums::of(profile);
    }
    let frames = before.frames - now.frames;
    if frames > 0 {
        merge_equal_samples(&mut profile.samples);
    }
    Excess { frames, names }
}

/// Sums over all stacks.
#[derive(Clone, Copy, Default)]
struct Sums {
    frames: u64,
    addresses: u64,
    /// Frames of the deepest one.
    deepest: usize,
    most_inlined: usize,
}

impl Sums {
    fn of(profile: &Profile) -> Sums {
        let frames_of = frames_by_location(profile);
        let most_inlined = frames_of.iter().copied().max().unwrap_or(0);
        let mut sums = Sums { most_inlined, ..Sums::default() };
        for sample in &profile.samples {
            let depth = match most_inlined {
                0 | 1 => sample.locations.len(),
                _ => sample.locations.iter().map(|&at| frames_of[at as usize]).sum(),
            };
            sums.frames += depth as u64;
            sums.addresses += sample.locations.len() as u64;
            sums.deepest = sums.deepest.max(depth);
        }
        sums
    }
}

fn frames_by_location(profile: &Profile) -> Vec<usize> {
    profile.locations.iter().map(|location| location.lines.len().max(1)).collect()
}

/// Keeps the innermost.
fn cut_inlined(profile: &mut Profile, most: usize) {
    for location in &mut profile.locations {
        location.lines.truncate(most);
        location.lines.shrink_to_fit();
    }
}

/// Keeps what is next to the leaf.
fn cut_stacks(profile: &mut Profile) {
    let frames_of = frames_by_location(profile);
    let kept = |sample: &StackSample| {
        let depths = sample.locations.iter().scan(0, |depth, &at| {
            *depth += frames_of[at as usize];
            Some(*depth)
        });
        depths.take_while(|&depth| depth <= MOST_STACK_FRAMES).count()
    };
    for sample in &mut profile.samples {
        let kept = kept(sample);
        if kept < sample.locations.len() {
            sample.locations.truncate(kept);
            sample.locations.shrink_to_fit();
        }
    }
}

/// A name that is cut ends in ….
fn cut_names(profile: &mut Profile) -> u64 {
    let mut cut = 0;
    let paths = profile.mappings.iter_mut().map(|mapping| &mut mapping.path);
    for text in paths.chain([&mut profile.command]) {
        if text.len() > MOST_NAME_BYTES {
            text.truncate(beginning(text, MOST_NAME_BYTES).len());
            text.push('…');
            cut += 1;
        }
    }
    // Many functions may share one text: what is left of it is shared as well.
    let mut known: HashMap<*const u8, Arc<str>> = HashMap::new();
    for function in &mut profile.functions {
        for text in [&mut function.name, &mut function.system_name, &mut function.file] {
            if text.len() > MOST_NAME_BYTES {
                let shorter = || format!("{}…", beginning(text, MOST_NAME_BYTES)).into();
                *text = known.entry(text.as_ptr()).or_insert_with(shorter).clone();
                cut += 1;
            }
        }
    }
    cut
}

/// The first characters of a text, of at most so many bytes.
pub fn beginning(text: &str, most_bytes: usize) -> &str {
    let end = (0..=most_bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;
    use crate::model::{Function, Line, Location, SampleType};
    use ramson_format::LookupAddress;

    /// A profile of one function, with locations of so many inlined frames, and stacks of locations.
    fn profile(inlined: &[usize], stacks: Vec<Vec<u32>>) -> Profile {
        let name: Arc<str> = "f".into();
        let function = Function { name: name.clone(), system_name: name, file: "".into() };
        let location = |(index, &lines): (usize, &usize)| Location {
            mapping: None,
            address: LookupAddress(index as u64 + 1),
            offset: None,
            lines: vec![Line { function: 0, line: 1 }; lines],
        };
        let values = [Estimate::exact(7.0); 4];
        let sample = |locations| StackSample { locations, values, ..StackSample::default() };
        Profile {
            functions: vec![function],
            locations: inlined.iter().enumerate().map(location).collect(),
            samples: stacks.into_iter().map(sample).collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn what_real_programs_have_stays() {
        let stacks = vec![vec![0, 1, 2], vec![], vec![1; MOST_STACK_FRAMES]];
        let mut found = profile(&[MOST_INLINED, 1, 0], stacks);
        let before = found.clone();
        assert_eq!(cut_excess(&mut found), Excess::default());
        assert_eq!(found, before);
    }

    #[test]
    fn deep_inlined_stack_is_cut() {
        let mut found = profile(&[40_000], vec![vec![0; 40_000]]);
        let excess = cut_excess(&mut found);
        let sums = Sums::of(&found);
        assert_eq!(excess.frames, 1_600_000_000 - sums.frames);
        assert!((1..=MOST_STACK_FRAMES).contains(&sums.deepest), "{}", sums.deepest);
        assert_eq!(found.total(SampleType::InuseSpace).value, 7.0);
    }

    #[test]
    fn many_inlined_frames_are_cut() {
        let stacks = (0..20_000).map(|stack| vec![0, stack % 7 + 1, 0, stack / 7 + 1, 0]).collect();
        let mut found = profile(&[MOST_INLINED; 3000], stacks);
        let excess = cut_excess(&mut found);
        let sums = Sums::of(&found);
        assert_eq!((sums.addresses, sums.most_inlined), (100_000, 8));
        assert_eq!(excess.frames, 100_000 * (MOST_INLINED as u64 - 8));
        assert_eq!(found.total(SampleType::InuseSpace).value, 140_000.0);
    }

    #[test]
    fn equally_cut_stacks_are_merged() {
        let deep = |root| [vec![0; MOST_STACK_FRAMES], vec![root]].concat();
        let mut found = profile(&[1, 1, 1], vec![deep(1), deep(2)]);
        assert_eq!(cut_excess(&mut found).frames, 2);
        assert_eq!(found.samples.len(), 1);
        assert_eq!(found.total(SampleType::InuseSpace).value, 14.0);
    }

    #[test]
    fn long_name_is_cut_between_characters() {
        let mut found = profile(&[1], vec![vec![0]]);
        found.functions[0].name = "ä€".repeat(MOST_NAME_BYTES).into();
        assert_eq!(cut_excess(&mut found), Excess { frames: 0, names: 1 });
        let name = &found.functions[0].name;
        assert!(name.ends_with('…') && name.len() <= MOST_NAME_BYTES + 3, "{}", name.len());
    }
}

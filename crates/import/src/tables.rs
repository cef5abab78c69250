//! Tables of the largest stacks that a tool prints now and then, maybe among other lines of a log. The last one counts.
//!
//! memleak of bcc and of libbpf-tools: `[TIME] Top N stacks with outstanding allocations:`, then for each stack `B bytes in A
//! allocations from stack` and its frames, one a line: `0xADDRESS NAME+0xOFFSET [BINARY]` or `NUMBER [<ADDRESS>] NAME+0xOFFSET
//! [BINARY]`. Seastar, as Redpanda prints it: `Top-N alloc sites:`, then for each site `size: BYTES count: SAMPLES at: FRAME FRAME …`, one a
//! line, or all behind the heading with `|` between them. Older ones print the numbers without their names.

use crate::build::UNKNOWN;
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use crate::maps::hex;
use crate::places::Places;
use crate::seastar;
use ramson_profile::{Estimate, SampleType};
use std::borrow::Cow;

const MEMLEAK: &str = "stacks with outstanding allocations:";
const SEASTAR: &str = "Top-N alloc sites";
/// Frames of a stack; memleak has 127 at most.
const MOST_FRAMES: usize = 1 << 12;

/// Which of the formats has a table in this text.
pub fn format_of(head: &[u8]) -> Option<Format> {
    let contains = |word: &str| head.windows(word.len()).any(|window| window == word.as_bytes());
    if contains(MEMLEAK) {
        return Some(Format::Memleak);
    }
    contains(SEASTAR).then_some(Format::Seastar)
}

/// Reads the last table.
pub fn read(format: Format, input: &mut Input) -> Result<Imported, ImportError> {
    let mut table = Table::default();
    input.each_line(|input, line| {
        let line = String::from_utf8_lossy(line);
        match format {
            Format::Memleak => table.take_memleak(input, &line),
            _ => table.take_seastar(input, &line),
        }
    })?;
    let _ = table.end_stack(input);
    let mut imported = seastar::imported(table.places.builder.profile);
    if format == Format::Memleak {
        imported.format = format;
        imported.sample_types = vec![SampleType::InuseObjects, SampleType::InuseSpace];
    }
    let earlier = table.tables.saturating_sub(1);
    imported.defects.extend((earlier > 0).then_some(ImportDefect::EarlierTables(earlier)));
    let is_full = table.most_stacks.is_none_or(|most| table.stacks >= most) && table.stacks > 0;
    imported.defects.extend(is_full.then_some(ImportDefect::LargestOnly(table.stacks)));
    imported.drop_frames = DropFrames::Allocators;
    Ok(imported)
}

#[derive(Default)]
struct Table {
    places: Places,
    /// How many began so far.
    tables: u64,
    /// Stacks that this one may have; `None`: it does not say.
    most_stacks: Option<u64>,
    stacks: u64,
    /// Values of the stack whose frames come.
    values: Option<[Estimate; 4]>,
    stack: Vec<u32>,
}

impl Table {
    fn begin(&mut self, most_stacks: Option<u64>) {
        self.places.builder.clear_samples();
        self.values = None;
        self.stack.clear();
        self.tables += 1;
        self.stacks = 0;
        self.most_stacks = most_stacks;
    }

    fn end_stack(&mut self, input: &mut Input) -> Result<(), Stop> {
        let Some(values) = self.values.take() else { return Ok(()) };
        self.stacks += 1;
        let added = self.places.builder.add(input, &self.stack, values);
        self.stack.clear();
        added
    }

    fn take_memleak(&mut self, input: &mut Input, line: &str) -> Result<(), Stop> {
        if let Some((start, _)) = line.split_once(MEMLEAK) {
            self.begin(start.trim().rsplit(' ').next().and_then(|number| number.parse().ok()));
            return Ok(());
        }
        if let Some((bytes, rest)) = line.split_once(" bytes in ") {
            let objects = rest.strip_suffix(" allocations from stack");
            let number = |text: &str| text.trim().parse::<u64>().ok();
            if let (Some(bytes), Some(objects)) = (number(bytes), objects.and_then(number)) {
                self.end_stack(input)?;
                let live = [objects, bytes].map(|value| Estimate::new(value as f64, f64::NAN));
                self.values = Some([UNKNOWN, UNKNOWN, live[0], live[1]]);
                return Ok(());
            }
        }
        // Other lines are the program's, or single blocks (-a).
        let is_block = line.trim_start().starts_with("addr = ");
        if self.values.is_some() && line.starts_with(['\t', ' ']) && !is_block {
            if self.stack.len() == MOST_FRAMES {
                return Ok(());
            }
            let (name, object) = frame(line.trim());
            self.stack.push(self.places.location(input, object, 0, &name)?);
        }
        Ok(())
    }

    fn take_seastar(&mut self, input: &mut Input, line: &str) -> Result<(), Stop> {
        let mut sites = line;
        if let Some((_, behind)) = line.split_once(SEASTAR) {
            self.begin(None);
            sites = behind.split_once(':').map_or("", |(_, sites)| sites);
        }
        if self.tables == 0 {
            return Ok(());
        }
        sites.split('|').try_for_each(|site| self.take_site(input, site))
    }

    fn take_site(&mut self, input: &mut Input, site: &str) -> Result<(), Stop> {
        let words = site.split_ascii_whitespace().filter(|word| !word.ends_with(':'));
        let words: Vec<&str> = words.collect();
        let is_frame = |word: &&str| word.starts_with("0x") || word.contains("+0x");
        let first = words.iter().position(is_frame).unwrap_or(0);
        let [.., bytes, samples] = &words[..first] else { return Ok(()) };
        let (Ok(bytes), Ok(_)) = (bytes.parse::<u64>(), samples.parse::<u64>()) else {
            return Ok(());
        };
        for word in &words[first..] {
            self.stack.push(seastar::frame_of(&mut self.places, input, word)?);
        }
        self.values = Some(seastar::live(bytes));
        self.end_stack(input)
    }
}

/// Function and binary of a frame of memleak's; the address, if there is no function.
fn frame(text: &str) -> (Cow<'_, str>, &str) {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = text.split_once(" [<").filter(|(number, _)| is_number(number));
    let numbered = numbered.and_then(|(_, rest)| rest.split_once(">] "));
    let plain = text.strip_prefix("0x").and_then(|rest| rest.split_once(['\t', ' ']));
    let (address, text) = numbered.or(plain).unwrap_or(("", text));
    let (text, object) = match text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
        Some((name, object)) => (name, object),
        None => (text, ""),
    };
    let name = match text.rsplit_once("+0x") {
        Some((name, offset)) if hex(offset).is_some() => name,
        _ => text,
    };
    match (name, hex(address)) {
        ("" | "[unknown]" | "<null sym>", Some(address)) => (
            format!("{address:#x} in {}", if object.is_empty() { "?" } else { object }).into(),
            object,
        ),
        _ => (name.into(), object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_both_memleaks_have_names() {
        for (text, name, object) in [
            ("0x0000000000401136\tload_orders+0x9 [leak]", "load_orders", "leak"),
            ("load_orders+0x9 [leak]", "load_orders", "leak"),
            ("3 [<0000000000401136>] load_orders+0x9 [/srv/leak]", "load_orders", "/srv/leak"),
            ("0 [<0000000000401136>] shop::load(int)+0x12", "shop::load(int)", ""),
            (
                "0x00007f0000001000\t[unknown] [libshop.so]",
                "0x7f0000001000 in libshop.so",
                "libshop.so",
            ),
            ("1 [<00007f0000001000>] <null sym>", "0x7f0000001000 in ?", ""),
            ("[unknown]", "[unknown]", ""),
            (
                "operator new(unsigned long)+0x1c [libstdc++.so.6.0.30]",
                "operator new(unsigned long)",
                "libstdc++.so.6.0.30",
            ),
        ] {
            assert_eq!(frame(text), (name.into(), object), "{text}");
        }
    }
}

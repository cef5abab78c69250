//! Names of code that a runtime compiled while the program ran, from `perf-PID.map`: a line `START SIZE NAME` per function,
//! numbers in hex. node writes one with `--perf-basic-prof`, Python 3.12 with `-X perf`, a JVM at its
//! end or when jcmd asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use crate::address::RuntimeAddress;

/// A larger file is refused; a line takes about 60 bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 30;
/// The same of one that belongs to neither root nor the caller.
pub(crate) const MAX_STRANGER_BYTES: u64 = 64 << 20;
/// Further lines are not read.
const MAX_FUNCTIONS: usize = 4 << 20;
/// A longer name is cut: no runtime's name is that long.
pub(crate) const MAX_NAME_BYTES: usize = 4 << 10;
/// No function has so much code: two threads wrote into one line, as those of old versions of node do.
const MAX_CODE_BYTES: u64 = 1 << 30;
/// A byte that is not text becomes a character of so many bytes.
pub(crate) const REPLACED: usize = 3;

/// Names by runtime address. Takes the file's size, and some 40 bytes for each function.
#[derive(Default)]
pub struct PerfMap {
    content: Vec<u8>,
    /// By start, without overlaps.
    functions: BTreeMap<u64, Function>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Function {
    end: u64,
    /// Offset of the name in the content, in bytes.
    name_offset: u32,
    name_bytes: u32,
}

impl PerfMap {
    /// From the file, which has at most so many bytes.
    pub(crate) fn read(file: File, most_bytes: u64) -> io::Result<Self> {
        let length = file.metadata()?.len().min(most_bytes);
        let mut content = Vec::with_capacity(length as usize);
        file.take(most_bytes).read_to_end(&mut content)?;
        Ok(Self::parse(content))
    }

    /// From the content of a map, which has less than 4 GiB. The later of two functions at one address stands, because
    /// runtimes use addresses again. Lines of another form are left out.
    pub fn parse(content: Vec<u8>) -> Self {
        let mut functions = BTreeMap::new();
        let mut end = 0;
        let lines = content.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
            let start = end;
            end += line.len();
            // The runtime may be in the middle of its last line.
            line.ends_with(b"\n").then(|| function(&content, start..end - 1)).flatten()
        });
        for (start, function) in lines.take(MAX_FUNCTIONS) {
            insert(&mut functions, start, function);
        }
        Self { content, functions }
    }

    /// The function at a runtime address.
    pub fn find(&self, RuntimeAddress(address): RuntimeAddress) -> Option<Cow<'_, str>> {
        let (_, function) = self.functions.range(..=address).next_back()?;
        let start = function.name_offset as usize;
        let name = &self.content[start..start + function.name_bytes as usize];
        (address < function.end).then(|| String::from_utf8_lossy(name))
    }
}

fn insert(functions: &mut BTreeMap<u64, Function>, start: u64, new: Function) {
    // Each function is removed at most once, so this takes no longer than all insertions together.
    while let Some((&old_start, old)) = functions.range(..new.end).next_back()
        && old.end > start
        && let Some(old) = functions.remove(&old_start)
    {
        if old.end > new.end {
            functions.insert(new.end, old);
        }
        if old_start < start {
            functions.insert(old_start, Function { end: start, ..old });
        }
    }
    functions.insert(start, new);
}

/// Start and function of a line.
fn function(content: &[u8], line: Range<usize>) -> Option<(u64, Function)> {
    let mut words = content[line.clone()].splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let word = str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let end = start.checked_add(size).filter(|&end| end > start && size <= MAX_CODE_BYTES)?;
    let name = words.next()?;
    let name_offset = u32::try_from(line.end - name.len()).ok()?;
    let name = name.strip_suffix(b"\r").unwrap_or(name);
    let is_boundary = |&at: &usize| at == name.len() || name[at] & 0xc0 != 0x80;
    let most = (0..=name.len().min(MAX_NAME_BYTES)).rev().find(is_boundary)?;
    (most > 0).then_some((start, Function { end, name_offset, name_bytes: most as u32 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, addresses: impl IntoIterator<Item = u64>) -> Vec<String> {
        let map = PerfMap::parse(text.into());
        addresses
            .into_iter()
            .map(|at| map.find(RuntimeAddress(at)).unwrap_or("-".into()).into_owned())
            .collect()
    }

    #[test]
    fn maps_of_languages_are_read() {
        let text = "7f0010 20 LazyCompile:*total /srv/app.js:3:15\n\
                    0x7f0040 0x10 py::handle request:/srv/app.py\n\
                    7F0060 8 Lcom/example/Main;::run\n";
        assert_eq!(
            names(text, [0x7f_0010, 0x7f_002f, 0x7f_0030, 0x7f_004f, 0x7f_0067]),
            [
                "LazyCompile:*total /srv/app.js:3:15",
                "LazyCompile:*total /srv/app.js:3:15",
                "-",
                "py::handle request:/srv/app.py",
                "Lcom/example/Main;::run"
            ]
        );
    }

    #[test]
    fn later_function_replaces_earlier() {
        // The old one keeps what is left of it on both sides; whole old ones go.
        assert_eq!(
            names("10 10 a\n14 4 b\n", [0x10, 0x13, 0x14, 0x17, 0x18, 0x1f]),
            ["a", "a", "b", "b", "a", "a"]
        );
        assert_eq!(names("10 4 a\n14 4 b\n18 4 c\n12 8 d\n", 0x10..0x1c).join(""), "aaddddddddcc");
        assert_eq!(names("10 4 a\n10 4 b\n", [0x10, 0x13]), ["b", "b"]);
        assert_eq!(names("10 4 a\n0 40 b\n", [0x10, 0x3f]), ["b", "b"]);
    }

    #[test]
    fn map_agrees_with_address_table() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut table = vec!["-".to_owned(); 300];
        let mut text = String::new();
        for index in 0..400 {
            let (start, size) = (random(250), 1 + random(40));
            text += &format!("{start:x} {size:x} f{index}\n");
            table[start as usize..(start + size) as usize].fill(format!("f{index}"));
        }
        assert_eq!(names(&text, 0..300), table);
    }

    #[test]
    fn lines_of_another_form_name_nothing() {
        let text = "\n10\n10 4\n10 4 \nzz 4 a\n10 0 a\nffffffffffffffff 4 a\n-1 4 a\n 10 4 a\n5 1b6c171cd580 353 a\n20 4 b\n";
        assert_eq!(names(text, [0x10, 0xffff_ffff_ffff_ffff, 0x20]), ["-", "-", "b"]);
    }

    #[test]
    fn map_takes_little_memory() {
        let line =
            |at: u64| format!("{at:x}000 1000 LazyCompile:*f{at} /srv/application.js:3:15\n");
        let text: String = (1..10_000).map(line).collect();
        let map = PerfMap::parse(text.clone().into());
        assert_eq!(map.content.capacity(), text.len());
        assert!(size_of::<Function>() <= 16);
        let found = map.find(RuntimeAddress(0x1_2345)).unwrap();
        assert_eq!(found, "LazyCompile:*f18 /srv/application.js:3:15");
    }

    #[test]
    fn binary_names_are_shown_as_text() {
        let map = PerfMap::parse(b"10 4 a\xffb\r\n20 4 cut off".to_vec());
        assert_eq!(map.find(RuntimeAddress(0x10)).unwrap(), "a\u{fffd}b");
        assert_eq!(map.find(RuntimeAddress(0x20)), None);
        let long = format!("10 4 {}\n", "é".repeat(MAX_NAME_BYTES));
        let map = PerfMap::parse(long.into());
        assert_eq!(map.find(RuntimeAddress(0x10)).unwrap().len(), MAX_NAME_BYTES);
    }
}

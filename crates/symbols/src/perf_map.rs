//! Names of code that a runtime compiled while the program ran, from `perf-PID.map`: a line `START SIZE NAME` per function,
//! numbers in hex. node writes one with `--perf-basic-prof`, Python 3.12 with `-X perf`, a JVM at its
//! end or when jcmd asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use borsh::{BorshDeserialize, BorshSerialize};

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
/// Runtimes discard code and use its addresses again: so many functions at one address are kept.
const GENERATIONS: usize = 3;
/// A byte that is not text becomes a character of so many bytes.
pub(crate) const REPLACED: usize = 3;

/// Names by runtime address. Takes the file's size, and some 40 bytes for each function.
#[derive(Default)]
pub struct PerfMap {
    content: Vec<u8>,
    /// By start, without overlaps: the latest functions, then those in whose place they are, and so on.
    generations: [BTreeMap<u64, Function>; GENERATIONS],
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Function {
    end: u64,
    /// Offset of the name in the content, in bytes. A function that was compiled later has a larger one.
    name_offset: u32,
    name_bytes: u32,
}

/// An address at which code ran.
#[derive(Clone, Copy, Debug, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct SeenAddress {
    /// In the process.
    pub address: u64,
    /// When a stack with it was seen first, on a clock that is the same for all.
    pub first_ns: u64,
    /// When one was seen last, as far as that is known.
    pub last_ns: u64,
}

impl PerfMap {
    /// From the file, which has at most so many bytes.
    pub(crate) fn read(file: File, most_bytes: u64) -> io::Result<Self> {
        let length = file.metadata()?.len().min(most_bytes);
        let mut content = Vec::with_capacity(length as usize);
        file.take(most_bytes).read_to_end(&mut content)?;
        Ok(Self::parse(content))
    }

    /// From the content of a map, which has less than 4 GiB. Lines of another form are left out.
    pub fn parse(content: Vec<u8>) -> Self {
        let mut generations = <[BTreeMap<u64, Function>; GENERATIONS]>::default();
        let mut end = 0;
        let lines = content.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
            let start = end;
            end += line.len();
            // The runtime may be in the middle of its last line.
            line.ends_with(b"\n").then(|| function(&content, start..end - 1)).flatten()
        });
        for (start, function) in lines.take(MAX_FUNCTIONS) {
            insert(&mut generations, start, function);
        }
        Self { content, generations }
    }

    /// The name of the function at each address; empty if there is none. A map has no times, but functions stand in it in the order
    /// in which they were compiled. So a function existed by the time that it, or one after it, was seen at an address where no other
    /// ever was. An address with several functions is that of the latest which existed when the address was seen last: what is hot is
    /// compiled late, and stays.
    pub fn find(&self, wanted: &[SeenAddress]) -> Vec<Cow<'_, str>> {
        let of_each: Vec<Vec<&Function>> =
            wanted.iter().map(|seen| self.functions_at(seen.address)).collect();
        let only =
            wanted.iter().zip(&of_each).filter_map(|(seen, functions)| match functions[..] {
                [only] => Some((only.name_offset, seen.first_ns)),
                _ => None,
            });
        let mut known: Vec<(u32, u64)> = only.collect();
        known.sort_unstable();
        let mut earliest_ns = u64::MAX;
        for (_, first_ns) in known.iter_mut().rev() {
            earliest_ns = earliest_ns.min(*first_ns);
            *first_ns = earliest_ns;
        }
        // Half-way from the time by which the one before existed to that by which it did itself, or one after it.
        let began_ns = |function: &Function| {
            let next = known.partition_point(|&(offset, _)| offset < function.name_offset);
            let before_ns = next.checked_sub(1).map_or(0, |before| known[before].1);
            known.get(next).map_or(before_ns, |&(_, by_ns)| before_ns.midpoint(by_ns))
        };
        let name = |(seen, functions): (&SeenAddress, Vec<&Function>)| {
            let existed = |function: &&&Function| began_ns(function) <= seen.last_ns;
            let function = functions.iter().find(existed).or(functions.last());
            function.map_or(Cow::Borrowed(""), |function| self.name(function))
        };
        wanted.iter().zip(of_each).map(name).collect()
    }

    /// The functions that were at an address, the latest first.
    fn functions_at(&self, address: u64) -> Vec<&Function> {
        self.generations
            .iter()
            .filter_map(|functions| functions.range(..=address).next_back())
            .map(|(_, function)| function)
            .filter(|function| address < function.end)
            .collect()
    }

    fn name(&self, function: &Function) -> Cow<'_, str> {
        let start = function.name_offset as usize;
        String::from_utf8_lossy(&self.content[start..start + function.name_bytes as usize])
    }
}

/// Puts a function into the first of these generations; the parts of others that were in its place go into the next one.
fn insert(generations: &mut [BTreeMap<u64, Function>], start: u64, new: Function) {
    let Some((functions, before)) = generations.split_first_mut() else { return };
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
        insert(before, old_start.max(start), Function { end: old.end.min(new.end), ..old });
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
#[path = "perf_map_tests.rs"]
mod tests;

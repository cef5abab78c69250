//! The lines of one source file, with what was allocated at each.
//!
//! Debug information names files, and it is as trustworthy as who made it. A file is therefore shown only if this profile's debug
//! information names it and if it is beneath a directory that the user chose for this; no link is followed on the way there.

use crate::calibration::calibrate_all;
use crate::named::{Detail, Kinds, take_sum};
use crate::naming::Names;
use ramson_paths::{Links, Refusal, RegularFile, Root};
use ramson_profile::{Estimate, FrameTable, Profile, SampleType, printable};
use ramson_source::{Failure, Members, Opened};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// A larger file is not source code that a person wrote.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// Longest text of a line that is shown, in letters.
const MOST_LETTERS: usize = 240;
/// Lines shown above and below one with bytes.
const CONTEXT: u32 = 3;
/// Most bytes that JSON adds to the text of a line.
const LINE_BYTES: usize = 200;

/// A question about a source file.
pub struct Question<'a> {
    /// Which names are shown.
    pub names: &'a Names,
    /// Name of the file in the profile's debug information, as reports show it.
    pub file: &'a str,
    /// Directories beneath which it may be.
    pub roots: &'a [PathBuf],
    /// Sample type to count.
    pub sample_type: SampleType,
    /// Largest size of the answer as JSON, in bytes.
    pub most_bytes: usize,
}

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct SourceLines {
    /// Name of the file in the debug information.
    pub file: String,
    /// The file that was read.
    pub path: PathBuf,
    /// The file was changed after the program began: its lines may not be those that were compiled.
    pub is_newer: bool,
    /// Sample type that `flat` and `cum` count.
    pub sample_type: SampleType,
    /// Total of the whole profile.
    pub total: Estimate,
    /// Sum over the stacks that pass through this file.
    pub of_file: Estimate,
    /// Lines of the file.
    pub all_lines: usize,
    /// Lines with bytes that are not among these, for lack of room.
    pub left_out: usize,
    /// Lines with bytes and those around them, in the order of the file.
    pub lines: Vec<SourceLine>,
}

/// A line.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct SourceLine {
    /// 1-based.
    pub line: u32,
    /// Cut where it is long.
    pub text: String,
    /// Allocated by the line itself; null: nothing.
    pub flat: Option<Estimate>,
    /// Allocated by the line and by the functions that it calls; null: nothing.
    pub cum: Option<Estimate>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    flat: Option<Estimate>,
    cum: Estimate,
}

/// The lines of a file that hold memory, with those around them.
pub fn source_lines(members: &mut Members, question: &Question) -> Result<SourceLines, Failure> {
    let file = question.file;
    if members.opened.iter().any(|opened| matches!(opened, Opened::Foreign(_))) {
        return Err(Failure::not_found(format!(
            "{file}: source code is shown for ramson's profiles only, because anyone can write any name into another tool's file. Open it yourself"
        )));
    }
    if question.roots.is_empty() {
        return Err(Failure::not_found(format!(
            "{file}: no source code is shown. Start again with --source-root DIR, the directory that has it"
        )));
    }
    let began_ns = members.opened.iter().filter_map(began).min();
    calibrate_all(&mut members.opened);
    let named = take_sum(&mut members.opened, question.names, Detail::Stacks, Kinds::Usual)?;
    let (by_line, of_file) = by_line(&named.profile, question);
    if by_line.is_empty() {
        return Err(Failure::not_found(format!(
            "{file}: not in this profile's debug information. Pass a path from \"report --view lines\""
        )));
    }
    let (opened, path) = find(file, question.roots)?;
    let is_newer = began_ns.is_some_and(|began| opened.facts.modified_ns > i128::from(began));
    let text = read(opened, &path)?;
    let texts: Vec<&str> = text.lines().collect();
    let chosen = choose(&by_line, &texts, question.most_bytes);
    let shown = chosen.keys().filter(|line| by_line.contains_key(line)).count();
    Ok(SourceLines {
        file: file.to_owned(),
        path,
        is_newer,
        sample_type: question.sample_type,
        total: named.profile.total(question.sample_type),
        of_file,
        all_lines: texts.len(),
        left_out: by_line.len() - shown,
        lines: chosen.into_values().collect(),
    })
}

/// When the program began to be profiled; nanoseconds since 1970.
fn began(opened: &Opened) -> Option<u64> {
    match opened {
        Opened::Recording(recording) => Some(recording.snapshot.header.start_realtime_ns),
        Opened::Foreign(_) => None,
    }
}

/// Returns the sums by line of the file, and the sum of all stacks through the file.
fn by_line(profile: &Profile, question: &Question) -> (BTreeMap<u32, Sums>, Estimate) {
    let table = FrameTable::new(profile);
    let is_meant: Vec<bool> =
        table.ids().map(|id| *table.name(id).file == *question.file).collect();
    let mut lines = BTreeMap::<u32, Sums>::new();
    let mut of_file = Estimate::default();
    for sample in &profile.samples {
        let value = sample.value(question.sample_type);
        if value.is_nothing() || value.value.is_nan() {
            continue;
        }
        let mut counted = Vec::new();
        for (depth, at) in table.stack(sample).enumerate() {
            if !is_meant[at.frame.index()] || at.line == 0 {
                continue;
            }
            let sums = lines.entry(at.line).or_default();
            if depth == 0 {
                *sums.flat.get_or_insert_default() += value;
            }
            // A line that calls itself holds what it holds once.
            if !counted.contains(&at.line) {
                counted.push(at.line);
                sums.cum += value;
            }
        }
        if !counted.is_empty() {
            of_file += value;
        }
    }
    (lines, of_file)
}

/// The file beneath the first root that has it: the whole path, else what is left of it without its first directories, as a tree that was
/// built elsewhere has it.
fn find(file: &str, roots: &[PathBuf]) -> Result<(RegularFile, PathBuf), Failure> {
    let refused = |refusal: &dyn std::fmt::Display, next: &str| {
        Failure::not_found(format!("{file}: {refusal}. {next}"))
    };
    let parts: Vec<_> = Path::new(file)
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(Some(name)),
            Component::ParentDir => Some(None),
            _ => None,
        })
        .collect();
    let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() else {
        return Err(refused(&"a path with .. in it", "Open it yourself"));
    };
    for path in roots {
        let root = Root::at(path).map_err(|refusal| {
            Failure::not_found(format!(
                "{}: {refusal}. Choose another --source-root",
                path.display()
            ))
        })?;
        for first in 0..parts.len() {
            let inner: PathBuf = parts[first..].iter().collect();
            match root.open(&inner, Links::Refused) {
                Ok(opened) => return Ok((opened, path.join(inner))),
                Err(Refusal::Missing) => {}
                Err(refusal) => {
                    return Err(refused(
                        &refusal,
                        "Pass the directory that has it as --source-root",
                    ));
                }
            }
        }
    }
    Err(refused(
        &"not beneath a --source-root",
        "Add --source-root DIR with the directory that has it",
    ))
}

fn read(opened: RegularFile, path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    if opened.facts.bytes > MOST_FILE_BYTES {
        let most = MOST_FILE_BYTES >> 20;
        return Err(Failure::not_found(format!(
            "{shown}: larger than {most} MiB, so not shown. Open it yourself"
        )));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    let read = opened.file.take(MOST_FILE_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Failure::failed(format!("{shown}: {error}. Try again")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Those with the most bytes, and the lines around them, as far as there is room.
fn choose(
    by_line: &BTreeMap<u32, Sums>,
    texts: &[&str],
    most_bytes: usize,
) -> BTreeMap<u32, SourceLine> {
    let mut order: Vec<u32> = by_line.keys().copied().collect();
    let magnitude = |line: &u32| by_line[line].cum.value.abs();
    order.sort_by(|a, b| magnitude(b).total_cmp(&magnitude(a)).then(a.cmp(b)));
    let line_at = |number: u32| {
        let text = texts.get(number as usize - 1).copied().unwrap_or_default();
        let sums = by_line.get(&number);
        SourceLine {
            line: number,
            text: shown_text(text),
            flat: sums.and_then(|sums| sums.flat),
            cum: sums.map(|sums| sums.cum),
        }
    };
    let mut chosen = BTreeMap::new();
    let mut left = most_bytes.saturating_sub(1024);
    // First what holds memory, then what explains it.
    for context in [0, CONTEXT] {
        for &line in &order {
            // A line that the file does not have stays alone.
            let context = if line as usize > texts.len() { 0 } else { context };
            let last = (line + context).min(texts.len() as u32).max(line);
            for number in line.saturating_sub(context).max(1)..=last {
                if chosen.contains_key(&number) {
                    continue;
                }
                let made = line_at(number);
                let bytes = LINE_BYTES + 2 * made.text.len();
                if bytes > left {
                    return chosen;
                }
                left -= bytes;
                chosen.insert(number, made);
            }
        }
    }
    chosen
}

fn shown_text(text: &str) -> String {
    let text: String = text.chars().take(MOST_LETTERS).collect();
    text.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
#[path = "source_lines_tests.rs"]
mod tests;

//! A question about sources: which part of them is shown how. The commands make it from flags, the server from the parameters of an
//! address, and the MCP server from arguments.

use crate::listing::{Wanted, user_id};
use crate::named::Kinds;
use crate::naming::Names;
use crate::selection::Selection;
use ramson_format::Kind;
use ramson_history::duration;
use ramson_leaks::Suppressions;
use ramson_process::glibc::{Effort, MOST_WALKED_BYTES};
use ramson_profile::view::Sort;
use ramson_profile::{Granularity, OwnFrames, Pattern, SampleType, TagFilter};
use ramson_source::Failure;
use std::fmt::Display;

/// Default minimum age in ns: memory that is freed sooner is short-lived, and stacks that were first seen later are not judged.
pub const MIN_AGE_NS: u64 = 60_000_000_000;

/// Kind of an answer, named after the command that prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// Profiles that there are.
    List,
    /// Use of memory.
    Report,
    /// Suspects of a leak.
    Leaks,
    /// Reasons for the resident memory.
    Explain,
    /// Moments of a history.
    Timeline,
    /// Changes between two sources.
    Diff,
}

/// How a profile is shown.
#[derive(Clone)]
pub enum Shown {
    /// Stacks, the largest first.
    Stacks,
    /// Functions.
    Functions,
    /// Lines of functions.
    Lines,
    /// Callers to callees.
    Tree,
    /// Callees to callers.
    Callers,
    /// Functions that match, with their callers and callees.
    Peek(Pattern),
    /// Live blocks by size.
    Sizes,
    /// Live blocks by thread.
    Threads,
    /// Blocks that were freed of late.
    Frees,
    /// Cost of recording.
    Health,
}

impl Shown {
    /// Words that name them.
    pub const WORDS: [&str; 10] = [
        "stacks",
        "functions",
        "tree",
        "peek",
        "callers",
        "lines",
        "sizes",
        "threads",
        "frees",
        "health",
    ];

    /// Returns the form of this name; `peek` has a regular expression behind it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(expression) = text.strip_prefix("peek ") {
            return Pattern::new(expression).map(Self::Peek).map_err(|error| error.to_string());
        }
        Ok(match text {
            "stacks" => Self::Stacks,
            "functions" => Self::Functions,
            "lines" => Self::Lines,
            "tree" => Self::Tree,
            "callers" => Self::Callers,
            "sizes" => Self::Sizes,
            "threads" => Self::Threads,
            "frees" => Self::Frees,
            "health" => Self::Health,
            "peek" => {
                return Err("peek needs a regular expression, as in --view peek setCommand".into());
            }
            _ => {
                let words = Self::WORDS.join(", ").replace("peek", "peek RE");
                return Err(format!("must be one of {words}"));
            }
        })
    }
}

/// Which part of which sources is shown how. The default shows all of it, in the way of `ramson report`.
#[derive(Clone)]
pub struct Question {
    /// SRCs, each with its moment; for a diff the earlier one and the later one.
    pub sources: Vec<String>,
    /// Which names are shown.
    pub names: Names,
    /// Which stacks and frames.
    pub selection: Selection,
    /// Which memory.
    pub kinds: Kinds,
    /// Sample type to count; `None`: the source's own first choice.
    pub sample_type: Option<SampleType>,
    /// Form of a report.
    pub view: Shown,
    /// Order of a table's rows.
    pub sort: Sort,
    /// Most rows of a table; 0: all.
    pub rows: usize,
    /// Only blocks in which this address lies.
    pub address: Option<u64>,
    /// Leaves out rows that shrank.
    pub drop_negative: bool,
    /// In ns: stacks whose memory lives shorter are churn; younger stacks are not judged.
    pub min_age_ns: u64,
    /// Mark or file since which growth is measured.
    pub since: Option<String>,
    /// Mark or file whose growing stacks are hidden.
    pub baseline: Option<String>,
    /// Stacks that are not suspects.
    pub suppressions: Suppressions,
    /// How much of an allocator's memory is read.
    pub effort: Effort,
    /// Which profiles are listed.
    pub wanted: Wanted,
}

impl Document {
    const ALL: [(&'static str, Self); 6] = [
        ("list", Self::List),
        ("report", Self::Report),
        ("leaks", Self::Leaks),
        ("explain", Self::Explain),
        ("timeline", Self::Timeline),
        ("diff", Self::Diff),
    ];

    /// Returns the document that the command of this name prints.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(is, _)| *is == name).map(|(_, document)| *document)
    }

    /// Returns the name of the command that prints it.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Returns the kind that the JSON document states; `None`: its content does, because it depends on the view.
    pub fn kind(self) -> Option<&'static str> {
        (self != Self::Report).then(|| self.name())
    }

    /// Returns the most rows of a table, unless the question says otherwise.
    fn usual_rows(self) -> usize {
        match self {
            Self::Leaks | Self::Explain => 10,
            Self::Timeline => 40,
            Self::List | Self::Report | Self::Diff => 20,
        }
    }
}

impl Default for Question {
    fn default() -> Self {
        let own_frames = Some(OwnFrames::default());
        Self {
            sources: Vec::new(),
            names: Names::default(),
            selection: Selection { own_frames, ..Selection::default() },
            kinds: Kinds::Usual,
            sample_type: None,
            view: Shown::Stacks,
            sort: Sort::Flat,
            rows: 0,
            address: None,
            drop_negative: false,
            min_age_ns: MIN_AGE_NS,
            since: None,
            baseline: None,
            suppressions: Suppressions::default(),
            effort: Effort::Survey(MOST_WALKED_BYTES),
            wanted: Wanted::default(),
        }
    }
}

impl Question {
    /// Makes a question from parameters, named as the flags of the command are. A parameter without a value, such as `all-frames`,
    /// is set whatever its text is.
    pub fn parse<'a>(
        document: Document,
        sources: Vec<String>,
        names: Names,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Failure> {
        let rows = document.usual_rows();
        let mut question = Self { sources, names, rows, ..Self::default() };
        let mut all_frames = false;
        let mut library = Vec::new();
        let mut wrapper = Vec::new();
        for (name, text) in parameters {
            let filters = &mut question.selection.filters;
            match name {
                "focus" => filters.focus = Some(value(name, text, Pattern::new)?),
                "ignore" => filters.ignore = Some(value(name, text, Pattern::new)?),
                "hide" => filters.hide = Some(value(name, text, Pattern::new)?),
                "show" => filters.show = Some(value(name, text, Pattern::new)?),
                "show-from" => filters.show_from = Some(value(name, text, Pattern::new)?),
                "tagfocus" => filters.tag_focus = Some(value(name, text, TagFilter::new)?),
                "tagignore" => filters.tag_ignore = Some(value(name, text, TagFilter::new)?),
                "granularity" => {
                    question.selection.granularity = Some(value(name, text, granularity)?);
                }
                "all-frames" => all_frames = true,
                "library" => library.push(value(name, text, Pattern::new)?),
                "wrapper" => wrapper.push(value(name, text, Pattern::new)?),
                "kind" => question.kinds = value(name, text, kinds)?,
                "count" => question.sample_type = Some(value(name, text, sample_type)?),
                "view" => question.view = value(name, text, Shown::parse)?,
                "sort" => question.sort = value(name, text, sort)?,
                "rows" => question.rows = value(name, text, whole)?,
                "address" => question.address = Some(value(name, text, address)?),
                "min-age" => question.min_age_ns = value(name, text, time)?,
                "since" => question.since = Some(text.to_owned()),
                "baseline" => question.baseline = Some(text.to_owned()),
                "running" => question.wanted.is_running = true,
                "user" => question.wanted.user = Some(value(name, text, user_id)?),
                "word" => question.wanted.words.push(text.to_owned()),
                _ => {
                    return Err(Failure::usage(format!("{}: no parameter", name.escape_debug())));
                }
            }
        }
        if all_frames && !(library.is_empty() && wrapper.is_empty()) {
            return Err(Failure::usage(
                "all-frames: cannot be combined with library or wrapper. Leave one out",
            ));
        }
        let own_frames = (!all_frames).then(|| OwnFrames::new(library, wrapper));
        question.selection.own_frames = own_frames;
        Ok(question)
    }
}

fn value<'a, T, E: Display>(
    name: &str,
    text: &'a str,
    parse: impl FnOnce(&'a str) -> Result<T, E>,
) -> Result<T, Failure> {
    parse(text).map_err(|error| Failure::usage(format!("{name}={}: {error}", text.escape_debug())))
}

fn whole(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "not a whole number")
}

/// Returns the sample type of this name.
pub fn sample_type(text: &str) -> Result<SampleType, &'static str> {
    SampleType::from_name(text).ok_or("must be one of live, live-objects, allocated, allocations")
}

/// Returns the kinds of memory of this name.
pub fn kinds(text: &str) -> Result<Kinds, String> {
    choice(&KINDS, text)
}

/// Returns the granularity of this name.
pub fn granularity(text: &str) -> Result<Granularity, String> {
    choice(&GRANULARITIES, text)
}

/// Returns the order of this name.
pub fn sort(text: &str) -> Result<Sort, String> {
    choice(&SORTS, text)
}

/// Returns the address that the hexadecimal digits are.
pub fn address(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "not a hexadecimal address, as in 0x55d0c3a2f2a0")
}

/// Returns the nanoseconds of a time such as `500ms`, `30s`, `10m`, `6h` or `7d`.
pub fn time(text: &str) -> Result<u64, &'static str> {
    const MOST_NS: u64 = 1000 * 86_400_000_000_000;
    let ns = duration(text).filter(|ns| (1..=MOST_NS).contains(ns));
    ns.ok_or("not a time up to 1000d, such as 500ms, 30s, 10m, 6h or 7d")
}

/// Kinds of memory, by their names.
pub const KINDS: [(&str, Kinds); 3] =
    [("heap", Kinds::Only(Kind::Heap)), ("mmap", Kinds::Only(Kind::Mmap)), ("all", Kinds::All)];

/// Granularities, by their names.
pub const GRANULARITIES: [(&str, Granularity); 6] = [
    ("functions", Granularity::Functions),
    ("filefunctions", Granularity::FileFunctions),
    ("files", Granularity::Files),
    ("lines", Granularity::Lines),
    ("addresses", Granularity::Addresses),
    ("mappings", Granularity::Mappings),
];

/// Orders of a table's rows, by their names.
pub const SORTS: [(&str, Sort); 3] =
    [("own", Sort::Flat), ("total", Sort::Cum), ("name", Sort::Name)];

/// Returns the value of this name.
pub fn choice<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text);
    let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("must be one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parameters: &[(&str, &str)]) -> Result<Question, String> {
        let parameters = parameters.iter().copied();
        Question::parse(Document::Report, Vec::new(), Names::default(), parameters)
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn parameters_are_flags() {
        let asked = parse(&[
            ("view", "peek a"),
            ("rows", "3"),
            ("sort", "total"),
            ("count", "allocated"),
            ("granularity", "lines"),
            ("focus", "x"),
        ])
        .unwrap_or_else(|failure| panic!("{failure}"));
        assert!(matches!(&asked.view, Shown::Peek(pattern) if pattern.as_str() == "a"));
        assert_eq!((asked.rows, asked.sample_type), (3, Some(SampleType::AllocSpace)));
        assert!(matches!(asked.sort, Sort::Cum));
        assert_eq!(asked.selection.granularity, Some(Granularity::Lines));
        assert!(asked.selection.filters.focus.is_some() && asked.selection.own_frames.is_some());
        assert!(parse(&[("all-frames", "")]).is_ok_and(|it| it.selection.own_frames.is_none()));
    }

    #[test]
    fn wrong_values_are_named() {
        for (name, text, finding) in [
            ("view", "pie", "view=pie: must be one of stacks, functions"),
            ("view", "peek", "view=peek: peek needs a regular expression"),
            ("rows", "all", "rows=all: not a whole number"),
            ("rows", "-1", "rows=-1: not a whole number"),
            ("count", "cum", "count=cum: must be one of live"),
            ("sort", "up", "sort=up: must be one of own, total, name"),
            ("kind", "none", "kind=none: must be one of heap, mmap, all"),
            ("min-age", "5", "min-age=5: not a time"),
            ("address", "0xg", "address=0xg: not a hexadecimal address"),
            ("focus", "(", "focus=(: "),
            ("user", "nobody at all", "no such user"),
            ("output", "x", "output: no parameter"),
        ] {
            let refused = parse(&[(name, text)]).err().expect(name);
            assert!(refused.contains(finding), "{refused}");
        }
        let both = parse(&[("all-frames", ""), ("library", "x")]).err().expect("both");
        assert!(both.starts_with("all-frames: cannot be combined"), "{both}");
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("10m"), Ok(600_000_000_000));
        assert_eq!(time("500ms"), Ok(500_000_000));
        assert_eq!(time("1h30m"), Ok(5_400_000_000_000));
        for wrong in ["", "10", "m", "0s", "1.5h", "-1s", "1x", "1001d", "99999999999999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}

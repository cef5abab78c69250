//! The documents of a page that is one file: what the application would ask a server for, of one moment, within a budget.

use crate::flags::{ExportFlags, NameFlags};
use crate::saved_diff;
use ramson_analysis::end::state_of;
use ramson_analysis::flame::{Graph, Question, Shown, Wanted};
use ramson_analysis::question::Document;
use ramson_analysis::report::unit;
use ramson_analysis::rss::Rss;
use ramson_analysis::stack_table::{StackRow, StackTable};
use ramson_analysis::summary::Subject;
use ramson_analysis::tint::{Tint, of_live};
use ramson_encode::html::Page;
use ramson_encode::json::write_document;
use ramson_profile::format::{format_objects, format_share, format_value};
use ramson_profile::view::{Sort, TopTable, Walk, largest_stacks, peek, top};
use ramson_profile::{Estimate, FrameTable, Granularity, OwnFrames, Pattern, Profile, SampleType};
use ramson_source::{Failure, Members, Opened};
use serde::Serialize;
use std::io;

/// Largest size of all documents together, in bytes; the file contains the application in addition.
const MOST_BYTES: usize = 9 << 19;
/// Width of the narrowest frame, as a share of the graph's width on a wide screen.
const LEAST_SHARE: f64 = 0.5 / 2560.0;
const MOST_ROWS: usize = 4000;
const MOST_STACKS: usize = 300;
/// Functions whose callers and callees are there.
const MOST_PEEKS: usize = 30;
/// As the application asks for them.
const FRAMES: [(Shown, &str); 3] =
    [(Shown::Own, ""), (Shown::NoStandard, "nostd"), (Shown::All, "all")];
const DIRECTIONS: [(Walk, &str); 2] = [(Walk::Callees, ""), (Walk::Callers, "callers")];

/// Everything that the page is made from.
pub struct Saving<'a> {
    /// Flags of the command.
    pub flags: &'a ExportFlags,
    /// Sources of the profile.
    pub members: &'a mut Members,
    /// Earlier profiles to compare with.
    pub old: Option<Members>,
    /// RSS of the process, if it is of one that runs.
    pub rss: Option<Rss>,
    /// With all filters applied.
    pub profile: &'a Profile,
    /// Sample type that the page shows first.
    pub sample_type: SampleType,
    /// Defects of the sources.
    pub defects: Vec<String>,
    /// Reasons why frames have no names.
    pub missing_symbols: Vec<String>,
}

#[derive(Serialize)]
struct Source {
    id: &'static str,
    source: String,
    name: String,
    pid: Option<u32>,
    state: Option<String>,
    is_running: bool,
    rss: Option<u64>,
    live: Option<Estimate>,
    command: Vec<String>,
}

#[derive(Serialize)]
struct Sources {
    sources: [Source; 1],
    unreadable: [String; 0],
    /// Name of the earlier profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<String>,
}

#[derive(Serialize)]
struct Rows<'a, T: Serialize> {
    #[serde(flatten)]
    table: &'a T,
    unit: &'static str,
    interval_bytes: u64,
    whole: Estimate,
    defects: &'a [String],
    missing_symbols: &'a [String],
    #[serde(flatten)]
    subject: Option<Subject>,
}

impl Saving<'_> {
    /// Makes all documents. Narrow frames are merged until the documents keep the budget, and the page says which.
    pub fn page(&mut self) -> Result<Page, Failure> {
        let failed = |error| Failure::failed(format!("the page: {error}"));
        let mut least_share = LEAST_SHARE;
        let mut most_rows = MOST_ROWS;
        loop {
            let mut page = Page::default();
            self.put_all(&mut page, most_rows, least_share).map_err(failed)?;
            let first = self.sample_type;
            let types: Vec<SampleType> = self.types().map(|(of, _)| of).collect();
            if let Some(old) = &mut self.old {
                let mut comparing =
                    saved_diff::Comparing { flags: self.flags, old, new: self.members };
                comparing.put(&mut page, first, &types, most_rows, least_share)?;
            }
            let bytes: usize = page.documents.iter().map(|(_, document)| document.len()).sum();
            if bytes <= MOST_BYTES || most_rows == 0 {
                return Ok(page);
            }
            least_share *= 2.0;
            most_rows /= 2;
        }
    }

    fn put_all(&self, page: &mut Page, most_rows: usize, least_share: f64) -> io::Result<()> {
        self.put_process(page)?;
        self.put_tables(page, most_rows)?;
        self.put_graphs(page, least_share)?;
        self.put_tinted_graphs(page, least_share)
    }

    /// The only source, if that is a process.
    fn process(&self) -> Option<&ramson_source::Recording> {
        match self.members.opened.as_slice() {
            [Opened::Recording(recording)] => Some(recording),
            _ => None,
        }
    }

    fn put_process(&self, page: &mut Page) -> io::Result<()> {
        let sources = self.flags.source.sources.join(" ");
        let process = self.process();
        let summary = match self.subject() {
            Some(Subject::Recording(summary)) => Some(summary),
            _ => None,
        };
        let is_running = summary.as_ref().is_some_and(|it| it.is_running && it.history.is_none());
        let source = Source {
            id: "saved",
            source: sources.clone(),
            name: process.map_or(sources, |recording| recording.name().to_owned()),
            pid: process.map(|recording| recording.pid()),
            // How it is now says nothing of a moment of the past.
            state: process.filter(|it| it.past.is_none()).map(state_of),
            is_running,
            rss: summary.as_ref().and_then(|it| it.rss.as_ref()).map(|rss| rss.bytes),
            live: summary.as_ref().map(|it| it.live),
            command: summary.map(|it| it.command).unwrap_or_default(),
        };
        let old = self.flags.old.clone();
        put(page, "sources", None, &Sources { sources: [source], unreadable: [], old })?;
        let [only] = self.flags.source.sources.as_slice() else { return Ok(()) };
        // These read the source once more, and know no filters.
        if process.is_none() || self.flags.filters.are_set() {
            return Ok(());
        }
        let mut wanted = vec![Document::Leaks, Document::Timeline];
        wanted.extend(is_running.then_some(Document::Explain));
        for document in wanted {
            if let Ok(made) =
                ramson_serve::document(document, Some(only), &self.names().names(), &[])
            {
                page.documents.push((document.name().to_owned(), made));
            }
        }
        Ok(())
    }

    fn names(&self) -> &NameFlags {
        &self.flags.source.names
    }

    fn rows<'a, T: Serialize>(&'a self, table: &'a T, of: SampleType) -> Rows<'a, T> {
        Rows {
            table,
            unit: unit(of),
            interval_bytes: self.profile.interval_bytes,
            whole: self.profile.total(of),
            defects: &self.defects,
            missing_symbols: &self.missing_symbols,
            subject: self.subject(),
        }
    }

    /// Describes the only source; `None` if there are several.
    fn subject(&self) -> Option<Subject> {
        match self.members.opened.as_slice() {
            [only] => Some(Subject::of(only, self.profile, self.rss.clone())),
            _ => None,
        }
    }

    /// Those that are shown first have no parameter for it.
    fn types(&self) -> impl Iterator<Item = (SampleType, &'static str)> {
        let has =
            |&of: &SampleType| of == self.sample_type || self.profile.total(of).value.abs() > 0.0;
        SampleType::ALL.into_iter().filter(has).map(|of| {
            let is_first = of == self.sample_type;
            (of, if is_first { "" } else { of.name() })
        })
    }

    fn put_tables(&self, page: &mut Page, most_rows: usize) -> io::Result<()> {
        let mut own = self.profile.clone();
        let is_folded = OwnFrames::default().fold(&mut own);
        for (of, word) in self.types() {
            let table = self.table(&own, of, most_rows, page, word.is_empty());
            let all = self.table(self.profile, of, most_rows, page, false);
            for (all_frames, table) in [("", &table), ("1", &all)] {
                let parameters =
                    [("all-frames", all_frames), ("count", word), ("view", "functions")];
                let key = key("report", &parameters);
                put(page, &key, Some("report"), &self.rows(table, of))?;
            }
            if !word.is_empty() {
                continue;
            }
            let mut by_line = own.clone();
            by_line.granularity = Granularity::Lines;
            let lines = self.table(&by_line, of, most_rows, page, false);
            put(page, "report?view=lines", Some("report"), &self.rows(&lines, of))?;
            put(
                page,
                "report?granularity=lines&view=functions",
                Some("report"),
                &self.rows(&lines, of),
            )?;
            let frames = FrameTable::new(&own);
            let row = |stack: ramson_profile::view::LargestStack| StackRow {
                value: stack.value,
                objects: stack.objects,
                ages: None,
                growth: None,
                frames: stack.frames.iter().map(|&at| frames.name_at(at)).collect(),
            };
            let rows = largest_stacks(&own, &frames, of, MOST_STACKS.min(most_rows));
            let rows = rows.into_iter().map(row).collect();
            let total = own.total(of);
            let stacks = StackTable {
                sample_type: of,
                total,
                ages: None,
                is_folded,
                largest_function: None,
                rows,
                has_all: true,
            };
            put(page, "report?view=stacks", Some("stacks"), &self.rows(&stacks, of))?;
            for row in table.rows.iter().take(MOST_PEEKS.min(most_rows)) {
                let expression = format!("^{}$", literally(&row.name));
                let Ok(pattern) = Pattern::new(&expression) else { continue };
                let found = peek(self.profile, of, &pattern);
                put(
                    page,
                    &format!("report?view=peek {expression}"),
                    Some("peek"),
                    &self.rows(&found, of),
                )?;
            }
        }
        Ok(())
    }

    /// The largest rows; the page says what the others are.
    fn table(
        &self,
        profile: &Profile,
        of: SampleType,
        most: usize,
        page: &mut Page,
        is_said: bool,
    ) -> TopTable {
        let mut table = top(profile, of, Sort::Flat);
        let rest = table.rows.split_off(most.min(table.rows.len()));
        if is_said {
            let value = |value: f64| format_value(value, of.unit());
            page.lines.extend(
                table
                    .rows
                    .iter()
                    .take(20)
                    .map(|row| format!("{:>12} {}", value(row.flat.value), row.name)),
            );
            if !rest.is_empty() {
                let flat: Estimate = rest.iter().map(|row| row.flat).sum();
                page.note += &format!(
                    "The table leaves out {} functions, the largest {} each, {} in all. ",
                    format_objects(rest.len() as f64),
                    value(rest[0].flat.value),
                    value(flat.value)
                );
            }
        }
        table
    }

    fn put_graphs(&self, page: &mut Page, least_share: f64) -> io::Result<()> {
        for (shown, frames) in FRAMES {
            let mut profile = self.profile.clone();
            shown.fold(&mut profile);
            for (of, word) in self.types() {
                let read = Graph::of_profile(&profile, of);
                for (walk, direction) in DIRECTIONS {
                    let graph = read.flame(&whole(walk, least_share), Some);
                    if (shown, walk, word) == (Shown::Own, Walk::Callees, "")
                        && graph.merged.frames > 0
                    {
                        page.note += &format!(
                            "Frames below {} are merged: {} frames, {}. ",
                            format_share(graph.merged.least_share),
                            format_objects(graph.merged.frames as f64),
                            format_value(graph.merged.value.value, of.unit())
                        );
                    }
                    let parameters =
                        [("count", word), ("direction", direction), ("frames", frames)];
                    put(page, &key("flame", &parameters), Some("flame"), &graph)?;
                }
            }
        }
        Ok(())
    }
}

impl Saving<'_> {
    /// The same of what is shown first, by age and by growth. The source is read once more for it, without filters.
    fn put_tinted_graphs(&self, page: &mut Page, least_share: f64) -> io::Result<()> {
        let of = self.sample_type;
        if self.process().is_none() || self.flags.filters.are_set() {
            return Ok(());
        }
        let names = self.names().names();
        for (tint, colour) in [(Tint::Age, "age"), (Tint::Growth, "growth")] {
            for (shown, frames) in FRAMES {
                let wanted =
                    Wanted { names: &names, sample_type: Some(of), shown, tint: Some(tint) };
                // The counted values have no age, as after --count allocated.
                let Ok(tinted) = of_live(self.members, tint, &wanted, of) else {
                    return Ok(());
                };
                let read = Graph::of_tinted(&tinted, of);
                for (walk, direction) in DIRECTIONS {
                    let graph = read.flame(&whole(walk, least_share), Some);
                    let parameters =
                        [("colour", colour), ("direction", direction), ("frames", frames)];
                    put(page, &key("flame", &parameters), Some("flame"), &graph)?;
                }
            }
        }
        Ok(())
    }
}

/// The tree as a page shows it first.
pub fn whole(walk: Walk, least_share: f64) -> Question<'static> {
    Question { walk, path: &[], around: None, search: None, least_share }
}

/// Names a document as the application asks for it: `parameters` are in the order of their names, and an empty one is left out.
pub fn key(document: &str, parameters: &[(&str, &str)]) -> String {
    let set = parameters.iter().filter(|(_, value)| !value.is_empty());
    let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
    let separator = if set.is_empty() { "" } else { "?" };
    format!("{document}{separator}{}", set.join("&"))
}

/// Adds a document.
pub fn put(
    page: &mut Page,
    key: &str,
    kind: Option<&str>,
    answer: &impl Serialize,
) -> io::Result<()> {
    let mut body = Vec::new();
    write_document(kind, answer, &mut body)?;
    page.documents.push((key.to_owned(), body));
    Ok(())
}

/// As the application writes a name that it looks for.
fn literally(text: &str) -> String {
    let is_special = |character: char| r"\.+*?()|[]{}^$".contains(character);
    text.chars().flat_map(|one| is_special(one).then_some('\\').into_iter().chain([one])).collect()
}

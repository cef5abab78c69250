//! The cells that cannot pass, and those in which there is nothing to compare, as two tables in `docs/internals/edge-cases.md` list them:
//! `| program | allocator | interval | reason |`, where `any` stands for every allocator or interval, and `any but glibc` for all others; several are listed with commas.

use super::cell::{Allocator, Interval};
use super::matrix::Outcome;
use std::path::Path;

/// Heading of the section of cells that fail.
const IMPOSSIBLE: &str = "## Cells that cannot pass";
/// Heading of the section of cells whose plain program fails, or means something over other allocators only.
const NOT_TESTABLE: &str = "## Cells with nothing to compare";
/// Every other allocator, preloaded or linked in.
const ANY_BUT_GLIBC: &str = "any but glibc";

struct Row {
    programs: Vec<String>,
    allocators: Vec<String>,
    interval: String,
}

/// The tables.
pub struct Known {
    impossible: Vec<Row>,
    not_testable: Vec<Row>,
}

impl Known {
    /// Reads `docs/internals/edge-cases.md`.
    pub fn read() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/edge-cases.md");
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("docs/internals/edge-cases.md: {error}"))?;
        Self::parse(&text)
    }

    /// Reads a text with such sections.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rows = |heading: &str| {
            let Some((_, section)) = text.split_once(heading) else {
                return Err(format!("docs/internals/edge-cases.md: no section {heading:?}"));
            };
            let section = section.split("\n## ").next().unwrap_or_default();
            let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
            rows.map(Row::parse).collect::<Result<_, _>>()
        };
        Ok(Self { impossible: rows(IMPOSSIBLE)?, not_testable: rows(NOT_TESTABLE)? })
    }

    /// How a cell came out, if the tables are asked: what they say and is not so is a failure, as is what they do not say.
    pub(super) fn judge(
        &self,
        program: &str,
        allocator: Allocator,
        interval: Interval,
        outcome: Outcome,
    ) -> Outcome {
        let is_in = |rows: &[Row]| rows.iter().any(|row| row.has(program, allocator, interval));
        let failed = |what: &str| Outcome::Failed(what.to_owned());
        match (is_in(&self.impossible), is_in(&self.not_testable), outcome) {
            (true, _, Outcome::Failed(_)) => Outcome::Known,
            (true, _, Outcome::Passed) => {
                failed("passes, and docs/internals/edge-cases.md says that it cannot")
            }
            (_, true, Outcome::Passed | Outcome::Failed(_)) => {
                failed("can be compared, and docs/internals/edge-cases.md says that it cannot")
            }
            (_, false, Outcome::NotTestable(why)) => Outcome::Failed(format!(
                "docs/internals/edge-cases.md does not list it, and it failed: {why}"
            )),
            (.., outcome) => outcome,
        }
    }

    /// Whether the tables say that this program over this allocator gives nothing to compare.
    pub fn has_nothing_to_compare(&self, program: &str, allocator: Allocator) -> bool {
        Interval::ALL.iter().all(|&interval| {
            self.not_testable.iter().any(|row| row.has(program, allocator, interval))
        })
    }

    /// Programs that the tables name.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.impossible
            .iter()
            .chain(&self.not_testable)
            .flat_map(|row| &row.programs)
            .map(String::as_str)
    }
}

impl Row {
    fn has(&self, program: &str, allocator: Allocator, interval: Interval) -> bool {
        let is_allocator = |said: &String| match &**said {
            "any" => true,
            ANY_BUT_GLIBC => allocator != Allocator::Glibc,
            name => name == allocator.name(),
        };
        self.programs.iter().any(|named| named == program)
            && self.allocators.iter().any(is_allocator)
            && (self.interval == "any" || self.interval == interval.name())
    }

    fn parse(line: &str) -> Result<Self, String> {
        let wrong =
            || format!("docs/internals/edge-cases.md: not a row of the table of cells: {line}");
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [programs, allocators, interval, reason] = cells[..] else { return Err(wrong()) };
        let is_allocator =
            |name: &str| ["any", ANY_BUT_GLIBC].contains(&name) || Allocator::named(name).is_some();
        let is_interval =
            interval == "any" || Interval::ALL.iter().any(|known| known.name() == interval);
        if !allocators.split(", ").all(is_allocator) || !is_interval || reason.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            programs: listed(programs),
            allocators: listed(allocators),
            interval: interval.to_owned(),
        })
    }
}

fn listed(cell: &str) -> Vec<String> {
    cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "# Limits\n| a | b |\n\n## Cells that cannot pass\n\nWhy.\n\n\
        | program | allocator | interval | reason |\n|---|---|---|---|\n\
        | `one` | glibc | any | it is so |\n| two | any | 1 | too |\n\n\
        ## Cells with nothing to compare\n| p | a | i | r |\n|-|-|-|-|\n\
        | three | glibc, mimalloc | any | it fails |\n\n## More\n| x |\n";

    fn judged(
        program: &str,
        allocator: Allocator,
        interval: Interval,
        outcome: &Outcome,
    ) -> Outcome {
        Known::parse(TABLES).unwrap().judge(program, allocator, interval, outcome.clone())
    }

    #[test]
    fn row_excuses_only_its_own_cells() {
        let failed = Outcome::Failed("so".to_owned());
        let is_known = |program: &str, allocator, interval| {
            judged(program, allocator, interval, &failed) == Outcome::Known
        };
        assert!(is_known("one", Allocator::Glibc, Interval::Off));
        assert!(!is_known("one", Allocator::Jemalloc, Interval::Off));
        assert!(is_known("two", Allocator::Mimalloc, Interval::Everything));
        assert!(!is_known("two", Allocator::Mimalloc, Interval::Default));
        let known = Known::parse(TABLES).unwrap();
        assert_eq!(known.programs().collect::<Vec<_>>(), ["one", "two", "three"]);
        assert!(known.has_nothing_to_compare("three", Allocator::Mimalloc));
        assert!(!known.has_nothing_to_compare("three", Allocator::Jemalloc));
    }

    #[test]
    fn untestable_cells_must_be_listed() {
        let has_failed = |program: &str, outcome: Outcome| {
            let judged = judged(program, Allocator::Glibc, Interval::Off, &outcome);
            matches!(judged, Outcome::Failed(_))
        };
        assert!(has_failed("four", Outcome::NotTestable("it fails".to_owned())));
        assert!(!has_failed("four", Outcome::NeedsRoot));
        assert!(!has_failed("three", Outcome::NotTestable("it fails".to_owned())));
        assert!(has_failed("three", Outcome::Passed));
        assert!(has_failed("one", Outcome::Passed));
    }

    #[test]
    fn incomplete_or_unknown_row_is_rejected() {
        for row in
            ["| one | glibc | any | |", "| one | malloc | any | so |", "| one | glibc | 2 | so |"]
        {
            let tables = TABLES.replace("| two | any | 1 | too |", row);
            assert!(Known::parse(&tables).is_err(), "{row}");
        }
    }
}

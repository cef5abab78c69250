//! The cells that cannot pass, as the table of that name in `docs/limits.md` lists them:
//! `| program | allocator | interval | reason |`, where `any` stands for every allocator or interval.

use super::cell::{Allocator, Interval};
use std::path::Path;

/// Of the section.
const HEADING: &str = "## Cells that cannot pass";

struct Row {
    program: String,
    allocator: String,
    interval: String,
}

/// The table.
pub struct Known(Vec<Row>);

impl Known {
    /// Reads `docs/limits.md`.
    pub fn read() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md");
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("docs/limits.md: {error}"))?;
        Self::parse(&text)
    }

    /// Reads a text with such a section.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((_, section)) = text.split_once(HEADING) else {
            return Err(format!("docs/limits.md: no section {HEADING:?}"));
        };
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
        rows.map(Row::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the table gives this cell up.
    pub fn has(&self, program: &str, allocator: Allocator, interval: Interval) -> bool {
        let is = |said: &str, name: &str| said == "any" || said == name;
        self.0.iter().any(|row| {
            row.program == program
                && is(&row.allocator, allocator.name())
                && is(&row.interval, interval.name())
        })
    }

    /// Programs that the table names.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|row| row.program.as_str())
    }
}

impl Row {
    fn parse(line: &str) -> Result<Self, String> {
        let wrong = || format!("docs/limits.md: not a row of the table of cells: {line}");
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [program, allocator, interval, reason] = cells[..] else { return Err(wrong()) };
        let is_allocator = allocator == "any" || Allocator::named(allocator).is_some();
        let is_interval =
            interval == "any" || Interval::ALL.iter().any(|known| known.name() == interval);
        if !is_allocator || !is_interval || reason.is_empty() {
            return Err(wrong());
        }
        let [program, allocator, interval] =
            [program.trim_matches('`'), allocator, interval].map(str::to_owned);
        Ok(Self { program, allocator, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Limits\n| a | b |\n\n## Cells that cannot pass\n\nWhy.\n\n\
        | program | allocator | interval | reason |\n|---|---|---|---|\n\
        | `one` | glibc | any | it is so |\n| two | any | 1 | too |\n\n## More\n| x |\n";

    #[test]
    fn a_row_gives_up_the_cells_that_it_names_and_no_others() {
        let known = Known::parse(TABLE).unwrap();
        assert!(known.has("one", Allocator::Glibc, Interval::Off));
        assert!(!known.has("one", Allocator::Jemalloc, Interval::Off));
        assert!(known.has("two", Allocator::Mimalloc, Interval::Everything));
        assert!(!known.has("two", Allocator::Mimalloc, Interval::Default));
        assert_eq!(known.programs().collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn a_row_without_a_reason_or_with_an_unknown_name_is_an_error() {
        for row in
            ["| one | glibc | any | |", "| one | malloc | any | so |", "| one | glibc | 2 | so |"]
        {
            assert!(Known::parse(&TABLE.replace("| two | any | 1 | too |", row)).is_err(), "{row}");
        }
    }
}

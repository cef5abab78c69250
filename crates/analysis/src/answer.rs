//! Answers to questions of every kind.

use crate::comparison::{Comparison, compare};
use crate::explain::{Examined, explain};
use crate::listing::{Listing, list};
use crate::question::{Document, Question};
use crate::report::{Report, report};
use crate::suspects::{Suspects, leaks};
use crate::timeline::{Timeline, timeline};
use ramson_source::{Failure, open_all};
use serde::Serialize;

/// The answer to a question, as the commands print it with `--json`.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To [`Document::List`].
    List(Listing),
    /// To [`Document::Report`].
    Report(Box<Report>),
    /// To [`Document::Leaks`].
    Leaks(Box<Suspects>),
    /// To [`Document::Explain`].
    Explain(Examined),
    /// To [`Document::Timeline`].
    Timeline(Box<Timeline>),
    /// To [`Document::Diff`].
    Diff(Box<Comparison>),
}

/// Answers a question.
pub fn answer(document: Document, question: &Question) -> Result<Answer, Failure> {
    Ok(match document {
        Document::List => Answer::List(list(&question.wanted)),
        Document::Report => {
            Answer::Report(Box::new(report(&mut open_all(&question.sources)?, question)?))
        }
        Document::Leaks => {
            let mut found = leaks(question)?;
            found.truncate(question.rows);
            Answer::Leaks(Box::new(found))
        }
        Document::Explain => Answer::Explain(explain(question)?),
        Document::Timeline => {
            Answer::Timeline(Box::new(timeline(&question.sources.join(" "), question.rows)?))
        }
        Document::Diff => Answer::Diff(Box::new(compare(question)?)),
    })
}

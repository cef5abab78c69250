//! `ramson explain`: what a process's resident memory is, why it is there, and what to do.

use crate::flags::ExplainFlags;
use crate::output::{print, print_json};
use crate::table;
use ramson_analysis::Selection;
use ramson_analysis::explain::{Examined, examine, explain as answer_to};
use ramson_analysis::question::Question;
use ramson_process::glibc::Effort;
use ramson_source::{Failure, find_target};

pub fn explain(flags: &ExplainFlags) -> Result<(), Failure> {
    let question = question(flags);
    let examined = if flags.ask { ask(&question)? } else { answer_to(&question)? };
    let shown = table::explain::Shown { rows: flags.rows, details: flags.details };
    match &examined {
        _ if flags.json => print_json("explain", &examined),
        Examined::One(finding) => print(&table::explain::text(finding, shown)),
        Examined::File(finding) => print(&table::explain_file::text(finding)),
        Examined::Several(findings) => {
            print(&table::explain_sum::text(findings, shown, flags.each))
        }
    }
}

fn question(flags: &ExplainFlags) -> Question {
    let usual = Question::default();
    Question {
        sources: flags.sources.clone(),
        names: flags.names.names(),
        selection: Selection { own_frames: flags.frames.own_frames(), ..Selection::default() },
        effort: if flags.exact { Effort::Exact } else { usual.effort },
        ..usual
    }
}

/// Asks the allocator of one process for its statistics if they cannot be read from outside, which stops one of its threads.
fn ask(question: &Question) -> Result<Examined, Failure> {
    let [source] = question.sources.as_slice() else {
        return Err(Failure::usage("--ask: takes one process. Pass one SRC"));
    };
    let target = find_target(source)?;
    let mut finding = examine(&target, question, None)?;
    if finding.statistics.is_err() || finding.inside.is_some() {
        finding = examine(&target, question, Some(ramson_control::ask(&target)))?;
    }
    Ok(Examined::One(Box::new(finding)))
}

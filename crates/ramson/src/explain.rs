//! `ramson explain`: what a process's resident memory is, why it is there, and what to do.

use crate::flags::ExplainFlags;
use crate::output::{print, print_json};
use crate::table;
use ramson_analysis::explain::{Finding, Findings, Question, examine, examine_all};
use ramson_process::glibc::{Effort, MOST_WALKED_BYTES};
use ramson_source::{Failure, Targets, find_target, find_targets};
use serde::Serialize;

/// Findings in one process, or in several.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Examined {
    One(Box<Finding>),
    Several(Box<Findings>),
}

pub fn explain(flags: &ExplainFlags) -> Result<(), Failure> {
    let examined = document(flags)?;
    let shown = table::explain::Shown { rows: flags.rows, details: flags.details };
    match &examined {
        _ if flags.json => print_json("explain", &examined),
        Examined::One(finding) => print(&table::explain::text(finding, shown)),
        Examined::Several(findings) => {
            print(&table::explain_sum::text(findings, shown, flags.each))
        }
    }
}

/// Builds the document that `--json` prints. Stops no thread unless `--ask` is given.
pub fn document(flags: &ExplainFlags) -> Result<Examined, Failure> {
    let effort = if flags.exact { Effort::Exact } else { Effort::Survey(MOST_WALKED_BYTES) };
    let (names, own_frames) = (flags.names.names(), flags.frames.own_frames());
    let question = Question { effort, names: &names, own_frames: own_frames.as_ref() };
    let targets = match (flags.ask, flags.sources.as_slice()) {
        (true, [source]) => Targets { found: vec![find_target(source)?], refused: Vec::new() },
        (true, _) => return Err(Failure::usage("--ask: takes one process. Pass one SRC")),
        (false, sources) => find_targets(sources)?,
    };
    if let ([target], []) = (targets.found.as_slice(), targets.refused.as_slice()) {
        let mut finding = examine(target, &question, None)?;
        if flags.ask && finding.statistics.is_err() {
            finding = examine(target, &question, Some(ramson_control::ask(target)))?;
        }
        return Ok(Examined::One(Box::new(finding)));
    }
    examine_all(&targets, &question).map(|all| Examined::Several(Box::new(all)))
}

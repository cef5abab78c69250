//! Answers about a fleet as text: a sentence, then the rows.

use super::{Table, fitted, push_prose};
use ramson_fleet::{Answer, Parameters, Question};
use ramson_profile::format::format_amount;
use ramson_profile::{Estimate, printable};
use ramson_profile::{SampleUnit, short_name};
use serde_json::{Map, Value};

/// Half the width of a 95% interval, in standard deviations.
const SIGMAS_95: f64 = 1.96;
const BYTES: &str = "_bytes";
const HALF_WIDTH: &str = "_half_width";

type Row = Map<String, Value>;

/// A column, and how wide it is.
enum Column<'a> {
    /// With the name of its ±, if it has one.
    Bytes(&'a str, Option<String>),
    Number(&'a str),
    Text(&'a str, usize),
    Functions(&'a str),
}

pub fn text(question: Question, parameters: &Parameters, answer: &Answer) -> String {
    let mut out = String::new();
    push_prose(&mut out, "", &sentence(question, parameters, answer));
    if answer.rows.is_empty() {
        return out;
    }
    let columns = columns_of(answer);
    let head = |column: &Column| match column {
        Column::Bytes(name, error) => {
            let name = plain(name);
            let error = error.as_ref().map_or("", |_| "|±:>9");
            format!("{name}:>{}{error}", name.chars().count().max(10))
        }
        Column::Number(name) => format!("{}:>{}", plain(name), name.len().max(7)),
        Column::Text(name, width) => format!("{}:<{}", plain(name), (*width).max(name.len())),
        Column::Functions(_) => "function".into(),
    };
    let heads: Vec<String> = columns.iter().map(head).collect();
    let mut table = Table::new(&mut out, &heads.join("|"));
    let room = table.room();
    for row in &answer.rows {
        let cells = columns.iter().flat_map(|column| match column {
            Column::Bytes(name, error) if row[*name].is_null() => {
                vec!["–".into(); 1 + usize::from(error.is_some())]
            }
            Column::Bytes(name, None) => {
                vec![format_amount(estimate(row, name), SampleUnit::Bytes)]
            }
            Column::Bytes(name, Some(error)) => {
                let half_width = Estimate::exact(number(row, error));
                [estimate(row, name), half_width]
                    .map(|bytes| format_amount(bytes, SampleUnit::Bytes))
                    .into()
            }
            Column::Number(name) => vec![format!("{}", number(row, name))],
            Column::Text(name, _) => vec![words(row, name)],
            Column::Functions(name) => vec![fitted(&functions(row, name), room)],
        });
        table.row(cells.collect::<Vec<_>>());
    }
    out
}

/// The answer in a sentence.
fn sentence(question: Question, parameters: &Parameters, answer: &Answer) -> String {
    let Parameters { service, version, .. } = parameters;
    let Some(day) = &answer.day else {
        return "no rows yet. On a host: ramson agent --config FILE --check".into();
    };
    let count = answer.rows.len();
    let all = if count as u64 == u64::from(parameters.rows) { "at least " } else { "" };
    let several = |one: &str, many: &str| counted(count as f64, one, many);
    let Some(first) = answer.rows.first() else {
        return match question {
            Question::Services => format!("{day}: no service has a heap profile"),
            Question::Grew => format!("{day}: no stack has grown by more than sampling error"),
            Question::Stacks | Question::Processes => {
                format!("{day}: nothing of {service} was live. Try another --day")
            }
            Question::New => {
                format!("{day}: {service} has no stack that version {version} never had")
            }
            Question::Outliers => format!("{day}: {service}: no process differs from the others"),
            Question::Deaths => format!("{day}: no process ran out of memory"),
            Question::Free => format!("{day}: no allocator has told what it has free"),
        };
    };
    let bytes = |name: &str| format_amount(estimate(first, name), SampleUnit::Bytes);
    let function = functions(first, "functions");
    let leaf = function.split(" ← ").next().unwrap_or_default();
    let name = words(first, "service");
    match question {
        Question::Services => format!(
            "{day}: {name} uses most: {} live in {} on {}",
            bytes("live_bytes"),
            counted(number(first, "running"), "running process", "running processes"),
            counted(number(first, "hosts"), "host", "hosts")
        ),
        Question::Grew => format!(
            "{day}: {all}{} by more than sampling error; the largest: {leaf} in {name}, {} in {} of its processes",
            several("stack has grown", "stacks have grown"),
            bytes("growth_bytes"),
            number(first, "growing")
        ),
        Question::Stacks => format!("{day}: {service}: {leaf} holds most: {}", bytes("live_bytes")),
        Question::New => format!(
            "{day}: {all}{} that version {version} never had; the largest: {leaf}, {} live",
            several(&format!("stack of {service}"), &format!("stacks of {service}")),
            bytes("live_bytes")
        ),
        Question::Processes => format!(
            "{day}: {all}{} of {service}; the largest: pid {} on {}, {} live",
            several("process", "processes"),
            number(first, "pid"),
            words(first, "host"),
            bytes("live_bytes")
        ),
        Question::Outliers => format!(
            "{day}: {all}{} from the others; the most: pid {} on {}, {} live (median {})",
            several(
                &format!("process of {service} differs"),
                &format!("processes of {service} differ")
            ),
            number(first, "pid"),
            words(first, "host"),
            bytes("live_bytes"),
            bytes("median_bytes")
        ),
        Question::Deaths => format!(
            "{day}: {all}{} out of memory; the last: {name}, pid {} on {}, with {} live",
            several("process ran", "processes ran"),
            number(first, "pid"),
            words(first, "host"),
            bytes("live_bytes")
        ),
        Question::Free if first["free_bytes"].is_null() => {
            format!("{day}: no allocator has told what it has free")
        }
        Question::Free => format!(
            "{day}: {name} has most free: {} in {}. Trims return that at most",
            bytes("free_bytes"),
            counted(number(first, "running"), "process", "processes")
        ),
    }
}

fn columns_of(answer: &Answer) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    for name in answer.columns.iter().map(String::as_str) {
        let error = format!("{name}{HALF_WIDTH}");
        let values = || answer.rows.iter().map(|row| &row[name]);
        if name.ends_with(BYTES) {
            columns.push(Column::Bytes(name, answer.columns.contains(&error).then_some(error)));
        } else if name.ends_with(HALF_WIDTH) || name == "stack_hash" {
            continue;
        } else if values().all(Value::is_array) {
            columns.push(Column::Functions(name));
        } else if values().all(Value::is_number) {
            columns.push(Column::Number(name));
        } else {
            let width = answer.rows.iter().map(|row| words(row, name).chars().count()).max();
            columns.push(Column::Text(name, width.unwrap_or(0)));
        }
    }
    columns
}

/// Name of a column, as people read it.
fn plain(name: &str) -> String {
    name.trim_end_matches(BYTES).replace('_', " ")
}

fn counted(count: f64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1.0 { one } else { many })
}

fn number(row: &Row, name: &str) -> f64 {
    row.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

fn estimate(row: &Row, name: &str) -> Estimate {
    let error = number(row, &format!("{name}{HALF_WIDTH}")) / SIGMAS_95;
    Estimate { value: number(row, name), variance: error * error, known: 0.0 }
}

/// Names of others, which may have anything in them.
fn words(row: &Row, name: &str) -> String {
    let text = row.get(name).and_then(Value::as_str).unwrap_or_default();
    printable(text).into_owned()
}

/// Leaf first.
fn functions(row: &Row, name: &str) -> String {
    let all = row.get(name).and_then(Value::as_array).into_iter().flatten();
    let names = all.filter_map(Value::as_str).map(|name| printable(&short_name(name)).into_owned());
    names.collect::<Vec<_>>().join(" ← ")
}

//! The views of `report` beside its table, and the table of `diff`, each as one JSON object. Version 1 and the rules for numbers
//! are those of `json`. Every object has `"ramson"`, `"kind"`, `"sample_type"`, `"unit": "bytes" | "objects"` and `"total"`, the
//! estimate of what is shown. A frame is `"function"`, `"file"`, `"line"` as in `json`.
//!
//! `tree` and `callers`: `"min_share"` (0…1; frames below it are merged), `"rows": [{"depth", "function", "file", "line",
//! "flat", "cum"}]`, each caller before its callees (`callers`: the other way round); a row of merged frames has
//! `"merged_frames"`, their number, instead of the names.
//!
//! `peek`: `"functions": [{"function", "file", "line", "flat", "cum", "callers": [{"function", "file", "line", "value"}],
//! "callees": …}]`.
//!
//! `sizes`: `"space"` and `"objects"` instead of `"total"`, `"rows": [{"least_bytes", "most_bytes", "space", "objects"}]`; both
//! sizes are null where the profile does not say.
//!
//! `threads`: `"rows": [{"thread", "value", "objects"}]`; a thread is null where the profile does not say.
//!
//! `diff`: `"old_total"`, `"new_total"`, and as `"total"` the change; `"is_significant"` says whether 0 lies outside of its
//! interval. `"rows": [{"function", "file", "line", "old_flat", "new_flat", "flat", "cum", "objects", "is_significant"}]`, the
//! last three estimates being changes.

use crate::json::{EstimateObject, VERSION, unit, write_line};
use ramson_profile::view::{
    Neighbour, Peek, PeekTable, SizeRow, SizeTable, ThreadRow, ThreadTable, Tree, TreeRow,
    TreeRowKind,
};
use ramson_profile::{DiffRow, DiffTable, Estimate, FrameName, SampleType};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a tree, or with the kind `callers` one that is upside down.
pub fn write_tree(tree: &Tree, kind: &'static str, out: &mut dyn Write) -> io::Result<()> {
    let rows = tree.rows.iter().map(tree_row).collect();
    let mut object = View::new(kind, tree.sample_type, tree.total, rows);
    object.min_share = Some(tree.min_share);
    write_line(&object, out)
}

/// Writes callers and callees.
pub fn write_peek(table: &PeekTable, out: &mut dyn Write) -> io::Result<()> {
    let functions = table.functions.iter().map(peek_row).collect();
    let mut object = View::new("peek", table.sample_type, table.total, Vec::new());
    object.functions = Some(functions);
    object.rows = None;
    write_line(&object, out)
}

/// Writes the histogram of block sizes.
pub fn write_sizes(table: &SizeTable, out: &mut dyn Write) -> io::Result<()> {
    let rows = table.rows.iter().map(size_row).collect();
    let mut object = View::new("sizes", table.sample_type, table.space, rows);
    object.total = None;
    object.space = Some(table.space.into());
    object.objects = Some(table.objects.into());
    write_line(&object, out)
}

/// Writes the threads.
pub fn write_threads(table: &ThreadTable, out: &mut dyn Write) -> io::Result<()> {
    let rows = table.rows.iter().map(thread_row).collect();
    write_line(&View::new("threads", table.sample_type, table.total, rows), out)
}

/// Writes a comparison.
pub fn write_diff(table: &DiffTable, out: &mut dyn Write) -> io::Result<()> {
    let rows = table.rows.iter().map(diff_row).collect();
    let mut object = View::new("diff", table.sample_type, table.change, rows);
    object.old_total = Some(table.old_total.into());
    object.new_total = Some(table.new_total.into());
    object.is_significant = Some(table.change.is_significant());
    write_line(&object, out)
}

#[derive(Serialize)]
struct View {
    ramson: u32,
    kind: &'static str,
    sample_type: &'static str,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_total: Option<EstimateObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_total: Option<EstimateObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<EstimateObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<EstimateObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<EstimateObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_significant: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Value>>,
}

impl View {
    fn new(kind: &'static str, of: SampleType, total: Estimate, rows: Vec<Value>) -> View {
        View {
            ramson: VERSION,
            kind,
            sample_type: of.name(),
            unit: unit(of),
            old_total: None,
            new_total: None,
            total: Some(total.into()),
            space: None,
            objects: None,
            is_significant: None,
            min_share: None,
            functions: None,
            rows: Some(rows),
        }
    }
}

fn estimate(estimate: Estimate) -> EstimateObject {
    estimate.into()
}

fn frame(name: &FrameName) -> Value {
    json!({ "function": &*name.name, "file": &*name.file, "line": name.line })
}

fn tree_row(row: &TreeRow) -> Value {
    let mut object = match &row.kind {
        TreeRowKind::Frame(name) => frame(name),
        TreeRowKind::Merged { frames } => json!({ "merged_frames": frames }),
    };
    object["depth"] = json!(row.depth);
    object["flat"] = json!(estimate(row.flat));
    object["cum"] = json!(estimate(row.cum));
    object
}

fn peek_row(peek: &Peek) -> Value {
    let neighbours = |list: &[Neighbour]| -> Vec<Value> {
        let neighbour = |neighbour: &Neighbour| {
            let mut object = frame(&neighbour.function);
            object["value"] = json!(estimate(neighbour.value));
            object
        };
        list.iter().map(neighbour).collect()
    };
    let mut object = frame(&peek.function);
    object["flat"] = json!(estimate(peek.flat));
    object["cum"] = json!(estimate(peek.cum));
    object["callers"] = json!(neighbours(&peek.callers));
    object["callees"] = json!(neighbours(&peek.callees));
    object
}

fn size_row(row: &SizeRow) -> Value {
    json!({
        "least_bytes": row.block_bytes.as_ref().map(|range| *range.start()),
        "most_bytes": row.block_bytes.as_ref().map(|range| *range.end()),
        "space": estimate(row.space),
        "objects": estimate(row.objects),
    })
}

fn thread_row(row: &ThreadRow) -> Value {
    json!({
        "thread": row.thread.as_deref(),
        "value": estimate(row.value),
        "objects": estimate(row.objects),
    })
}

fn diff_row(row: &DiffRow) -> Value {
    let change = &row.change;
    json!({
        "function": &*change.name,
        "file": &*change.file,
        "line": change.line,
        "old_flat": estimate(row.old_flat),
        "new_flat": estimate(row.new_flat),
        "flat": estimate(change.flat),
        "cum": estimate(change.cum),
        "objects": estimate(change.objects),
        "is_significant": change.shown().is_significant(),
    })
}

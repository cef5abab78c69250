//! `ramson schema`: the JSON Schemas of what `--json` prints, made from the types that are printed.

use crate::answers::{HistoryLine, Marked, Symbolized};
use crate::attach::Each;
use crate::check::Checked;
use crate::flags::SchemaFlags;
use crate::list::ListAnswer;
use crate::output::print_raw;
use crate::output_file::cannot_write;
use ramson_analysis::comparison::Comparison;
use ramson_analysis::explain::{FileFinding, Finding, Findings};
use ramson_analysis::gc::Gc;
use ramson_analysis::live::picture::Live;
use ramson_analysis::live::processes::LiveProcesses;
use ramson_analysis::report::Report;
use ramson_analysis::source_lines::SourceLines;
use ramson_analysis::suspects::Suspects;
use ramson_analysis::timeline::Timeline;
use ramson_control::{Attached, Detached, Set, TrimAnswer, Trims};
use ramson_encode::json::VERSION;
use ramson_fleet::Answer;
use ramson_serve::{Moments, Served};
use ramson_source::Failure;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use std::fs;

/// A name, the kinds of the objects that it describes, and what they look like.
type Described = (&'static str, &'static [&'static str], fn(&mut SchemaGenerator) -> Schema);

/// All of them. The kinds of `report` are in its type.
const ALL: [Described; 18] = [
    ("check", &["check"], schema::<Checked>),
    ("diff", &["diff"], schema::<Comparison>),
    ("explain", &["explain"], schema::<OneOrSeveral<OneOrSeveral<Finding, Findings>, FileFinding>>),
    ("fleet", &["fleet"], schema::<Answer>),
    ("gc", &["gc"], schema::<Gc>),
    ("leaks", &["leaks"], schema::<Suspects>),
    ("list", &["list"], schema::<ListAnswer>),
    ("mark", &["mark"], schema::<Marked>),
    ("moments", &["moments"], schema::<Moments>),
    ("processes", &["processes"], schema::<LiveProcesses>),
    ("profile", &["profile"], ramson_encode::json::schema),
    ("history", &["history"], schema::<HistoryLine>),
    ("report", &[], schema::<Report>),
    ("source", &["source"], schema::<SourceLines>),
    ("sources", &["sources"], schema::<Served>),
    ("symbolize", &["symbolize"], schema::<Symbolized>),
    ("timeline", &["timeline"], schema::<Timeline>),
    ("top", &["top"], schema::<Live>),
];
const ATTACH: Described = ("attach", &["attach"], schema::<OneOrSeveral<Attached, Each<Attached>>>);
const DETACH: Described = ("detach", &["detach"], schema::<OneOrSeveral<Detached, Each<Detached>>>);
const SET: Described = ("set", &["set"], schema::<OneOrSeveral<Set, Each<Set>>>);
const TRIM: Described = ("trim", &["trim"], schema::<OneOrSeveral<TrimAnswer, Trims>>);

/// Answer of a command for one process, or for several.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum OneOrSeveral<A, B> {
    One(A),
    Several(B),
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

pub fn schemas(flags: &SchemaFlags) -> Result<(), Failure> {
    let all = || ALL.into_iter().chain([ATTACH, DETACH, SET, TRIM]);
    if let Some(directory) = &flags.dir {
        for described in all() {
            let path = directory.join(format!("{}.json", described.0));
            fs::write(&path, document(described)).map_err(|error| cannot_write(&path, &error))?;
        }
        return Ok(());
    }
    let found = all().find(|(name, ..)| Some(*name) == flags.kind.as_deref());
    match found {
        Some(described) => print_raw(document(described).as_bytes()),
        None => {
            let names: Vec<&str> = all().map(|(name, ..)| name).collect();
            Err(Failure::usage(format!("which schema? One of {}", names.join(", "))))
        }
    }
}

/// The schema of one object, as a file.
fn document((name, kinds, schema): Described) -> String {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = Value::from(schema(&mut generator));
    let object = schema.as_object_mut().expect("a schema of an object is an object");
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    properties["ramson"] = json!({ "const": VERSION, "description": "Version of these objects." });
    if let [kind] = kinds {
        properties["kind"] = json!({ "const": kind });
    }
    let required = object.entry("required").or_insert_with(|| json!([]));
    let required = required.as_array_mut().expect("required is a list");
    let names = ["ramson", "kind"].into_iter().take(1 + kinds.len());
    for (place, name) in names.enumerate() {
        required.retain(|other| other != name);
        required.insert(place, json!(name));
    }
    object.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    object.insert("title".into(), json!(format!("ramson: {name}")));
    let comment = "Made by \"ramson schema\". Fields may be added within a version.";
    object.insert("$comment".into(), json!(comment));
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        object.insert("$defs".into(), definitions.into());
    }
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}

//! Checks the output of `--json` against the schemas in docs/schemas.

use jsonschema::Validator;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Kinds of documents that `report` prints, by its --view.
const VIEWS: [&str; 9] =
    ["stacks", "report", "tree", "callers", "peek", "sizes", "threads", "frees", "health"];

/// The directory of the schemas.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

/// Fails if `text` is an object of ramson and not as the schema of its kind says. Other JSON is left alone.
#[track_caller]
pub fn check(text: &str) {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let (Some(_), Some(kind)) = (value.get("ramson"), value.get("kind").and_then(Value::as_str))
    else {
        return;
    };
    let name = if VIEWS.contains(&kind) { "report" } else { kind };
    let validator = all().get(name).unwrap_or_else(|| panic!("no schema of {kind}"));
    let errors = validator.iter_errors(&value).take(3);
    let errors: Vec<String> =
        errors.map(|error| format!("{}: {error:.300}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{kind} is not as docs/schemas/{name}.json says: {errors:#?}");
}

fn all() -> &'static HashMap<String, Validator> {
    static ALL: OnceLock<HashMap<String, Validator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = fs::read_dir(directory()).expect("make schemas makes them");
        let files = files.map(|file| file.unwrap().path());
        files
            .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read(&path)))
            .collect()
    })
}

fn read(path: &Path) -> Validator {
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_check_finds_missing_field() {
        let mark = r#"{"ramson": 1, "kind": "mark", "mark": "a", "pid": 1, "name": "x", "time_unix_ns": 1, "file": "f", "in_history": false}"#;
        check(mark);
        check(r#"{"kind": "other"}"#);
        for (from, to) in [(r#""pid": 1, "#, ""), (r#""pid": 1"#, r#""pid": "1""#)] {
            let wrong = mark.replace(from, to);
            assert!(std::panic::catch_unwind(|| check(&wrong)).is_err(), "{wrong}");
        }
    }
}

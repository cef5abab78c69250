//! Cuts a JSON document to a size: from its largest lists the last elements go, and what went is counted.

use serde_json::Value;
use std::collections::BTreeMap;

/// No list keeps more of what has to be cut: each round measures the whole.
const MOST_ELEMENTS: usize = 500;
/// Elements that a list keeps as long as another one can give some.
const KEPT: [usize; 3] = [3, 1, 0];

/// A step from a value to one in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Element(usize),
}

type Path = Vec<Step>;

/// Cuts `document` until it has at most `most_bytes` as JSON, if lists and fields can give so much. Says in a line each what is left of what.
pub fn cut(document: &mut Value, most_bytes: usize) -> Vec<String> {
    if bytes_of(document) <= most_bytes {
        return Vec::new();
    }
    let mut lengths = BTreeMap::new();
    note_lengths(document, &mut Vec::new(), &mut lengths);
    for (path, _) in lengths.iter().filter(|(_, length)| **length > MOST_ELEMENTS) {
        if let Some(list) = list_at(document, path) {
            list.truncate(MOST_ELEMENTS);
        }
    }
    while bytes_of(document) > most_bytes {
        let Some(path) = KEPT.into_iter().find_map(|kept| largest_list(document, kept)) else {
            break;
        };
        let Some(list) = list_at(document, &path) else { break };
        let left = list.len() - (list.len() / 4).max(1);
        list.truncate(left);
    }
    let mut said: Vec<String> = lengths
        .iter()
        .filter_map(|(path, &all)| {
            let left = list_at(document, path)?.len();
            (left < all).then(|| format!("{}: {left} of {all}", shown(path)))
        })
        .collect();
    while bytes_of(document) > most_bytes {
        let Some(name) = largest_field(document) else { break };
        if let Value::Object(fields) = document {
            fields.remove(&name);
        }
        said.push(format!("{name}: left out"));
    }
    said
}

/// As JSON.
pub fn bytes_of(value: &Value) -> usize {
    value.to_string().len()
}

fn note_lengths(value: &Value, path: &mut Path, lengths: &mut BTreeMap<Path, usize>) {
    if let Value::Array(list) = value {
        lengths.insert(path.clone(), list.len());
    }
    for (step, inner) in children(value) {
        path.push(step);
        note_lengths(inner, path, lengths);
        path.pop();
    }
}

fn children(value: &Value) -> Vec<(Step, &Value)> {
    match value {
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, inner)| (Step::Element(at), inner)).collect()
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, inner)| (Step::Field(name.clone()), inner)).collect()
        }
        _ => Vec::new(),
    }
}

/// The list with the most bytes among those with more than `kept` elements.
fn largest_list(value: &Value, kept: usize) -> Option<Path> {
    fn look(value: &Value, kept: usize, path: &mut Path, best: &mut Option<(usize, Path)>) {
        if let Value::Array(list) = value
            && list.len() > kept
        {
            let bytes = bytes_of(value);
            if best.as_ref().is_none_or(|(most, _)| bytes > *most) {
                *best = Some((bytes, path.clone()));
            }
        }
        for (step, inner) in children(value) {
            path.push(step);
            look(inner, kept, path, best);
            path.pop();
        }
    }
    let mut best = None;
    look(value, kept, &mut Vec::new(), &mut best);
    best.map(|(_, path)| path)
}

fn list_at<'a>(mut value: &'a mut Value, path: &Path) -> Option<&'a mut Vec<Value>> {
    for step in path {
        value = match step {
            Step::Field(name) => value.get_mut(name)?,
            Step::Element(at) => value.get_mut(at)?,
        };
    }
    value.as_array_mut()
}

/// Not what says which document it is.
fn largest_field(document: &Value) -> Option<String> {
    let fields = document.as_object()?.iter();
    let largest = fields
        .filter(|(name, _)| !["ramson", "kind"].contains(&name.as_str()))
        .max_by_key(|(_, value)| bytes_of(value));
    largest.map(|(name, _)| name.clone())
}

/// `suspects[0].stacks`
fn shown(path: &Path) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text += name,
            Step::Field(name) => text += &format!(".{name}"),
            Step::Element(at) => text += &format!("[{at}]"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_stays_as_it_is() {
        let mut document = json!({ "kind": "x", "rows": [1, 2, 3] });
        let before = document.clone();
        assert!(cut(&mut document, 100).is_empty());
        assert_eq!(document, before);
    }

    #[test]
    fn rows_are_cut_whole_and_counted() {
        let row = |number: usize| json!({ "n": number, "frames": ["a", "b", "c", "d"] });
        let rows: Vec<Value> = (0..40).map(row).collect();
        let mut document = json!({ "kind": "x", "rows": rows });
        let said = cut(&mut document, 400);
        assert!(bytes_of(&document) <= 400);
        let left = document["rows"].as_array().unwrap().len();
        assert!((3..40).contains(&left), "{left}");
        assert_eq!(document["rows"][0]["frames"].as_array().unwrap().len(), 4);
        assert_eq!(said, [format!("rows: {left} of 40")]);
    }

    #[test]
    fn fields_go_after_lists() {
        let mut document =
            json!({ "kind": "x", "ramson": 1, "small": 1, "large": "y".repeat(500) });
        assert_eq!(cut(&mut document, 100), ["large: left out"]);
        assert_eq!(document, json!({ "kind": "x", "ramson": 1, "small": 1 }));
    }
}

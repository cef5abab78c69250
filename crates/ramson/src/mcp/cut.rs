//! Cuts a JSON document to a size: from its largest lists the last elements go, and what went is counted. Evidence in detail goes first,
//! call chains go last: of a list of suspects the first ones stay, with all their frames.

use serde_json::Value;
use std::collections::BTreeMap;

/// No list keeps more of what has to be cut: each round measures the whole.
const MOST_ELEMENTS: usize = 500;
/// Elements that a list keeps as long as another one can give some, and whether it is of a call chain.
const KEPT: [(usize, bool); 6] =
    [(3, false), (1, false), (3, true), (1, true), (0, false), (0, true)];
/// Lists that give all they have before others.
const DETAIL: [&str; 3] = ["histogram", "curve", "lines"];
/// Lists of a call chain.
const CHAINS: [&str; 1] = ["frames"];
/// Fields that go before suspects, in this order: the verdict has the last ones in words.
const ASIDE: [&str; 7] = ["health", "recording", "ages", "coverage", "mmap", "end", "rss"];

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
    let mut said = Vec::new();
    while bytes_of(document) > most_bytes {
        let is_detail = |name: &str| DETAIL.contains(&name);
        let is_chain = |name: &str| CHAINS.contains(&name);
        let detail = largest_list(document, 0, &is_detail);
        if detail.is_none()
            && let Some(name) = aside(document)
        {
            said.push(format!("{name}: left out"));
            continue;
        }
        let next = |&(kept, of_chains): &(usize, bool)| {
            largest_list(document, kept, &|name| is_chain(name) == of_chains)
        };
        let Some(path) = detail.or_else(|| KEPT.iter().find_map(next)) else { break };
        let Some(list) = list_at(document, &path) else { break };
        let left = list.len() - (list.len() / 4).max(1);
        list.truncate(left);
    }
    said.extend(lengths.iter().filter_map(|(path, &all)| {
        let left = list_at(document, path)?.len();
        (left < all).then(|| format!("{}: {left} of {all}", shown(path)))
    }));
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

/// Takes out a field that says less than the suspects do, if there are suspects.
fn aside(document: &mut Value) -> Option<&'static str> {
    let fields = document.as_object_mut().filter(|fields| fields.contains_key("suspects"))?;
    ASIDE.into_iter().find(|name| fields.remove(*name).is_some())
}

/// The list with the most bytes among those with more than `kept` elements whose names pass.
fn largest_list(value: &Value, kept: usize, is_meant: &dyn Fn(&str) -> bool) -> Option<Path> {
    type Best = Option<(usize, Path)>;
    fn look(
        value: &Value,
        is_it: &dyn Fn(&[Value], &Path) -> bool,
        path: &mut Path,
        best: &mut Best,
    ) {
        if let Value::Array(list) = value
            && is_it(list, path)
        {
            let bytes = bytes_of(value);
            if best.as_ref().is_none_or(|(most, _)| bytes > *most) {
                *best = Some((bytes, path.clone()));
            }
        }
        for (step, inner) in children(value) {
            path.push(step);
            look(inner, is_it, path, best);
            path.pop();
        }
    }
    let is_it = |list: &[Value], path: &Path| {
        let name = path.iter().rev().find_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Element(_) => None,
        });
        list.len() > kept && is_meant(name.unwrap_or(""))
    };
    let mut best = None;
    look(value, &is_it, &mut Vec::new(), &mut best);
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
    fn first_suspects_keep_their_chains() {
        let frames: Vec<Value> =
            (0..12).map(|at| json!({ "function": format!("f{at}") })).collect();
        let suspect = |number: usize| {
            let curve: Vec<usize> = (0..30).collect();
            json!({ "n": number, "frames": frames, "survival": { "curve": curve } })
        };
        let suspects: Vec<Value> = (0..10).map(suspect).collect();
        let health: Vec<usize> = (1000..1060).collect();
        let mut document = json!({ "kind": "leaks", "health": health, "suspects": suspects });
        let said = cut(&mut document, 1500);
        assert!(bytes_of(&document) <= 1500);
        let left = document["suspects"].as_array().unwrap();
        assert!(left.len() >= 3 && left[0]["n"] == 0, "{}", left.len());
        assert!(left.iter().all(|it| it["frames"].as_array().unwrap().len() == 12));
        assert!(document.get("health").is_none() && said.contains(&"health: left out".to_owned()));
    }

    #[test]
    fn fields_go_after_lists() {
        let mut document =
            json!({ "kind": "x", "ramson": 1, "small": 1, "large": "y".repeat(500) });
        assert_eq!(cut(&mut document, 100), ["large: left out"]);
        assert_eq!(document, json!({ "kind": "x", "ramson": 1, "small": 1 }));
    }
}

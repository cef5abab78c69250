//! The call tree for a picture: no larger than a screen shows, and never more than so many bytes.

use crate::identity::Identity;
use crate::parts::{Parts, at_moment};
use crate::query::Query;
use crate::reply::{self, Reply};
use crate::sources::First;
use crate::trees::Key;
use ramson_analysis::flame::{Graph, Question, Shown, Wanted};
use ramson_analysis::tint::Tint;
use ramson_encode::json::write_document;
use ramson_profile::view::Walk;
use ramson_profile::{Pattern, SampleType};
use ramson_source::{Failure, open_all};

/// On the wire, to a client that takes gzip.
const MOST_BYTES: usize = 64_000;
/// Allowed widths of the picture, in pixels.
const WIDTHS: std::ops::RangeInclusive<u32> = 100..=10_000;
const WIDTH: u32 = 1400;
/// Least width of a frame in the picture, in pixels: a narrower one is not seen.
const LEAST_WIDTH: f64 = 0.5;
const MOST_PATH: usize = 400;

/// The parameters of a client's request.
#[derive(Debug)]
pub struct Asked {
    sample_type: Option<SampleType>,
    width: u32,
    walk: Walk,
    shown: Shown,
    path: Vec<u32>,
    around: Option<String>,
    search: Option<Pattern>,
    at: Option<String>,
    tint: Option<Tint>,
    old: Option<String>,
}

impl Asked {
    pub fn parse(query: &Query) -> Result<Self, Failure> {
        const KNOWN: [&str; 10] = [
            "at",
            "colour",
            "count",
            "direction",
            "focus",
            "frames",
            "function",
            "old",
            "path",
            "width",
        ];
        if let Some(name) = query.names().find(|name| !KNOWN.contains(name)) {
            let known = KNOWN.join(", ");
            let name = name.escape_debug();
            return Err(Failure::usage(format!(
                "{name}: not a parameter here. The parameters: {known}"
            )));
        }
        let wrong = |name: &str, rule: &str| {
            let value = query.get(name).unwrap_or_default();
            Failure::usage(format!("{name}={}: must be {rule}", value.escape_debug()))
        };
        let width = query.get("width").map_or(Some(WIDTH), |text| text.parse().ok());
        let width = width.filter(|width| WIDTHS.contains(width));
        let keys = query.get("path").unwrap_or_default().split('.').filter(|key| !key.is_empty());
        let path: Option<Vec<u32>> = keys.map(|key| u32::from_str_radix(key, 36).ok()).collect();
        let path = path.filter(|path| path.len() <= MOST_PATH);
        Ok(Self {
            sample_type: sample_type(query).ok_or_else(|| {
                wrong("count", "one of live, live-objects, allocated, allocations")
            })?,
            width: width.ok_or_else(|| wrong("width", "a number of pixels from 100 to 10000"))?,
            walk: match query.get("direction") {
                None | Some("callees") => Walk::Callees,
                Some("callers") => Walk::Callers,
                Some(_) => return Err(wrong("direction", "callees or callers")),
            },
            shown: match query.get("frames") {
                None | Some("own") => Shown::Own,
                Some("nostd") => Shown::NoStandard,
                Some("all") => Shown::All,
                Some(_) => return Err(wrong("frames", "own, nostd or all")),
            },
            path: path.ok_or_else(|| {
                wrong("path", "keys of functions in base 36 with dots between them")
            })?,
            around: query.get("function").map(str::to_owned),
            search: query.get("focus").filter(|text| !text.is_empty()).map(as_pattern),
            at: query.get("at").map(str::to_owned),
            tint: tint(query).ok_or_else(|| wrong("colour", "age or growth, without old"))?,
            old: query.get("old").map(str::to_owned),
        })
    }
}

/// The sample type to count, if the query names one; `None`: no such type.
fn sample_type(query: &Query) -> Option<Option<SampleType>> {
    match query.get("count") {
        None => Some(None),
        Some(text) => SampleType::from_name(text).map(Some),
    }
}

/// The figure that colours the frames, if the query names one; `None`: no such colour.
fn tint(query: &Query) -> Option<Option<Tint>> {
    match (query.get("colour"), query.get("old")) {
        (None, None) => Some(None),
        (None, Some(_)) => Some(Some(Tint::Change)),
        (Some("age"), None) => Some(Some(Tint::Age)),
        (Some("growth"), None) => Some(Some(Tint::Growth)),
        (Some(_), _) => None,
    }
}

/// The expression, or the text where that is none.
fn as_pattern(text: &str) -> Pattern {
    Pattern::new(text).unwrap_or_else(|_| {
        let special = |character: char| r"\.+*?()|[]{}^$".contains(character);
        let quote = |one| special(one).then_some('\\').into_iter().chain([one]);
        let quoted: String = text.chars().flat_map(quote).collect();
        Pattern::new(&quoted).expect("only characters that stand for themselves")
    })
}

/// Makes the tree that is asked for if nothing else is said.
pub fn prepare(parts: &Parts, first: First) {
    let First { source, identity, mut members } = first;
    let key = Key { source, sample_type: None, shown: Shown::Own, tint: None, old: None };
    let wanted = wanted(parts, &key);
    let read = || {
        if Identity::of(&key.source) == Some(identity) {
            Graph::read(&mut members, None, &wanted)
        } else {
            Graph::read(&mut open_all(&[&key.source])?, None, &wanted)
        }
    };
    // A failure is told to the client that asks.
    let _ = parts.trees.with(&key, read, |_| ());
}

/// The tree, cut more narrowly until it is small enough.
pub fn reply(
    parts: &Parts,
    id: Option<&str>,
    asked: &Asked,
    takes_gzip: bool,
) -> Result<Reply, Failure> {
    let whole = parts.find(id)?.source;
    let old = match asked.old.as_deref() {
        Some("now") => Some(whole.clone()),
        Some(moment) => Some(at_moment(&whole, "old", moment)?),
        None => None,
    };
    let source = match &asked.at {
        Some(moment) => at_moment(&whole, "at", moment)?,
        None => whole,
    };
    let Asked { sample_type, shown, tint, .. } = *asked;
    let key = Key { source, sample_type, shown, tint, old };
    let wanted = wanted(parts, &key);
    let read = || {
        let mut old = key.old.as_ref().map(|old| open_all(&[old])).transpose()?;
        Graph::read(&mut open_all(&[&key.source])?, old.as_mut(), &wanted)
    };
    parts.trees.with(&key, read, |graph| cut(graph, asked, takes_gzip))?
}

fn wanted<'a>(parts: &'a Parts, key: &Key) -> Wanted<'a> {
    let Key { sample_type, shown, tint, .. } = *key;
    Wanted { names: &parts.names, sample_type, shown, tint }
}

fn cut(graph: &Graph, asked: &Asked, takes_gzip: bool) -> Result<Reply, Failure> {
    let question = Question {
        walk: asked.walk,
        path: &asked.path,
        around: asked.around.as_deref(),
        search: asked.search.as_ref(),
        least_share: LEAST_WIDTH / f64::from(asked.width),
    };
    graph.flame(&question, |flame| {
        let mut body = Vec::new();
        if let Err(error) = write_document(Some("flame"), &flame, &mut body) {
            return Some(Err(error.into()));
        }
        let packed = reply::gzip(&body);
        (packed.len() <= MOST_BYTES).then(|| {
            Ok(if takes_gzip {
                reply::as_packed(reply::document(packed))
            } else {
                reply::document(body)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;
    use crate::trees::Trees;
    use crate::watch::Watch;
    use ramson_analysis::naming::Names;

    fn asked(text: &str) -> Result<Asked, Failure> {
        Asked::parse(&Query::parse(Some(text)))
    }

    #[test]
    fn only_known_parameters_are_taken() {
        let all =
            asked("width=800&direction=callers&frames=all&path=1.z&function=f&focus=a%2B").unwrap();
        assert_eq!((all.width, all.walk, all.shown), (800, Walk::Callers, Shown::All));
        assert_eq!((all.path.as_slice(), all.around.as_deref()), (&[1, 35][..], Some("f")));
        assert!(all.search.unwrap().is_match("aa"));
        assert_eq!(asked("colour=age").unwrap().tint, Some(Tint::Age));
        assert_eq!(asked("old=-5m").unwrap().tint, Some(Tint::Change));
        let usual = asked("").unwrap();
        assert_eq!((usual.width, usual.walk, usual.shown), (1400, Walk::Callees, Shown::Own));
        for wrong in [
            "width=0",
            "width=x",
            "direction=up",
            "frames=none",
            "path=!",
            "count=x",
            "budget=1",
            "colour=red",
            "colour=age&old=-1h",
        ] {
            assert_eq!(asked(wrong).unwrap_err().status(), 2, "{wrong}");
        }
    }

    #[test]
    fn invalid_expression_is_a_text() {
        let search = asked("focus=operator(").unwrap().search.unwrap();
        assert!(search.is_match("X::operator()(int)") && !search.is_match("operator"));
    }

    /// The total that is counted, of a file that is written anew before the picture is made if `then` says so.
    fn total_of_prepared(then: Option<&str>) -> i64 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stacks");
        std::fs::write(&path, "a;b 8\n").unwrap();
        let source = path.to_str().unwrap().to_owned();
        let sources = Sources::new(vec![source.clone()]);
        let first = sources.check().unwrap().unwrap();
        let parts = Parts {
            watch: Watch::start(&sources),
            sources,
            names: Names::default(),
            source_roots: Vec::new(),
            trees: Trees::new(),
            metrics: Default::default(),
            collections: Default::default(),
            allows_actions: false,
        };
        if let Some(then) = then {
            std::fs::write(&path, then).unwrap();
        }
        prepare(&parts, first);
        let asked = asked("").unwrap();
        let Asked { sample_type, shown, tint, .. } = asked;
        let key = Key { source, sample_type, shown, tint, old: None };
        let question =
            Question { walk: asked.walk, path: &[], around: None, search: None, least_share: 0.0 };
        let total = |graph: &Graph| graph.flame(&question, |flame| Some(flame.total.value.value));
        parts.trees.with(&key, || panic!("it was prepared"), total).unwrap() as i64
    }

    #[test]
    fn first_picture_uses_checked_file() {
        assert_eq!(total_of_prepared(None), 8);
        assert_eq!(total_of_prepared(Some("a;b 300\n")), 300);
    }
}

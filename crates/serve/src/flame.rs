//! The call tree for a picture: no larger than a screen shows, and never more than so many bytes.

use crate::parts::{Parts, at_moment};
use crate::query::Query;
use crate::reply::{self, Reply};
use ramson_analysis::flame::{Question, Shown, read};
use ramson_encode::json::write_document;
use ramson_profile::view::Walk;
use ramson_profile::{Pattern, SampleType};
use ramson_source::{Failure, open_all};

/// On the wire, to a client that takes gzip.
const MOST_BYTES: usize = 64 << 10;
/// Of the picture, in pixels.
const WIDTHS: std::ops::RangeInclusive<u32> = 100..=10_000;
const WIDTH: u32 = 1400;
/// Of a frame in the picture, in pixels: a narrower one is not seen.
const LEAST_WIDTH: f64 = 0.5;
const MOST_PATH: usize = 400;

/// What a client asks for.
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
}

impl Asked {
    pub fn parse(query: &Query) -> Result<Self, Failure> {
        const KNOWN: [&str; 8] =
            ["at", "direction", "focus", "frames", "function", "path", "sample-index", "width"];
        if let Some(name) = query.names().find(|name| !KNOWN.contains(name)) {
            let known = KNOWN.join(", ");
            let name = name.escape_debug();
            return Err(Failure::usage(format!("{name}: not a parameter here. There are {known}")));
        }
        let wrong = |name: &str, rule: &str| {
            let value = query.get(name).unwrap_or_default();
            Failure::usage(format!("{name}={}: {rule}", value.escape_debug()))
        };
        let width = query.get("width").map_or(Some(WIDTH), |text| text.parse().ok());
        let width = width.filter(|width| WIDTHS.contains(width));
        let keys = query.get("path").unwrap_or_default().split('.').filter(|key| !key.is_empty());
        let path: Option<Vec<u32>> = keys.map(|key| u32::from_str_radix(key, 36).ok()).collect();
        let path = path.filter(|path| path.len() <= MOST_PATH);
        let is_of = |of: &SampleType, text: &str| of.name() == text;
        Ok(Self {
            sample_type: match query.get("sample-index") {
                None => None,
                Some(text) => match SampleType::ALL.into_iter().find(|of| is_of(of, text)) {
                    Some(of) => Some(of),
                    None => {
                        return Err(wrong(
                            "sample-index",
                            "one of inuse_space, inuse_objects, alloc_space, alloc_objects",
                        ));
                    }
                },
            },
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
        })
    }
}

/// The expression, or the text where that is none.
fn as_pattern(text: &str) -> Pattern {
    let quoted = || {
        let special = |character: char| r"\.+*?()|[]{}^$".contains(character);
        text.chars().flat_map(|one| special(one).then_some('\\').into_iter().chain([one])).collect()
    };
    Pattern::new(text).unwrap_or_else(|_| {
        let quoted: String = quoted();
        Pattern::new(&quoted).expect("only characters that stand for themselves")
    })
}

/// The tree, cut more narrowly until it is small enough.
pub fn reply(parts: &Parts, id: Option<&str>, asked: &Asked) -> Result<Reply, Failure> {
    let source = parts.find(id)?.source;
    let source = match &asked.at {
        Some(moment) => at_moment(&source, moment)?,
        None => source,
    };
    let mut question = Question {
        names: &parts.names,
        sample_type: asked.sample_type,
        walk: asked.walk,
        shown: asked.shown,
        path: &asked.path,
        around: asked.around.as_deref(),
        search: asked.search.as_ref(),
        least_share: LEAST_WIDTH / f64::from(asked.width),
    };
    let read = read(&mut open_all(&[&source])?, &question)?;
    loop {
        let answer = read.flame(&question);
        let mut body = Vec::new();
        write_document(Some("flame"), &answer, &mut body)?;
        if body.len() <= MOST_BYTES || reply::gzip(&body).len() <= MOST_BYTES {
            return Ok(reply::document(body));
        }
        question.least_share = answer.merged.least_share * 1.5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Asked, Failure> {
        Asked::parse(&Query::parse(Some(text)))
    }

    #[test]
    fn a_picture_is_asked_for_in_words_that_are_known() {
        let all =
            asked("width=800&direction=callers&frames=all&path=1.z&function=f&focus=a%2B").unwrap();
        assert_eq!((all.width, all.walk, all.shown), (800, Walk::Callers, Shown::All));
        assert_eq!((all.path.as_slice(), all.around.as_deref()), (&[1, 35][..], Some("f")));
        assert!(all.search.unwrap().is_match("aa"));
        let usual = asked("").unwrap();
        assert_eq!((usual.width, usual.walk, usual.shown), (1400, Walk::Callees, Shown::Own));
        for wrong in [
            "width=0",
            "width=x",
            "direction=up",
            "frames=none",
            "path=!",
            "sample-index=x",
            "budget=1",
        ] {
            assert_eq!(asked(wrong).unwrap_err().status(), 2, "{wrong}");
        }
    }

    #[test]
    fn an_expression_that_is_none_is_a_text() {
        let search = asked("focus=operator(").unwrap().search.unwrap();
        assert!(search.is_match("X::operator()(int)") && !search.is_match("operator"));
    }
}

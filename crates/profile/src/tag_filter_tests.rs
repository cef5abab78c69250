use super::*;
use crate::labels::THREAD;
use crate::model::StackSample;

fn number(key: &str, value: i64, unit: &str) -> Label {
    Label { key: key.into(), value: LabelValue::Number { value, unit: unit.into() } }
}

fn text(key: &str, text: &str) -> Label {
    Label { key: key.into(), value: LabelValue::Text(text.into()) }
}

fn matches(filter: &str, labels: &[Label]) -> bool {
    let sample = StackSample { labels: labels.into(), ..StackSample::default() };
    let profile = Profile { samples: vec![sample], ..Profile::default() };
    TagFilter::new(filter).unwrap().matches(&profile)[0]
}

#[test]
fn ranges_compare_in_units() {
    let block = [number("bytes", 65536, "bytes")];
    for (filter, expected) in [
        ("64kb", true),
        ("bytes=64kb", true),
        ("bytes=64kB:", true),
        ("bytes=:64kb", true),
        ("bytes=65kb:", false),
        ("bytes=:63kb", false),
        ("bytes=1kb:1mb", true),
        ("1mb:1kb", false),
        ("bytes=65536", false),
        ("bytes=65536b", true),
        ("bytes=65536bytes", true),
        ("bytes=1s:", false),
        ("other=64kb", false),
    ] {
        assert_eq!(matches(filter, &block), expected, "{filter}");
    }
    assert!(matches("-5:5", &[number("n", -3, "count")]));
    assert!(matches("request=1kb", &[number("request", 1024, "")]));
    assert!(matches("x=2000ms", &[number("x", 2, "seconds")]));
}

#[test]
fn texts_match_with_their_key() {
    let labels = [text(THREAD, "bio_lazy_free/12"), text("pool", "a:b")];
    for (filter, expected) in [
        ("thread=bio", true),
        ("thread=^12", false),
        ("thread:bio", true),
        ("^bio", false),
        ("bio,pool", true),
        ("bio,absent", false),
        ("thread=absent,bio", true),
        ("pool=bio", false),
        ("absent=bio", false),
        ("12", false),
    ] {
        assert_eq!(matches(filter, &labels), expected, "{filter}");
    }
    assert!(!matches(".*", &[]));
}

#[test]
fn invalid_range_is_an_expression() {
    for text in ["12kb:64s", "1:2:3", "12 kb", "k12", "99999999999999999999", ""] {
        assert!(Range::new(text).is_none(), "{text}");
    }
    let error = TagFilter::new("thread=a,(").unwrap_err();
    assert_eq!(error.character, Some(1));
}

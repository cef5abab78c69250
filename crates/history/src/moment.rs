//! Which moment is meant: `-1h`, `2026-11-20T17:00`, `peak`, `mark:NAME`, and ranges of two of them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SECOND_NS: u64 = 1_000_000_000;

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Nanoseconds before now.
    Ago(u64),
    /// Nanoseconds since 1970.
    At(u64),
    /// When the most was live.
    Peak,
    /// When `ramson mark` was called with this name.
    Mark(String),
    /// The last moment there is.
    Last,
}

/// One moment, or all between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// One.
    Moment(When),
    /// From, to.
    Range(When, When),
}

impl Span {
    /// Reads what stands behind the @ of a source. Times without an offset are of this time zone.
    pub fn parse(text: &str, zone: &TimeZone) -> Option<Self> {
        let Some((from, to)) = text.split_once("..") else {
            let when = When::parse(text, zone)?;
            return Some(Span::Moment(when.with_whole_second()));
        };
        let to = to.strip_prefix('@').unwrap_or(to);
        let to = if to.is_empty() { Some(When::Last) } else { When::parse(to, zone) };
        Some(Span::Range(When::parse(from, zone)?, to?.with_whole_second()))
    }
}

impl When {
    /// Times are shown in whole seconds: one that is pasted back includes what happened within that second.
    fn with_whole_second(self) -> Self {
        match self {
            When::At(time_ns) if time_ns.is_multiple_of(SECOND_NS) => {
                When::At(time_ns + SECOND_NS - 1)
            }
            when => when,
        }
    }

    fn parse(text: &str, zone: &TimeZone) -> Option<Self> {
        if text == "peak" {
            return Some(When::Peak);
        }
        if let Some(name) = text.strip_prefix("mark:") {
            return Some(When::Mark(name.to_owned())).filter(|_| !name.is_empty());
        }
        if let Some(ago) = text.strip_prefix('-') {
            return duration(ago).map(When::Ago);
        }
        let time = || -> Option<Timestamp> {
            let has_day = text.len() >= 10 && text.as_bytes()[4] == b'-';
            let local = || text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok();
            let timestamp = || text.parse::<Timestamp>().ok();
            timestamp().or_else(|| local().map(|zoned| zoned.timestamp())).filter(|_| has_day)
        };
        u64::try_from(time()?.as_nanosecond()).ok().map(When::At)
    }
}

/// `90s`, `1h30m`, `2d` in nanoseconds.
pub fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_ns = match &rest[digits..digits + letters] {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "w" => 7 * 86_400_000_000_000,
            _ => return None,
        };
        let part: u64 = rest[..digits].parse().ok()?;
        sum = sum.checked_add(part.checked_mul(unit_ns)?)?;
        rest = &rest[digits + letters..];
    }
    Some(sum).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Span> {
        Span::parse(text, &TimeZone::fixed(jiff::tz::offset(1)))
    }

    #[test]
    fn moments_are_parsed() {
        let of = |when| Some(Span::Moment(when));
        assert_eq!(parse("-1h"), of(When::Ago(3600 * SECOND_NS)));
        assert_eq!(parse("-1h30m"), of(When::Ago(5400 * SECOND_NS)));
        assert_eq!(parse("peak"), of(When::Peak));
        assert_eq!(parse("mark:deploy"), of(When::Mark("deploy".into())));
        let time = 1_795_190_400;
        for text in [
            "2026-11-20T17:00",
            "2026-11-20T16:00Z",
            "2026-11-20T18:00:00+02:00",
            "2026-11-20 17:00",
        ] {
            let end_ns = (time + 1) * SECOND_NS - 1;
            assert_eq!(parse(text), of(When::At(end_ns)), "{text}");
        }
        let midnight_ns = (time - 17 * 3600) * SECOND_NS;
        assert_eq!(parse("2026-11-20"), of(When::At(midnight_ns + SECOND_NS - 1)));
        let exact = "2026-11-20T16:00:00.5Z";
        assert_eq!(parse(exact), of(When::At(time * SECOND_NS + SECOND_NS / 2)));
        let Some(Span::Range(When::At(from), When::At(to))) =
            parse("2026-11-20T17:00..2026-11-20T17:00")
        else {
            panic!("a range")
        };
        assert_eq!(to - from, SECOND_NS - 1);
    }

    #[test]
    fn ranges_are_two_moments() {
        let ago = |hours: u64| When::Ago(hours * 3_600_000_000_000);
        assert_eq!(parse("-2h..-1h"), Some(Span::Range(ago(2), ago(1))));
        assert_eq!(parse("-2h..@-1h"), Some(Span::Range(ago(2), ago(1))));
        assert_eq!(parse("-2h.."), Some(Span::Range(ago(2), When::Last)));
        let marks = Span::Range(When::Mark("a.b".into()), When::Peak);
        assert_eq!(parse("mark:a.b..peak"), Some(marks));
    }

    #[test]
    fn names_are_no_moments() {
        for text in [
            "",
            "-",
            "-1",
            "1h",
            "-1y",
            "17:00",
            "example.org/debug",
            "mark:",
            "..",
            "-1h...",
            "20261120",
            "-99999999999w",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

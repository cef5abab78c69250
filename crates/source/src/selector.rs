//! One SRC as the user typed it: what it names, and which moment of that.

use crate::failure::Failure;
use crate::{clickhouse, http};
use jiff::tz::TimeZone;
use ramson_history::Span;
use std::path::{Path, PathBuf};

/// Histories and profiles. A text that ends so names no process.
const OWN_FILES: [&str; 2] = [".db", ".ramson"];

/// The thing that a SRC names, without its moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// One process, running or dead.
    Process(u32),
    /// Every process of this name, or the one that died last. A text that is none of the forms below is a name, if there is no such file.
    Name(String),
    /// A process and its descendants.
    Tree(u32),
    /// The processes of a systemd unit.
    Unit(String),
    /// The processes of a control group and of those below it.
    Group(String),
    /// A pprof endpoint.
    Address(String),
    /// A service of a fleet, in a ClickHouse server.
    Database(String),
    /// Standard input.
    Input,
    /// A profile of any format, or a history.
    File(PathBuf),
}

/// A SRC, understood.
#[derive(Clone, Debug)]
pub struct Selector {
    /// As it was typed.
    pub text: String,
    /// The same without its moment.
    pub base_text: String,
    /// The thing that it names.
    pub base: Base,
    /// Which moment of that, or which range.
    pub span: Option<Span>,
}

impl Selector {
    /// Understands a SRC. A file of that very name comes before a process ID and before a moment.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (base_text, span) = split(text);
        let base = Base::parse(base_text)?;
        Ok(Self { text: text.to_owned(), base_text: base_text.to_owned(), base, span })
    }

    /// The SRC of one moment in the history of a source; `None` if `moment` is none. A moment that comes from a client names no
    /// other source.
    pub fn at_moment(source: &str, moment: &str) -> Option<String> {
        let base_text = split(source).0;
        let text = format!("{base_text}@{moment}");
        match split(&text) {
            (base, Some(Span::Moment(_))) if base == base_text => Some(text),
            _ => None,
        }
    }

    /// The text after the name: the moment with its @.
    pub fn moment_text(&self) -> &str {
        &self.text[self.base_text.len()..]
    }

    /// Whether it names processes that may come and go.
    pub fn is_group(&self) -> bool {
        matches!(self.base, Base::Name(_) | Base::Tree(_) | Base::Unit(_) | Base::Group(_))
    }
}

/// Takes the moment off a source, if it has one and is not a file of that name.
fn split(source: &str) -> (&str, Option<Span>) {
    if Path::new(source).exists() {
        return (source, None);
    }
    let zone = TimeZone::system();
    let parts = source.match_indices('@').filter(|&(at, _)| at > 0);
    let mut spans = parts.filter_map(|(at, _)| {
        let span = Span::parse(&source[at + 1..], &zone)?;
        Some((&source[..at], Some(span)))
    });
    spans.next().unwrap_or((source, None))
}

impl Base {
    fn parse(text: &str) -> Result<Self, Failure> {
        let has_form = |form: &str| text.starts_with(form);
        let is_own_file = OWN_FILES.iter().any(|ending| text.ends_with(ending));
        let is_name = has_form("name:") || !is_own_file && !text.contains([':', '/']);
        if !has_form("name:") && Path::new(text).exists() {
            return Ok(Self::File(text.into()));
        }
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = |finding: &str| Err(Failure::usage(format!("{text}: {finding}")));
        // A text after the @ of a process that is no moment is a mistake, and no part of a file's name.
        if let Some((process, moment)) = text.split_once('@')
            && (is_name || process.starts_with("tree:") || is_number(process))
        {
            return wrong(&format!(
                "{moment} is not a moment. Use {process}@mark:{moment} if it is a mark, @-1h, @2026-11-20T17:00 or @peak, or two of them as in @-2h..-1h"
            ));
        }
        match text.split_once(':') {
            Some(("name", name)) => Ok(Self::Name(name.to_owned())),
            // 0 is the parent of all that the kernel started.
            Some(("tree", root)) => match root.parse() {
                Ok(root) if root > 0 => Ok(Self::Tree(root)),
                _ => wrong("not a process ID. Pass tree:PID for a process and its descendants"),
            },
            Some(("unit", "")) => wrong("which unit? Pass unit:redis.service"),
            Some(("unit", unit)) => Ok(Self::Unit(unit.to_owned())),
            Some(("cgroup", "")) => wrong("which group? Pass cgroup:/system.slice"),
            Some(("cgroup", group)) => Ok(Self::Group(group.to_owned())),
            _ if text == "-" => Ok(Self::Input),
            _ if clickhouse::is_database(text) => Ok(Self::Database(text.to_owned())),
            _ if http::is_address(text) => Ok(Self::Address(text.to_owned())),
            _ if is_number(text) => {
                text.parse().map(Self::Process).or_else(|_| wrong("not a process ID"))
            }
            // There is no such file.
            None if is_name => Ok(Self::Name(text.to_owned())),
            _ => Ok(Self::File(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_history::When;

    fn parsed(text: &str) -> (Base, bool) {
        let selector = Selector::parse(text).unwrap();
        (selector.base, selector.span.is_some())
    }

    #[test]
    fn every_form_names_what_it_says() {
        assert_eq!(parsed("4711"), (Base::Process(4711), false));
        for name in ["name:redis-server", "redis-server"] {
            assert_eq!(parsed(name), (Base::Name("redis-server".into()), false));
        }
        assert_eq!(parsed("tree:1"), (Base::Tree(1), false));
        assert_eq!(parsed("unit:redis.service"), (Base::Unit("redis.service".into()), false));
        assert_eq!(parsed("cgroup:/a/b"), (Base::Group("/a/b".into()), false));
        assert_eq!(parsed("http://h/x"), (Base::Address("http://h/x".into()), false));
        let database = "clickhouse://h/ramson?service=postgresql@15-main.service";
        assert_eq!(parsed(database), (Base::Database(database.into()), false));
        let earlier = format!("{database}@-1h");
        assert_eq!(parsed(&earlier), (Base::Database(database.into()), true));
        assert_eq!(parsed("-"), (Base::Input, false));
        assert_eq!(parsed("no/such.ramson"), (Base::File("no/such.ramson".into()), false));
        assert_eq!(parsed("/proc/self/status"), (Base::File("/proc/self/status".into()), false));
    }

    #[test]
    fn selectors_take_moments() {
        assert_eq!(parsed("4711@-1h"), (Base::Process(4711), true));
        assert_eq!(parsed("name:a@peak"), (Base::Name("a".into()), true));
        assert_eq!(parsed("tree:7@-2h..-1h"), (Base::Tree(7), true));
        assert_eq!(parsed("cgroup:/a@mark:deploy"), (Base::Group("/a".into()), true));
        let unit = Base::Unit("postgresql@15-main.service".into());
        assert_eq!(parsed("unit:postgresql@15-main.service"), (unit.clone(), false));
        assert_eq!(parsed("unit:postgresql@15-main.service@peak"), (unit, true));
        let selector = Selector::parse("unit:a.service@peak").unwrap();
        assert_eq!(selector.span, Some(Span::Moment(When::Peak)));
        assert_eq!(selector.base_text, "unit:a.service");
    }

    #[test]
    fn moment_keeps_the_source() {
        assert_eq!(Selector::at_moment("4711", "-1h").as_deref(), Some("4711@-1h"));
        assert_eq!(Selector::at_moment("4711@-2h", "peak").as_deref(), Some("4711@peak"));
        for wrong in ["", "-2h..-1h", "noon", "/../-1h", "x@-1h"] {
            assert_eq!(Selector::at_moment("4711", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bad_selector_names_the_right_form() {
        for (text, part) in [
            ("4711@noon", "noon is not a moment"),
            ("name:a@noon", "noon is not a moment"),
            ("tree:7@noon", "noon is not a moment"),
            ("99999999999", "not a process ID"),
            ("tree:redis", "Pass tree:PID"),
            ("tree:0", "Pass tree:PID"),
            ("unit:", "Pass unit:redis.service"),
            ("cgroup:", "Pass cgroup:/system.slice"),
        ] {
            let failure = Selector::parse(text).unwrap_err();
            assert_eq!(failure.status(), 2, "{text}");
            assert!(failure.to_string().contains(part), "{failure}");
        }
    }
}

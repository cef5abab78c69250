use super::values::{parse_interval, parse_max_overhead, parse_size};
use super::*;
use ramson_analysis::question::Shown;
use std::ffi::OsString;

#[test]
fn the_flag_definition_is_consistent() {
    super::command().debug_assert();
}

#[test]
fn peek_alone_takes_an_expression() {
    let report = |line: &str| {
        let arguments = line.split(' ').map(OsString::from);
        match Cli::try_parse_from(rewritten(arguments)).map(|cli| cli.command) {
            Ok(Command::Report(options)) => Ok((options.source.sources, options.view)),
            Ok(_) => unreachable!("a report was asked for"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert!(
        matches!(report("ramson report --view tree 77"), Ok((source, Shown::Tree)) if source == ["77"])
    );
    let peek = report("ramson report --view peek ^main$ 77");
    assert!(
        matches!(peek, Ok((source, Shown::Peek(re))) if source == ["77"] && re.as_str() == "^main$")
    );
    assert!(report("ramson report 77 --view peek (").is_err());
    assert!(report("ramson report 77 --view peek").is_err());
    assert!(report("ramson report 77 --view flat").is_err());
    for view in Shown::WORDS {
        let words = format!("ramson report 77 --view {view}");
        assert_eq!(report(&words).is_ok(), view != "peek", "{view}");
    }
}

#[test]
fn p_names_a_process() {
    let words = |line: &str| {
        let words = rewritten(line.split(' ').map(OsString::from));
        words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("ramson report -p 77 --json"), "ramson report 77 --json");
    assert_eq!(words("ramson diff -p 77 -p 78"), "ramson diff 77 78");
    for unchanged in ["ramson run ssh -p 22 host", "ramson report -p x", "ramson mcp -- -p 7"] {
        assert_eq!(words(unchanged), unchanged);
    }
}

#[test]
fn sizes_agree_with_library() {
    assert_eq!(parse_size("512K"), Some(512 << 10));
    assert_eq!(parse_size("1MiB"), Some(1 << 20));
    assert_eq!(parse_size("3b"), Some(3));
    for wrong in ["", "K", "-1", "1.5M", "1X", "99999999999G", "iB"] {
        assert_eq!(parse_size(wrong), None, "{wrong}");
    }
}

#[test]
fn overhead_bounds_agree_with_library() {
    for right in ["1", "0.5", "0", "off", "90", "0.001"] {
        assert_eq!(parse_max_overhead(right).as_deref(), Ok(right));
    }
    for wrong in ["", "-1", "1%", "91", "0.0001", "1e1", ".5", "1.", "nan", "inf", "+1"] {
        assert!(parse_max_overhead(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn senseless_intervals_are_refused() {
    for wrong in ["0", "-5", "9999T", "abc"] {
        assert!(parse_interval(wrong).is_err(), "{wrong}");
    }
}

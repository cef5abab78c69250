//! Variables of a program's environment that say how it is to be recorded: libramson takes them, and `ramson run` says which value it
//! would not take.

use crate::{FILE_BYTES_RANGE, MAX_OVERHEAD_PPM_RANGE, MAX_RECENT_FREES};

/// Largest sampling interval.
pub const MAX_INTERVAL_BYTES: u64 = 1 << 50;
/// Prefix of the variables' names.
pub const PREFIX: &str = "RAMSON_";
/// Longest path of a profile file.
pub const PATH_BYTES: usize = 512;
/// Most bytes that are added to a path that the user names: a slash and `PID-TICKS-NAMESPACE.ramson`, or `.PID.IMAGE`; with the byte that
/// ends it.
const ADDED_BYTES: usize = 64;
/// Longest path that the user may name.
const MAX_PATH_BYTES: usize = PATH_BYTES - ADDED_BYTES;

/// Setting that a variable makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<'a> {
    /// RAMSON_INTERVAL; `None`: record nothing.
    IntervalBytes(Option<u64>),
    /// RAMSON_DIR; empty as if it were not set.
    Directory(&'a [u8]),
    /// RAMSON_OUTPUT; empty as if it were not set.
    Output(&'a [u8]),
    /// RAMSON_KEEP; empty as 0.
    Keep(bool),
    /// RAMSON_MAX_FILE.
    FileBytes(u64),
    /// RAMSON_SECCOMP: number of seccomp filters under which ramson is known to work.
    TriedFilters(u64),
    /// RAMSON_MAX_OVERHEAD; 0: no bound.
    MaxOverheadPpm(u32),
    /// RAMSON_FREES.
    RecentFrees(u64),
    /// RAMSON_RUN_ID.
    RunId(u64),
    /// RAMSON_INSIDE.
    Inside(bool),
}

/// A value that does not parse; what must stand there, after "must be".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

/// Parses a variable by its name without the prefix. `None`: no setting of that name.
pub fn setting<'a>(name: &[u8], value: &'a [u8]) -> Option<Result<Setting<'a>, Expected>> {
    const SIZES: (u64, u64) = (1, MAX_INTERVAL_BYTES);
    let size = |range: (u64, u64)| parse_size(value).filter(|bytes| is_in(range, bytes));
    let number = || parse_number(value).filter(|&(_, taken)| taken == value.len());
    let path = || (value.len() <= MAX_PATH_BYTES).then_some(value);
    let (setting, expected) = match name {
        b"INTERVAL" if value == b"off" => (Some(Setting::IntervalBytes(None)), ""),
        b"INTERVAL" => (
            size(SIZES).map(|bytes| Setting::IntervalBytes(Some(bytes))),
            "a size from 1 to 1024T, as 512K, or off",
        ),
        b"DIR" => (path().map(Setting::Directory), "a path of at most 448 bytes"),
        b"OUTPUT" => (path().map(Setting::Output), "a path of at most 448 bytes"),
        b"KEEP" => (parse_switch(value).map(Setting::Keep), "0 or 1"),
        b"MAX_FILE" => (size(FILE_BYTES_RANGE).map(Setting::FileBytes), "a size from 1M to 4G"),
        b"SECCOMP" => (number().map(|(filters, _)| Setting::TriedFilters(filters)), "a number"),
        b"MAX_OVERHEAD" => (
            parse_bound(value).map(Setting::MaxOverheadPpm),
            "a percentage from 0.001 to 90, as 0.5, or 0 or off for no bound",
        ),
        b"FREES" => (
            number()
                .filter(|&(frees, _)| frees <= MAX_RECENT_FREES)
                .map(|(frees, _)| Setting::RecentFrees(frees)),
            "a number from 0 to 65536",
        ),
        b"INSIDE" if matches!(value, b"on" | b"off") => (Some(Setting::Inside(value == b"on")), ""),
        b"INSIDE" => (None, "on or off"),
        b"RUN_ID" => (number().map(|(id, _)| Setting::RunId(id)), "a number"),
        _ => return None,
    };
    Some(setting.ok_or(Expected(expected)))
}

fn is_in<T: PartialOrd>((least, most): (T, T), value: &T) -> bool {
    (&least..=&most).contains(&value)
}

fn parse_switch(value: &[u8]) -> Option<bool> {
    match value {
        b"0" | b"" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

/// Reads the governor's bound, in millionths; 0 is none.
pub fn parse_bound(text: &[u8]) -> Option<u32> {
    if text == b"off" {
        return Some(0);
    }
    parse_percent(text).filter(|ppm| *ppm == 0 || is_in(MAX_OVERHEAD_PPM_RANGE, ppm))
}

/// Reads a decimal number from the front; the number and how many bytes it took.
pub fn parse_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut taken = 0;
    for &byte in bytes {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add((byte - b'0') as u64)?;
        taken += 1;
    }
    (taken > 0).then_some((value, taken))
}

/// Reads a size: a number with an optional K, M, G or T (powers of 1,024) and an optional "iB" or "B".
pub fn parse_size(bytes: &[u8]) -> Option<u64> {
    let (value, taken) = parse_number(bytes)?;
    let (shift, rest) = match bytes.get(taken..)? {
        [b'k' | b'K', rest @ ..] => (10, rest),
        [b'm' | b'M', rest @ ..] => (20, rest),
        [b'g' | b'G', rest @ ..] => (30, rest),
        [b't' | b'T', rest @ ..] => (40, rest),
        rest => (0, rest),
    };
    let known_suffix = matches!(rest, b"" | b"B" | b"b" | b"iB" | b"ib");
    (known_suffix && value <= u64::MAX >> shift).then(|| value << shift)
}

/// Reads a percentage with at most four decimals, as millionths of the whole.
fn parse_percent(bytes: &[u8]) -> Option<u32> {
    const DECIMALS: usize = 4;
    let (whole, taken) = parse_number(bytes)?;
    let (fraction, digits) = match bytes.get(taken..)? {
        [] => (0, 0),
        [b'.', rest @ ..] => parse_number(rest).filter(|&(_, digits)| digits == rest.len())?,
        _ => return None,
    };
    let scale = 10u64.pow(DECIMALS.checked_sub(digits)? as u32);
    let millionths = whole.checked_mul(10_000)?.checked_add(fraction * scale)?;
    u32::try_from(millionths).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_settings() {
        let says = |name: &str, value: &'static str| setting(name.as_bytes(), value.as_bytes());
        for (name, value, expected) in [
            ("INTERVAL", "64K", Setting::IntervalBytes(Some(64 << 10))),
            ("INTERVAL", "off", Setting::IntervalBytes(None)),
            ("DIR", "/a", Setting::Directory(b"/a")),
            ("OUTPUT", "", Setting::Output(b"")),
            ("KEEP", "1", Setting::Keep(true)),
            ("KEEP", "0", Setting::Keep(false)),
            ("KEEP", "", Setting::Keep(false)),
            ("MAX_FILE", "8M", Setting::FileBytes(8 << 20)),
            ("SECCOMP", "12", Setting::TriedFilters(12)),
            ("MAX_OVERHEAD", "0.25", Setting::MaxOverheadPpm(2_500)),
            ("MAX_OVERHEAD", "off", Setting::MaxOverheadPpm(0)),
            ("FREES", "65536", Setting::RecentFrees(65536)),
            ("RUN_ID", "18446744073709551615", Setting::RunId(u64::MAX)),
        ] {
            assert_eq!(says(name, value), Some(Ok(expected)), "{name}={value}");
        }
        assert_eq!(says("LIBRARY", "x"), None);
        assert_eq!(says("", ""), None);
    }

    #[test]
    fn bad_setting_names_the_expected_form() {
        for (name, wrong) in [
            ("INTERVAL", &["0", "-5", "", "9999T", "512 K", "Off"][..]),
            ("KEEP", &["yes", "2", "01", "true"]),
            ("MAX_FILE", &["12", "", "5G", "1X"]),
            ("SECCOMP", &["12abc", "", "-1", "18446744073709551616"]),
            ("MAX_OVERHEAD", &["", "91", "1%", "0.0001", "on"]),
            ("FREES", &["", "65537", "1K", "-1"]),
            ("RUN_ID", &["", "7x", "0x7"]),
        ] {
            for value in wrong {
                let read = setting(name.as_bytes(), value.as_bytes());
                assert!(
                    matches!(read, Some(Err(Expected(text))) if !text.is_empty()),
                    "{name}={value}"
                );
            }
        }
        for name in [&b"DIR"[..], b"OUTPUT"] {
            let path = [b'a'; PATH_BYTES];
            assert!(setting(name, &path[..448]).unwrap().is_ok());
            let expected = Expected("a path of at most 448 bytes");
            assert_eq!(setting(name, &path[..449]), Some(Err(expected)));
        }
    }

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse_size(b"512K"), Some(512 << 10));
        assert_eq!(parse_size(b"1MiB"), Some(1 << 20));
        assert_eq!(parse_size(b"77"), Some(77));
        for wrong in
            [&b""[..], b"K", b"-1", b"1.5M", b"1X", b"99999999999G", b"99999999999999999999"]
        {
            assert_eq!(parse_size(wrong), None);
        }
    }

    #[test]
    fn percentages_have_four_decimals() {
        assert_eq!(parse_percent(b"1"), Some(10_000));
        assert_eq!(parse_percent(b"0.5"), Some(5_000));
        assert_eq!(parse_percent(b"12.0625"), Some(120_625));
        for wrong in
            [&b""[..], b".5", b"1.", b"1%", b"-1", b"0.00001", b"1.5.", b"99999999999999999999"]
        {
            assert_eq!(parse_percent(wrong), None);
        }
    }
}

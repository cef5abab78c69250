//! The process's mappings as text formats write them: a copy of /proc/PID/maps.

use crate::input::Input;
use ramson_profile::{Mapping, Profile};

/// A process may have 65,530 mappings unless its administrator allows more.
const MOST_MAPPINGS: usize = 1 << 18;

/// Reads the executable mappings and finds each location's, up to the end or the line at which another profile begins. Returns whether
/// one does.
pub fn read(input: &mut Input, profile: &mut Profile, begins: fn(&[u8]) -> bool) -> bool {
    let mut is_followed = false;
    while let Some(line) = input.line() {
        if begins(line) {
            is_followed = true;
            break;
        }
        let Some(mapping) = parse(&String::from_utf8_lossy(line)) else { continue };
        let bytes = size_of::<Mapping>() + mapping.path.len();
        if profile.mappings.len() == MOST_MAPPINGS || input.charge(bytes).is_err() {
            break;
        }
        profile.mappings.push(mapping);
    }
    profile.mappings.sort_by_key(|mapping| mapping.start);
    for location in &mut profile.locations {
        let after = profile.mappings.partition_point(|mapping| mapping.start <= location.address.0);
        let found = after.checked_sub(1);
        location.mapping = found.filter(|&index| location.address.0 < profile.mappings[index].end);
    }
    is_followed
}

/// An executable mapping. Its bias is what it is where segments lie in the file as in memory; the binary can tell better.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.trim().splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    if !fields.next()?.contains('x') || end <= start {
        return None;
    }
    let file_offset = hex(fields.next()?)?;
    let path = fields.nth(2).unwrap_or_default().trim();
    Some(Mapping {
        start,
        end,
        file_offset,
        bias: start.wrapping_sub(file_offset),
        path: path.to_owned(),
        build_id: String::new(),
        ..Mapping::default()
    })
}

/// A hexadecimal number, as text formats write addresses.
pub fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_mappings_are_kept() {
        let line = "5650a18e5000-5650a18e6000 r-xp 00001000 fe:00 5840921      /opt/my server/a";
        let mapping = parse(line).unwrap();
        assert_eq!(mapping.path, "/opt/my server/a");
        assert_eq!(mapping.bias, 0x5650a18e4000);
        assert_eq!(parse(&line.replace("r-xp", "r--p")), None);
        assert_eq!(parse("7ffe-7fff r-xp 0 00:00 0 [vdso]").unwrap().path, "[vdso]");
        for wrong in ["", "x", "2-1 r-xp 0 0 0 a", "1-2", "1-2 r-xp"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

//! Declarations of functions are most of a C++ program's debug information, and none has an address; a reader that looks
//! for functions by address reads all of their attributes only to find that. Which entries are declarations stands in the
//! abbreviations, so these say it here by another tag.

use gimli::{
    DW_AT_high_pc, DW_AT_low_pc, DW_AT_ranges, DW_FORM_implicit_const, DW_TAG_dwarf_procedure,
    DW_TAG_subprogram, Reader, Result, RunTimeEndian,
};

use crate::bytes::Bytes;

/// One byte, as the tag that it stands in for: nothing moves.
const OTHER_TAG: u8 = DW_TAG_dwarf_procedure.0 as u8;

/// gcc and rustc give an entry about 20.
const MAX_ATTRIBUTES: usize = 1 << 8;

/// Changes the tag of every abbreviation of functions without addresses, as far as `abbreviations` (.debug_abbrev) can be read.
pub(crate) fn hide(abbreviations: &mut [u8]) {
    let mut at = 0;
    while at < abbreviations.len()
        && let Ok(found) = next(&abbreviations[at..])
    {
        if let Some(tag_at) = found.tag_at {
            abbreviations[at + tag_at] = OTHER_TAG;
        }
        at += found.length;
    }
}

/// Whether no abbreviation of a table has more attributes than compilers give it. A reader goes through all of them for each entry, which
/// may be a single byte.
pub(crate) fn are_short(table: &[u8]) -> Result<bool> {
    let mut at = 0;
    while at < table.len() {
        let found = next(&table[at..])?;
        if found.attributes > MAX_ATTRIBUTES {
            return Ok(false);
        }
        if found.is_end {
            break;
        }
        at += found.length;
    }
    Ok(true)
}

#[derive(Default)]
struct Abbreviation {
    /// Offset of the tag in bytes, if the abbreviation is of functions without addresses.
    tag_at: Option<usize>,
    length: usize,
    attributes: usize,
    /// The end of a table, not an abbreviation.
    is_end: bool,
}

/// The abbreviation at the beginning.
fn next(abbreviations: &[u8]) -> Result<Abbreviation> {
    let mut rest = Bytes::new(abbreviations, RunTimeEndian::Little);
    if rest.read_uleb128()? == 0 {
        let length = abbreviations.len() - rest.len();
        return Ok(Abbreviation { length, is_end: true, ..Abbreviation::default() });
    }
    let tag_at = abbreviations.len() - rest.len();
    let mut is_declaration = rest.read_uleb128()? == u64::from(DW_TAG_subprogram.0);
    // Whether there are children.
    rest.read_u8()?;
    let mut attributes = 0;
    loop {
        let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
        if form == u64::from(DW_FORM_implicit_const.0) {
            rest.skip_leb128()?;
        }
        let of_addresses = [DW_AT_low_pc, DW_AT_high_pc, DW_AT_ranges];
        is_declaration &= of_addresses.iter().all(|with| u64::from(with.0) != name);
        if (name, form) == (0, 0) {
            let tag_at = is_declaration.then_some(tag_at);
            let length = abbreviations.len() - rest.len();
            return Ok(Abbreviation { tag_at, length, attributes, is_end: false });
        }
        attributes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_declarations_are_hidden() {
        const SUBPROGRAM: u8 = 0x2e;
        const STRUCTURE: u8 = 0x13;
        // Name and form of each attribute; 0x21 is an implicit constant, whose value follows.
        let declaration: &[u8] = &[SUBPROGRAM, 1, 0x3b, 0x21, 0xff, 0x7f, 0x3c, 0x19, 0, 0];
        let definition: &[u8] = &[SUBPROGRAM, 1, 0x03, 0x0e, 0x11, 0x01, 0x12, 0x07, 0, 0];
        let in_parts: &[u8] = &[SUBPROGRAM, 0, 0x55, 0x17, 0, 0];
        let structure: &[u8] = &[STRUCTURE, 1, 0x03, 0x0e, 0, 0];
        let long_code: &[u8] = &[0x81, 0x01];
        let table = [
            &[1],
            declaration,
            &[2],
            definition,
            &[3],
            in_parts,
            &[4],
            structure,
            long_code,
            declaration,
            &[0],
        ];
        let mut bytes = [table.concat(), table.concat()].concat();
        let before = bytes.clone();
        hide(&mut bytes);
        let changed: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != before[at]).collect();
        let second = before.len() / 2;
        let last = second - declaration.len() - 1;
        assert_eq!(changed, [1, last, second + 1, second + last]);
        assert!(changed.iter().all(|&at| bytes[at] == OTHER_TAG));
        for length in 0..before.len() {
            let mut cut = before[..length].to_vec();
            hide(&mut cut);
            assert!(
                cut.iter()
                    .zip(&bytes)
                    .zip(&before)
                    .all(|((cut, all), old)| cut == all || cut == old)
            );
        }
    }
}

//! Declarations of functions are most of a C++ program's debug information, and none has an address; whoever looks for functions by address reads all
//! of their attributes only to find that. Which entries are declarations stands in the abbreviations, so these say it here by another tag.

use gimli::{
    DW_AT_high_pc, DW_AT_low_pc, DW_AT_ranges, DW_FORM_implicit_const, DW_TAG_dwarf_procedure,
    DW_TAG_subprogram,
};

/// One byte, as the tag that it stands in for: nothing moves.
const OTHER_TAG: u8 = DW_TAG_dwarf_procedure.0 as u8;

/// Changes the tag of every abbreviation of functions without addresses, as far as `abbreviations` (.debug_abbrev) can be read.
pub(crate) fn hide(abbreviations: &mut [u8]) {
    let mut at = 0;
    while at < abbreviations.len() {
        // A 0 ends a table.
        match next(abbreviations, at) {
            Some((tag_at, end)) => {
                if let Some(tag_at) = tag_at {
                    abbreviations[tag_at] = OTHER_TAG;
                }
                at = end;
            }
            None => return,
        }
    }
}

/// Where the tag of a declaration stands, if this abbreviation is one, and where the next abbreviation begins.
fn next(abbreviations: &[u8], start: usize) -> Option<(Option<usize>, usize)> {
    let mut rest = &abbreviations[start..];
    let at = |rest: &[u8]| abbreviations.len() - rest.len();
    if number(&mut rest)? == 0 {
        return Some((None, at(rest)));
    }
    let tag_at = at(rest);
    let mut is_declaration = number(&mut rest)? == u64::from(DW_TAG_subprogram.0);
    // Whether there are children.
    rest.split_off_first()?;
    loop {
        let (name, form) = (number(&mut rest)?, number(&mut rest)?);
        if form == u64::from(DW_FORM_implicit_const.0) {
            number(&mut rest)?;
        }
        if [DW_AT_low_pc, DW_AT_high_pc, DW_AT_ranges].iter().any(|with| u64::from(with.0) == name)
        {
            is_declaration = false;
        }
        if (name, form) == (0, 0) {
            return Some((is_declaration.then_some(tag_at), at(rest)));
        }
    }
}

/// A LEB128 number, signed or not; only small ones matter.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..).step_by(7) {
        let byte = bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_without_addresses_are_hidden_and_cut_bytes_stay() {
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

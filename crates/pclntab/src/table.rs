//! The table: names, files and lines by address.

use crate::bytes::{half, text, varint, word};
use std::borrow::Cow;
use std::ops::Range;

/// Go120PCLnTabMagic, as Go 1.20 to 1.27 have it.
pub(crate) const MAGIC: [u8; 4] = [0xf1, 0xff, 0xff, 0xff];
/// Bytes of the header (pcHeader).
pub(crate) const HEAD_BYTES: usize = 72;
/// Bytes of a function (_func) before its tables, and where its fields are.
const FUNCTION_BYTES: usize = 44;
const NAME: usize = 4;
const FILE_TABLE: usize = 20;
const LINE_TABLE: usize = 24;
const TABLES: usize = 28;
const UNIT: usize = 32;
const FURTHER: usize = 43;
/// Which of a function's tables says what is inlined where (PCDATA_InlTreeIndex), and which of its further data has the calls (FUNCDATA_InlTree).
const INLINED_AT: u32 = 2;
const INLINED_CALLS: u32 = 3;
/// Bytes of an inlined call (inlinedCall): name and parentPc are at 4 and 8.
const CALL_BYTES: usize = 16;
/// More than any compiler makes at one address.
const MOST_INLINED: usize = 256;
/// Changes of one table in one function: the largest functions have some ten thousand.
const MOST_STEPS: usize = 1 << 20;
/// A longer name is cut: generic functions have long ones.
const MOST_NAME_BYTES: usize = 4096;
/// Bytes of one function in the list of starts: start and place, four each.
const START_BYTES: usize = 8;
/// No such table, file or call.
const NONE: u32 = u32::MAX;

/// A function's activation at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFrame<'table> {
    /// With its package, as runtime/pprof writes it.
    pub function: Cow<'table, str>,
    /// As the compiler noted it.
    pub file: Option<Cow<'table, str>>,
    /// From 1 on; 0 if unknown.
    pub line: u32,
}

/// The table of a program.
pub struct Pclntab<'data> {
    bytes: Cow<'data, [u8]>,
    /// Inlined calls, among the functions' further data.
    inline: Cow<'data, [u8]>,
    /// Address of the first function.
    text: u64,
    count: usize,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functions: usize,
}

/// A function of the table.
#[derive(Clone, Copy)]
struct Function {
    /// Offset of its _func in the table.
    at: usize,
    start: u64,
}

impl<'data> Pclntab<'data> {
    pub(crate) fn of(bytes: &'data [u8], text: u64, inline: &'data [u8]) -> Option<Self> {
        let number = |offset| usize::try_from(word(bytes, offset)?).ok();
        let table = Self {
            text,
            count: number(8)?,
            names: number(32)?,
            units: number(40)?,
            files: number(48)?,
            values: number(56)?,
            functions: number(64)?,
            bytes: bytes.into(),
            inline: inline.into(),
        };
        // The list of starts has one more, the end of the last function.
        let end = table.count.checked_mul(START_BYTES)?.checked_add(table.functions)?;
        (end.checked_add(4)? <= bytes.len()).then_some(table)
    }

    /// The same, with its own copy of the bytes.
    pub fn into_owned(self) -> Pclntab<'static> {
        let [bytes, inline] = [self.bytes, self.inline].map(|it| Cow::Owned(it.into_owned()));
        Pclntab { bytes, inline, ..self }
    }

    /// The activations at an address, inlined ones first; none if no Go function is there.
    pub fn frames(&self, address: u64) -> Vec<GoFrame<'_>> {
        let Some(function) = self.function_at(address) else { return Vec::new() };
        let mut frames = Vec::new();
        let mut at = address;
        for _ in 0..MOST_INLINED {
            let Some((name, call)) = self.inlined_at(function, at) else { break };
            frames.extend(self.frame(function, name, at));
            at = function.start.wrapping_add(u64::from(call));
        }
        let name = half(&self.bytes, function.at + NAME).unwrap_or(NONE);
        frames.extend(self.frame(function, name, at));
        frames
    }

    /// Where the function at an address begins.
    pub fn start(&self, address: u64) -> Option<u64> {
        self.function_at(address).map(|function| function.start)
    }

    /// Addresses of the function of this name.
    pub fn function(&self, name: &str) -> Option<Range<u64>> {
        let has_name = |&index: &usize| {
            let function = self.function_number(index);
            let offset = function.and_then(|function| half(&self.bytes, function.at + NAME));
            offset.and_then(|offset| self.name(offset)) == Some(name.as_bytes())
        };
        let index = (0..self.count).find(has_name)?;
        Some(self.start_of(index)?..self.start_of(index + 1)?)
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> u64 {
        (self.bytes.len() + self.inline.len()) as u64
    }

    fn start_of(&self, index: usize) -> Option<u64> {
        let offset = half(&self.bytes, self.functions + index * START_BYTES)?;
        self.text.checked_add(offset.into())
    }

    fn function_number(&self, index: usize) -> Option<Function> {
        let place = half(&self.bytes, self.functions + index * START_BYTES + 4)?;
        let at = self.functions.checked_add(place as usize)?;
        self.bytes.get(at..at.checked_add(FUNCTION_BYTES)?)?;
        Some(Function { at, start: self.start_of(index)? })
    }

    fn function_at(&self, address: u64) -> Option<Function> {
        if address >= self.start_of(self.count)? {
            return None;
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start_of(middle)? <= address { low = middle + 1 } else { high = middle }
        }
        self.function_number(low.checked_sub(1)?)
    }

    /// Name and call of the innermost inlined function at an address: offsets of the name among names, and of an instruction at the call from the
    /// function's start.
    fn inlined_at(&self, function: Function, address: u64) -> Option<(u32, u32)> {
        let of = |offset| half(&self.bytes, function.at + offset);
        let tables = of(TABLES)?;
        let further = *self.bytes.get(function.at + FURTHER)?;
        if tables <= INLINED_AT || u32::from(further) <= INLINED_CALLS {
            return None;
        }
        let values = of(FUNCTION_BYTES + 4 * INLINED_AT as usize)?;
        let index = self.value(values, function, address)?;
        let calls = of(FUNCTION_BYTES + 4 * (tables as usize + INLINED_CALLS as usize))?;
        (calls != NONE).then_some(())?;
        let offset = calls as usize + index as usize * CALL_BYTES;
        Some((half(&self.inline, offset + 4)?, half(&self.inline, offset + 8)?))
    }

    /// The value of a table of a function at an address (pcvalue in the runtime). None where it is negative, which means "nothing".
    fn value(&self, table: u32, function: Function, address: u64) -> Option<u32> {
        (table != 0).then_some(())?;
        let mut steps = self.bytes.get(self.values.checked_add(table as usize)?..)?;
        let (mut at, mut value) = (function.start, -1_i32);
        for _ in 0..MOST_STEPS {
            let change = varint(&mut steps)?;
            if change == 0 && at != function.start {
                return None;
            }
            // Zigzag: the lowest bit is the sign.
            let sign = -((change & 1) as i32);
            value = value.wrapping_add((change >> 1) as i32 ^ sign);
            at = at.checked_add(varint(&mut steps)?.into())?;
            if address < at {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    fn frame(&self, function: Function, name: u32, address: u64) -> Option<GoFrame<'_>> {
        let of = |offset| half(&self.bytes, function.at + offset);
        let value = |table| self.value(of(table)?, function, address);
        let name = self.name(name).filter(|name| !name.is_empty())?;
        let file = value(FILE_TABLE).and_then(|file| self.file(of(UNIT)?, file));
        Some(GoFrame {
            function: String::from_utf8_lossy(name),
            file: file.map(String::from_utf8_lossy),
            line: value(LINE_TABLE).unwrap_or(0),
        })
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        text(&self.bytes, self.names.checked_add(offset as usize)?, MOST_NAME_BYTES)
    }

    /// A file of a compiled unit, by its number there.
    fn file(&self, unit: u32, number: u32) -> Option<&[u8]> {
        let index = (unit as usize).checked_add(number as usize)?.checked_mul(4)?;
        let offset = half(&self.bytes, self.units.checked_add(index)?)?;
        (offset != NONE).then_some(())?;
        text(&self.bytes, self.files.checked_add(offset as usize)?, MOST_NAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: u64 = 0x40_1000;

    /// Two functions of 16 and 32 bytes; in the second, `small` is inlined into `middle` and that into the function, in its bytes 8 to 16.
    fn table() -> (Vec<u8>, Vec<u8>) {
        let names = b"\0main.first\0main.second\0main.middle\0main.small\0";
        let files = b"\0/src/main.go\0/src/small.go\0";
        let units: Vec<u8> = [1_u32, 14].iter().flat_map(|it| it.to_le_bytes()).collect();
        // Each table is of pairs: a change, doubled (and negated by its lowest bit), and bytes of code. The first value is −1.
        // Lines of the first: 10. Of the second: 20, then 30 for 8 bytes, then 21. Its files: 0, 1, 0. What is inlined there: nothing, call 1, nothing.
        let values: Vec<u8> = [
            &[0][..],
            &[22, 16, 0],
            &[2, 16, 0],
            &[42, 8, 20, 8, 17, 16, 0],
            &[2, 8, 2, 8, 1, 16, 0],
            // The first step has no change.
            &[0, 8, 4, 8, 3, 16, 0],
        ]
        .concat();
        let [first_lines, first_files, lines, of_files, inlined] = [1, 4, 7, 14, 21];
        let function = |start: u32, name: u32, files: u32, lines: u32, inlined: Option<u32>| {
            let tables = if inlined.is_some() { 3 } else { 0_u32 };
            let mut words = vec![start, name, 0, 0, 0, files, lines, tables, 0, 0];
            // funcID, flag, padding, and how much further data.
            words.push(if inlined.is_some() { 4 << 24 } else { 0 });
            words.extend(inlined.into_iter().flat_map(|it| [0, 0, it, NONE, NONE, NONE, 0]));
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        let first = function(0, 1, first_files, first_lines, None);
        let second = function(16, 12, of_files, lines, Some(inlined));
        let starts_bytes = (2 * START_BYTES + 4) as u32;
        let second_at = starts_bytes + first.len() as u32;
        let starts = [0, starts_bytes, 16, second_at, 48];
        let starts: Vec<u8> = starts.iter().flat_map(|it| it.to_le_bytes()).collect();
        let functions = [starts, first, second].concat();
        let mut place = HEAD_BYTES as u64;
        let mut head: Vec<u64> = vec![2, 2, 0];
        for part in [names.len(), units.len(), files.len(), values.len(), functions.len()] {
            head.push(place);
            place += part as u64;
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0, 0, 1, 8]);
        bytes.extend(head.iter().flat_map(|it| it.to_le_bytes()));
        bytes.extend([names, &units[..], files, &values, &functions].concat());
        // Names, and where they are called: middle at 4 in the function, small at 6, which is in nothing that is inlined.
        let calls = [[0_u32, 24, 4, 0], [0, 36, 6, 0]].concat();
        (bytes, calls.iter().flat_map(|it| it.to_le_bytes()).collect())
    }

    fn shown(table: &Pclntab, address: u64) -> String {
        let frames = table.frames(address).into_iter().map(|frame| {
            let file = frame.file.unwrap_or("?".into());
            format!("{} {file}:{}", frame.function, frame.line)
        });
        frames.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn frames_have_names_files_and_lines() {
        let (bytes, calls) = table();
        let table = Pclntab::of(&bytes, TEXT, &calls).unwrap();
        assert_eq!(shown(&table, TEXT), "main.first /src/main.go:10");
        assert_eq!(shown(&table, TEXT + 16), "main.second /src/main.go:20");
        assert_eq!(shown(&table, TEXT + 47), "main.second /src/main.go:21");
        let inlined = "main.small /src/small.go:30, main.second /src/main.go:20";
        assert_eq!(shown(&table, TEXT + 24), inlined);
        for outside in [0, TEXT - 1, TEXT + 48, u64::MAX] {
            assert_eq!((shown(&table, outside), table.start(outside)), (String::new(), None));
        }
        assert_eq!(table.function("main.second"), Some(TEXT + 16..TEXT + 48));
        assert_eq!(table.function("main.small"), None);
        assert_eq!(table.start(TEXT + 47), Some(TEXT + 16));
    }

    /// Its own caller, with a name and without one.
    #[test]
    fn circle_of_calls_ends() {
        let (bytes, _) = table();
        for (name, frames) in [(36, MOST_INLINED + 1), (0, 1)] {
            let calls = [[0_u32, 24, 4, 0], [0, name, 8, 0]].concat();
            let calls: Vec<u8> = calls.iter().flat_map(|it| it.to_le_bytes()).collect();
            let table = Pclntab::of(&bytes, TEXT, &calls).unwrap();
            assert_eq!(table.frames(TEXT + 24).len(), frames);
        }
    }

    proptest! {
        /// Whatever a file holds, it is read to an end.
        #[test]
        fn any_bytes_are_read(changes in prop::collection::vec((0_usize..500, any::<u8>()), 1..9)) {
            let (mut bytes, calls) = table();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Some(table) = Pclntab::of(&bytes, TEXT, &calls) {
                for address in TEXT - 1..TEXT + 50 {
                    prop_assert!(table.frames(address).len() <= MOST_INLINED + 1);
                }
                table.function("main.second");
            }
        }
    }
}

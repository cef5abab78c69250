//! Ends of the variables of mapped binaries that are not in the file: zeros, in the anonymous memory after those that are. The kernel joins that
//! memory with whatever else is mapped after it.

use crate::areas::{Area, Backing};
use crate::memory::{Memory, PAGE_BYTES, half_word_at, page_of, read_present, word_at};

/// Parts of an ELF file of 64 bits (System V ABI): where its program headers are told, the size of each, and which of them are loaded.
const HEADERS: usize = 32;
const HEADER_BYTES: usize = 56;
const LOADED: u32 = 1;
/// Areas of one binary; one that has more is no binary's.
const MOST_AREAS: usize = 16;

/// Whether an area begins with variables of the binary that is mapped before it.
pub fn begins_with_variables(area: &Area, previous: Option<&Area>) -> bool {
    let is_data = |last: &Area| {
        last.end == area.start && last.backing() == Backing::File && &last.permissions == b"rw-p"
    };
    area.backing() == Backing::Anonymous && area.path.is_empty() && previous.is_some_and(is_data)
}

/// The areas that begin with such variables, ascending, by their starts: where these end. Those are left out whose binary does not tell.
pub fn ends_of_variables(memory: &impl Memory, areas: &[Area]) -> Vec<(u64, u64)> {
    let pairs = areas.windows(2).enumerate();
    let behind = pairs.filter(|(_, pair)| begins_with_variables(&pair[1], Some(&pair[0])));
    let end = |(index, pair): (usize, &[Area])| {
        let (data, area) = (&pair[0], &pair[1]);
        let is_first =
            |of: &&Area| (of.device, of.inode, of.offset) == (data.device, data.inode, 0);
        let first = areas[..=index].iter().rev().take(MOST_AREAS).find(is_first)?;
        let end = end_of_image(memory, first.start)?;
        Some((area.start, end.clamp(area.start, area.end)))
    };
    behind.filter_map(end).collect()
}

/// The end of what the program headers of the binary at `start` want loaded, in whole pages.
fn end_of_image(memory: &impl Memory, start: u64) -> Option<u64> {
    let page = read_present(memory, start, PAGE_BYTES as usize)?;
    let headers = word_at(&page, HEADERS).filter(|_| page.starts_with(b"\x7fELF\x02"))?;
    let headers = page.get(usize::try_from(headers).ok()?..)?;
    let count = half_word_at(&page, 56)? as u16;
    let headers = headers.get(..usize::from(count) * HEADER_BYTES)?.chunks_exact(HEADER_BYTES);
    let loaded = headers.filter(|header| half_word_at(header, 0) == Some(LOADED));
    // Offset in the file, address, and size in memory.
    let loaded = loaded.filter_map(|header| {
        Some((word_at(header, 8)?, word_at(header, 16)?, word_at(header, 40)?))
    });
    let loaded: Vec<_> = loaded.collect();
    let (_, first, _) = loaded.iter().find(|(offset, ..)| page_of(*offset) == 0)?;
    let bias = start.wrapping_sub(page_of(*first));
    let ends =
        loaded.iter().map(|(_, address, size)| bias.wrapping_add(*address).wrapping_add(*size));
    ends.max()?.checked_next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7f00_0000_0000;

    /// The first page of a binary.
    struct Page(Vec<u8>);

    impl Memory for Page {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            let offset = (address - START) as usize;
            let bytes = self.0.get(offset..offset + buffer.len());
            bytes.map(|bytes| buffer.copy_from_slice(bytes)).is_some()
        }

        fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
            visit(start.max(START), end.min(START + PAGE_BYTES));
            true
        }
    }

    /// Two segments, of which the second has 0x800 bytes in the file and so many in memory.
    fn binary(memory_bytes: u64) -> Page {
        let mut page = vec![0; PAGE_BYTES as usize];
        page[..5].copy_from_slice(b"\x7fELF\x02");
        let mut put = |offset: usize, word: u64| {
            page[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
        };
        put(HEADERS, 64);
        put(56, 3);
        for (index, [offset, address, bytes]) in
            [[0, 0x40_0000, 0x600], [0x1800, 0x40_2800, memory_bytes]].into_iter().enumerate()
        {
            let header = 64 + (index + 1) * HEADER_BYTES;
            put(header, LOADED.into());
            put(header + 8, offset);
            put(header + 16, address);
            put(header + 40, bytes);
        }
        Page(page)
    }

    fn areas() -> [Area; 3] {
        let area = |start, end, offset, inode, path: &str| Area {
            start: START + start,
            end: START + end,
            permissions: *b"rw-p",
            offset,
            inode,
            path: path.into(),
            ..Area::default()
        };
        [
            area(0, 0x1000, 0, 4, "/usr/lib/libx.so"),
            area(0x2000, 0x3000, 0x1000, 4, "/usr/lib/libx.so"),
            area(0x3000, 0x90_0000, 0, 0, ""),
        ]
    }

    #[test]
    fn variables_end_by_program_headers() {
        let of = |memory_bytes| ends_of_variables(&binary(memory_bytes), &areas());
        assert_eq!(of(0x1900), [(START + 0x3000, START + 0x5000)]);
        // All of them are in the page of the file's own; there are more than are mapped.
        assert_eq!(of(0x800), [(START + 0x3000, START + 0x3000)]);
        assert_eq!(of(1 << 30), [(START + 0x3000, START + 0x90_0000)]);
    }

    #[test]
    fn what_is_no_binary_tells_nothing() {
        let mut page = binary(0x1900);
        page.0[4] = 1;
        assert_eq!(ends_of_variables(&page, &areas()), []);
        let mut page = binary(0x1900);
        page.0[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(ends_of_variables(&page, &areas()), []);
        page.0[HEADERS..HEADERS + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(ends_of_variables(&page, &areas()), []);
        let mut areas = areas();
        areas[1].inode = 5;
        assert_eq!(ends_of_variables(&binary(0x1900), &areas), []);
    }
}

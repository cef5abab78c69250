//! An object as the loader has it in a process's memory: its tables, its functions, and the pointers through which it calls others.

use ramson_process::Memory;
use std::collections::{BTreeMap, HashSet};

/// Bytes of one table that are looked at, at most.
const MOST_TABLE_BYTES: u64 = 64 << 20;
/// Entries of a dynamic section.
const MOST_ENTRIES: usize = 512;
const MOST_NAME_BYTES: usize = 4096;
const SYMBOL_BYTES: u64 = 24;
const RELOCATION_BYTES: u64 = 24;

/// elf.h.
mod tag {
    pub const NEEDED: u64 = 1;
    pub const SYMBOLIC: u64 = 16;
    pub const FLAGS: u64 = 30;
    pub const STRTAB: u64 = 5;
    pub const SYMTAB: u64 = 6;
    pub const RELA: u64 = 7;
    pub const RELASZ: u64 = 8;
    pub const STRSZ: u64 = 10;
    pub const SONAME: u64 = 14;
    pub const PLTRELSZ: u64 = 2;
    pub const JMPREL: u64 = 23;
    pub const GNU_HASH: u64 = 0x6fff_fef5;
    pub const RELACOUNT: u64 = 0x6fff_fff9;
}
/// A bit of `tag::FLAGS`.
const DF_SYMBOLIC: u64 = 2;
pub const GLOB_DAT: u32 = 6;
pub const JUMP_SLOT: u32 = 7;

/// One entry of the loader's list.
pub struct Object {
    /// The entry.
    pub record: u64,
    pub bias: u64,
    pub name: String,
    /// Address of its dynamic section.
    pub dynamic_at: u64,
    dynamic: BTreeMap<u64, u64>,
    /// Offsets of the names of objects that it needs.
    needed: Vec<u64>,
}

/// A pointer to a function, of this name, that the loader binds.
pub struct Import {
    pub address: u64,
    pub kind: u32,
    pub name: String,
    /// Address of the object's own function of that name, if it has one.
    pub own: Option<u64>,
}

impl Object {
    /// `None` if its dynamic section has no end, or cannot be read.
    pub fn read(memory: &impl Memory, record: u64) -> Option<Self> {
        let [bias, name_at, dynamic_at] = words(memory, record)?;
        let mut bytes = vec![0; MOST_ENTRIES * 16];
        // The section is in one segment; what lies behind it may not be mapped.
        while !memory.read(dynamic_at, &mut bytes) {
            bytes.truncate(bytes.len() / 2);
            if bytes.len() < 16 {
                return None;
            }
        }
        let (entries, _) = bytes.as_chunks::<16>();
        let entry = |entry: &[u8; 16]| (word(&entry[..8]), word(&entry[8..]));
        let end = entries.iter().position(|entry| word(&entry[..8]) == 0)?;
        let dynamic: Vec<_> = entries[..end].iter().map(entry).collect();
        let is_needed = |&(tag, offset): &(u64, u64)| (tag == tag::NEEDED).then_some(offset);
        let needed = dynamic.iter().filter_map(is_needed).collect();
        let dynamic = dynamic.into_iter().collect();
        let name = text(memory, name_at).unwrap_or_default();
        Some(Self { record, bias, name, dynamic_at, dynamic, needed })
    }

    /// Returns the value of an entry of the dynamic section: a number …
    fn number(&self, tag: u64) -> u64 {
        self.dynamic.get(&tag).copied().unwrap_or(0)
    }

    /// … or an address. The loader relocates these in place, but not in all objects.
    fn address(&self, tag: u64) -> Option<u64> {
        let value = *self.dynamic.get(&tag)?;
        Some(if value < self.bias { value.wrapping_add(self.bias) } else { value })
    }

    fn table(memory: &impl Memory, start: u64, bytes: u64) -> Option<Vec<u8>> {
        let mut table = vec![0; bytes.min(MOST_TABLE_BYTES) as usize];
        memory.read(start, &mut table).then_some(table)
    }

    fn strings(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        Self::table(memory, self.address(tag::STRTAB)?, self.number(tag::STRSZ))
    }

    /// The name that it was built with.
    pub fn soname(&self, memory: &impl Memory) -> Option<String> {
        let offset = *self.dynamic.get(&tag::SONAME)?;
        text(memory, self.address(tag::STRTAB)?.checked_add(offset)?)
    }

    /// The names of the objects that it needs.
    pub fn needed(&self, memory: &impl Memory) -> Vec<String> {
        let Some(strings) = self.address(tag::STRTAB) else { return Vec::new() };
        let name = |offset: &u64| text(memory, strings.checked_add(*offset)?);
        self.needed.iter().filter_map(name).collect()
    }

    /// Whether the loader looks for its functions in itself first.
    pub fn is_symbolic(&self) -> bool {
        self.dynamic.contains_key(&tag::SYMBOLIC) || self.number(tag::FLAGS) & DF_SYMBOLIC != 0
    }

    /// Returns the addresses of its symbols of these names, in the order of the names.
    pub fn symbols(&self, memory: &impl Memory, names: &[&str]) -> Option<Vec<Option<u64>>> {
        let mut found = vec![None; names.len()];
        let count = self.symbol_count(memory)?;
        self.each_symbol(memory, count, names, |symbol, place| {
            if is_defined(symbol) {
                found[place].get_or_insert(self.bias.wrapping_add(word(&symbol[8..16])));
            }
        })?;
        Some(found)
    }

    /// Returns the addresses at which an executable that is loaded at a fixed address stands in for functions of these names: pointers of other
    /// objects lead there, and the executable goes on by its own pointer.
    pub fn stand_ins(&self, memory: &impl Memory, names: &[&str]) -> HashSet<u64> {
        let mut found = HashSet::new();
        // In front of what the hash table knows, and behind.
        let count = self.symbol_count(memory).unwrap_or(0);
        self.each_symbol(memory, count, names, |symbol, _| {
            let value = word(&symbol[8..16]);
            if !is_defined(symbol) && value != 0 {
                found.insert(self.bias.wrapping_add(value));
            }
        });
        found
    }

    /// Passes the symbols that have one of the names to `visit`, and which one.
    fn each_symbol(
        &self,
        memory: &impl Memory,
        count: u64,
        names: &[&str],
        mut visit: impl FnMut(&[u8; 24], usize),
    ) -> Option<()> {
        let table = Self::table(memory, self.address(tag::SYMTAB)?, count * SYMBOL_BYTES)?;
        let strings = self.strings(memory)?;
        for symbol in table.as_chunks::<24>().0 {
            if let Some(name) = name_of(&strings, symbol, names) {
                visit(symbol, name);
            }
        }
        Some(())
    }

    /// Symbols that the hash table knows, and those in front of them.
    fn symbol_count(&self, memory: &impl Memory) -> Option<u64> {
        let at = self.address(tag::GNU_HASH)?;
        let head: [u64; 2] = words(memory, at)?;
        let [buckets, first] = [head[0] as u32, (head[0] >> 32) as u32];
        let bloom_words = head[1] as u32;
        let buckets_at = at + 16 + 8 * u64::from(bloom_words);
        let table = Self::table(memory, buckets_at, 4 * u64::from(buckets))?;
        let last = table.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).max()?;
        if last < first {
            return Some(first.into());
        }
        let chains_at = buckets_at + 4 * u64::from(buckets);
        let mut index = u64::from(last);
        loop {
            let mut hash = [0; 4];
            let is_read = memory.read(chains_at + 4 * (index - u64::from(first)), &mut hash);
            index += 1;
            if !is_read || hash[0] & 1 == 1 || index - u64::from(last) > MOST_TABLE_BYTES {
                return Some(index);
            }
        }
    }

    /// The pointers to functions of these names. `None`: its tables cannot be read.
    pub fn imports(&self, memory: &impl Memory, names: &[&str]) -> Option<Vec<Import>> {
        let Some(strings) = self.strings(memory) else { return Some(Vec::new()) };
        let skipped = self.number(tag::RELACOUNT) * RELOCATION_BYTES;
        let mut relocations = Vec::new();
        for (at, bytes, skipped) in
            [(tag::RELA, tag::RELASZ, skipped), (tag::JMPREL, tag::PLTRELSZ, 0)]
        {
            let Some(at) = self.address(at) else { continue };
            if let Some(rest) = self.number(bytes).checked_sub(skipped) {
                let table = Self::table(memory, at + skipped, rest)?;
                relocations.extend(table.as_chunks::<24>().0.iter().map(|one| {
                    let info = word(&one[8..16]);
                    (word(&one[..8]), info as u32, info >> 32)
                }));
            }
        }
        relocations.retain(|&(_, kind, _)| [GLOB_DAT, JUMP_SLOT].contains(&kind));
        let Some(last) = relocations.iter().map(|&(.., symbol)| symbol).max() else {
            return Some(Vec::new());
        };
        let symbols = Self::table(memory, self.address(tag::SYMTAB)?, (last + 1) * SYMBOL_BYTES)?;
        let (symbols, _) = symbols.as_chunks::<24>();
        let import = |(offset, kind, symbol): (u64, u32, u64)| {
            let symbol = symbols.get(symbol as usize)?;
            let name = name_of(&strings, symbol, names)?;
            Some(Import {
                address: self.bias.wrapping_add(offset),
                kind,
                name: names[name].to_owned(),
                own: is_defined(symbol).then(|| self.bias.wrapping_add(word(&symbol[8..16]))),
            })
        };
        let mut found: Vec<Import> = relocations.into_iter().filter_map(import).collect();
        found.sort_by_key(|import| import.address);
        found.dedup_by_key(|import| import.address);
        Some(found)
    }
}

fn is_defined(symbol: &[u8; 24]) -> bool {
    symbol[6..8] != [0, 0]
}

/// Which of the names a symbol has. No more is looked at than these have: the table may have no end of a name for long.
fn name_of(strings: &[u8], symbol: &[u8; 24], names: &[&str]) -> Option<usize> {
    let at = u32::from_le_bytes(symbol[..4].try_into().ok()?) as usize;
    let rest = strings.get(at..)?;
    names.iter().position(|name| {
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    })
}

/// A C string.
pub fn text(memory: &impl Memory, at: u64) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < MOST_NAME_BYTES {
        // To the end of the page, behind which nothing may be mapped.
        let here = at.checked_add(bytes.len() as u64)?;
        let mut piece = vec![0; (64 - here % 64) as usize];
        if !memory.read(here, &mut piece) {
            return None;
        }
        let end = piece.iter().position(|&byte| byte == 0);
        bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    None
}

/// Reads `COUNT` words.
pub fn words<const COUNT: usize>(memory: &impl Memory, at: u64) -> Option<[u64; COUNT]> {
    let mut bytes = [[0; 8]; COUNT];
    memory.read(at, bytes.as_flattened_mut()).then(|| bytes.map(u64::from_le_bytes))
}

pub fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |&word| u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::super::bounded::{Allowance, Bounded};
    use super::*;
    use ramson_process::ProcessMemory;
    use std::time::Duration;

    /// A word of ours, as others find it.
    fn at<T>(of: &[T]) -> u64 {
        of.as_ptr() as u64
    }

    #[test]
    fn oversized_objects_are_read_to_bound() {
        // One object over and over, whose tables are as large as any that is looked at; zeroes that take no memory.
        let table = vec![0u8; MOST_TABLE_BYTES as usize];
        let hash = [1u32, 1, 0, 0, (MOST_TABLE_BYTES / SYMBOL_BYTES) as u32 - 1, 1];
        let dynamic = [
            [tag::STRTAB, at(&table)],
            [tag::STRSZ, MOST_TABLE_BYTES],
            [tag::SYMTAB, at(&table)],
            [tag::GNU_HASH, at(&hash)],
            [0, 0],
        ];
        let record = [0, at(&table), at(&dynamic), 0];
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let allowance = Allowance::new(1 << 30, Duration::from_secs(60));
        let bounded = Bounded::new(&memory, &allowance);
        let mut looks = 0;
        for _ in 0..8192 {
            let Some(object) = Object::read(&bounded, at(&record)) else { break };
            looks += usize::from(object.symbols(&bounded, &["malloc"]).is_some());
        }
        assert!(bounded.is_used_up());
        // 1 GiB are sixteen tables.
        assert!(looks <= 8, "{looks}");
        // The next look has none left.
        assert!(Bounded::new(&memory, &allowance).is_used_up());
        let honest = Allowance::new(1 << 30, Duration::from_secs(60));
        let honest = Bounded::new(&memory, &honest);
        assert!(Object::read(&honest, at(&record)).is_some() && !honest.is_used_up());
    }

    #[test]
    fn endless_names_are_searched_once() {
        let strings = [&[b'a'; 1 << 20][..], b"\0malloc\0mallocx\0malloc"].concat();
        let name = |at: usize| {
            let mut symbol = [0; 24];
            symbol[..4].copy_from_slice(&(at as u32).to_le_bytes());
            name_of(&strings, &symbol, &["free", "malloc"])
        };
        let begin = std::time::Instant::now();
        // Each would be a search of 1 MiB: together 64 GiB.
        assert!((0..1 << 16).all(|at| name(at).is_none()));
        assert!(begin.elapsed() < Duration::from_secs(10));
        let first = (1 << 20) + 1;
        assert_eq!([0, 7, 15, 99].map(|at| name(first + at)), [Some(1), None, None, None]);
    }
}

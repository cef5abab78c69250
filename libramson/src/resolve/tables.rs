//! The symbol tables of a loaded object.

use super::{LinkMap, MAX_STEPS};
use core::ffi::{CStr, c_char};

/// An entry of a dynamic section.
#[repr(C)]
pub struct Dynamic {
    tag: usize,
    value: usize,
}

/// An entry of a symbol table.
#[repr(C)]
pub struct Symbol {
    name: u32,
    pub info: u8,
    other: u8,
    section: u16,
    pub value: usize,
    pub size: usize,
}

/// Elf64_Rela.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: usize,
    addend: usize,
}

/// A pointer in an object that the loader makes lead to a function.
pub struct Pointer {
    pub address: usize,
    /// It may be left unbound until the first call.
    pub may_be_lazy: bool,
    /// The function's name.
    pub name: *const c_char,
    /// The object defines the function itself.
    pub is_defined: bool,
}

const DT_PLTRELSZ: usize = 2;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_JMPREL: usize = 23;
const DT_VERSYM: usize = 0x6fff_fff0;
const DT_GNU_HASH: usize = 0x6fff_fef5;

/// Addresses of an object's symbols and their hash tables.
pub struct Tables {
    pub symbols: *const Symbol,
    strings: *const c_char,
    versions: *const u16,
    gnu_hash: *const u32,
    hash: *const u32,
}

/// Returns the value of each tag in `tags` from an object's dynamic section; 0 for a tag that it has not.
fn entries_of<const COUNT: usize>(object: &LinkMap, tags: [usize; COUNT]) -> [usize; COUNT] {
    let mut found = [0; COUNT];
    for index in 0..MAX_STEPS {
        // SAFETY: the dynamic section of a loaded object ends with a null tag, where the loop stops. One that is being unloaded would
        // break that (see `objects`).
        let entry = unsafe { &*object.dynamic.add(index) };
        if entry.tag == 0 {
            break;
        }
        if let Some(place) = tags.iter().position(|&tag| tag == entry.tag) {
            found[place] = entry.value;
        }
    }
    found
}

/// Whether the loader will write to the object's code.
pub fn has_text_relocations(object: &LinkMap) -> bool {
    const DT_TEXTREL: usize = 22;
    const DT_FLAGS: usize = 30;
    const DF_TEXTREL: usize = 4;
    let mut is_marked = false;
    for index in 0..MAX_STEPS {
        // SAFETY: as in `entries_of`.
        let entry = unsafe { &*object.dynamic.add(index) };
        match entry.tag {
            0 => break,
            DT_TEXTREL => is_marked = true,
            DT_FLAGS => is_marked |= entry.value & DF_TEXTREL != 0,
            _ => {}
        }
    }
    is_marked
}

/// Passes the pointers of an object, which is loaded and stays so, to `visit`.
pub fn each_pointer(object: &LinkMap, visit: &mut dyn FnMut(&Pointer)) {
    const GLOB_DAT: usize = 6;
    const JUMP_SLOT: usize = 7;
    let Some(tables) = Tables::of(object) else { return };
    let [bound_at, bound_bytes, called_at, called_bytes] =
        entries_of(object, [DT_RELA, DT_RELASZ, DT_JMPREL, DT_PLTRELSZ]);
    for (at, bytes) in [(bound_at, bound_bytes), (called_at, called_bytes)] {
        let table = address(object, at) as *const Relocation;
        let count = if at == 0 { 0 } else { bytes / size_of::<Relocation>() };
        for index in 0..count {
            // SAFETY: the loader has read this table of the object itself, and the symbols and names that it refers to. An object that is
            // being unloaded would break that.
            let (relocation, symbol) = unsafe {
                let relocation = &*table.add(index);
                (relocation, &*tables.symbols.add(relocation.info >> 32))
            };
            let kind = relocation.info & 0xffff_ffff;
            if kind == GLOB_DAT || kind == JUMP_SLOT {
                visit(&Pointer {
                    address: object.bias + relocation.offset,
                    may_be_lazy: kind == JUMP_SLOT,
                    // SAFETY: as above.
                    name: unsafe { tables.strings.add(symbol.name as usize) },
                    is_defined: symbol.section != 0,
                });
            }
        }
    }
}

/// The address that an entry stands for, 0 for none: glibc relocates these in place, other loaders and the vDSO do not.
fn address(object: &LinkMap, value: usize) -> usize {
    match value {
        0 => 0,
        value if value < object.bias => value + object.bias,
        value => value,
    }
}

impl Tables {
    /// `None` for an object without symbols.
    pub fn of(object: &LinkMap) -> Option<Self> {
        if object.dynamic.is_null() {
            return None;
        }
        let tags = [DT_SYMTAB, DT_STRTAB, DT_VERSYM, DT_GNU_HASH, DT_HASH];
        let found = entries_of(object, tags).map(|value| address(object, value));
        let [symbols, strings, versions, gnu_hash, hash] = found;
        (symbols != 0 && strings != 0).then_some(Self {
            symbols: symbols as *const Symbol,
            strings: strings as *const c_char,
            versions: versions as *const u16,
            gnu_hash: gnu_hash as *const u32,
            hash: hash as *const u32,
        })
    }

    /// Index of the definition of `name`. One of another version than the default one counts where there is none of that: programs
    /// are bound to it by the version that they name, as to all of libc_malloc_debug.so.
    pub fn lookup(&self, name: &CStr) -> Option<usize> {
        [true, false].into_iter().find_map(|is_default| {
            if self.gnu_hash.is_null() {
                self.lookup_sysv(name, is_default)
            } else {
                self.lookup_gnu(name, is_default)
            }
        })
    }

    /// Whether the object refers to one of `names` without defining it. Such symbols come first.
    pub fn imports_any(&self, names: &[&CStr]) -> bool {
        // SAFETY: the loader has used these tables itself: the second word of DT_GNU_HASH is the number of the first symbol that is defined,
        // that of DT_HASH the number of all. An object that is being unloaded would break that.
        let count = unsafe {
            match self.gnu_hash.is_null() {
                false => *self.gnu_hash.add(1),
                true if self.hash.is_null() => 0,
                true => *self.hash.add(1),
            }
        };
        (0..(count as usize).min(MAX_STEPS)).any(|index| {
            // SAFETY: as above.
            let (section, name) = unsafe {
                let symbol = &*self.symbols.add(index);
                (symbol.section, CStr::from_ptr(self.strings.add(symbol.name as usize)))
            };
            section == 0 && names.contains(&name)
        })
    }

    fn lookup_gnu(&self, name: &CStr, is_default: bool) -> Option<usize> {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte as u32));
        // SAFETY: layout of DT_GNU_HASH: nbuckets, first hashed symbol, bloom words, shift, bloom, buckets, chains. The
        // loader has used this table itself. A chain ends with an odd hash. An object that is being unloaded would break that.
        unsafe {
            let table = self.gnu_hash;
            let (buckets, first, bloom_words) = (*table, *table.add(1), *table.add(2));
            if buckets == 0 || bloom_words == 0 {
                return None;
            }
            let bloom = table.add(4).cast::<u64>();
            let word = *bloom.add((hash / 64) as usize % bloom_words as usize);
            let shift = *table.add(3);
            if word >> (hash % 64) & word >> ((hash >> shift) % 64) & 1 == 0 {
                return None;
            }
            let bucket_table = bloom.add(bloom_words as usize).cast::<u32>();
            let chains = bucket_table.add(buckets as usize);
            let start = *bucket_table.add((hash % buckets) as usize);
            if start < first {
                return None;
            }
            for index in start..start.saturating_add(MAX_STEPS as u32) {
                let chain_hash = *chains.add((index - first) as usize);
                if chain_hash | 1 == hash | 1
                    && self.is_definition(index as usize, name, is_default)
                {
                    return Some(index as usize);
                }
                if chain_hash & 1 == 1 {
                    return None;
                }
            }
        }
        None
    }

    fn lookup_sysv(&self, name: &CStr, is_default: bool) -> Option<usize> {
        if self.hash.is_null() {
            return None;
        }
        // SAFETY: DT_HASH begins with nbucket and nchain; nchain is the number of symbols. An object that is being unloaded would break that.
        let symbols = unsafe { *self.hash.add(1) } as usize;
        (1..symbols.min(MAX_STEPS)).find(|&index| self.is_definition(index, name, is_default))
    }

    fn is_definition(&self, index: usize, name: &CStr, of_default_version: bool) -> bool {
        const VERSION_HIDDEN: u16 = 0x8000;
        // SAFETY: `index` comes from the hash table; names are offsets into the string table; versions are parallel
        // to the symbols. Another index, or an object that is being unloaded, would break that.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let is_default =
                self.versions.is_null() || *self.versions.add(index) & VERSION_HIDDEN == 0;
            symbol.section != 0
                && is_default == of_default_version
                && CStr::from_ptr(self.strings.add(symbol.name as usize)) == name
        }
    }
}

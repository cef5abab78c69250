//! The separate debug file of an object: it has the symbols that the object was stripped of.

use super::elf::{ElfFile, SHT_SYMTAB};
use crate::sys::{self, File};
use crate::text::Text;
use ramson_format::settings::PATH_BYTES;

/// Where distributions install debug files.
const INSTALLED: &[u8] = b"/usr/lib/debug";
/// A shorter build ID may be two files' by chance.
const LEAST_ID_BYTES: usize = 8;

/// Finds the debug file of `object`, which was mapped from `file`: one that is installed by its build ID, or where its link may lead.
#[inline(never)]
pub fn find(file: &File, object: &ElfFile) -> Option<ElfFile> {
    let id = object.build_id().filter(|id| id.len() >= LEAST_ID_BYTES)?;
    let owner = file.stat().ok()?.uid;
    let mut path = Text::new();
    path.push(INSTALLED).push(b"/.build-id/");
    for (index, byte) in id.iter().enumerate() {
        let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
        path.push(if index == 1 { b"/" } else { b"" }).push(&[digit(byte >> 4), digit(byte & 15)]);
    }
    path.push(b".debug");
    if let Some(found) = open(&path, id, owner) {
        return Some(found);
    }
    let name = object.debug_link()?;
    // Debian's links have the name that was just tried.
    if path.as_c_str()?.to_bytes().ends_with(name) {
        return None;
    }
    path.clear();
    path.push(b"/proc/self/fd/").push_number(file.number());
    let mut target = [0; PATH_BYTES];
    let length = sys::read_link(path.as_c_str()?, &mut target).ok()?;
    let object_path = target.get(..length)?;
    let directory = object_path.get(..object_path.iter().rposition(|&byte| byte == b'/')?)?;
    let places: [[&[u8]; 2]; 3] = [[b"", b"/"], [b"", b"/.debug/"], [INSTALLED, b"/"]];
    places.into_iter().find_map(|[root, between]| {
        path.clear();
        path.push(root).push(directory).push(between).push(name);
        open(&path, id, owner)
    })
}

/// Opens a file that has symbols, and this build ID. Others than root and the owner of the object have no say in where hooks are written.
fn open(path: &Text, id: &[u8], owner: u32) -> Option<ElfFile> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    // A pipe is opened without a wait for its other end.
    let open_flags = sys::O_RDONLY | sys::O_CLOEXEC | sys::O_NONBLOCK;
    let file = sys::open_at(sys::AT_FDCWD, path.as_c_str()?, open_flags, 0).ok()?;
    let stat = file.stat().ok()?;
    if stat.mode & KIND != REGULAR || stat.uid != 0 && stat.uid != owner {
        return None;
    }
    let found = ElfFile::map(&file)?;
    (found.build_id() == Some(id) && found.symbols(SHT_SYMTAB).is_some()).then_some(found)
}

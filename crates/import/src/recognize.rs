//! Which format the bytes have, by their content; and what they look like if none.

use crate::collapsed;
use crate::defect::ImportError;
use crate::format::Format;
use crate::heap_symbols::MARKER;
use crate::heap_text;
use crate::input::Input;
use crate::malloc_info::is_malloc_info;
use crate::packing::Packing;
use crate::{fleet, seastar, tables};
use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field};

/// Bytes looked at.
pub const HEAD_BYTES: usize = 64 << 10;
/// How gperftools' CPU profiles begin, and old ones of Go: the words 0 and 3.
const CPU_PROFILE: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 3];

/// A format, as its content tells it.
pub enum Recognized {
    /// A profile.
    Profile(Format),
    /// Figures of glibc's allocator.
    MallocInfo,
}

/// The format of what `input` holds.
pub fn recognize(input: &mut Input) -> Result<Recognized, ImportError> {
    let packing = input.packing;
    let head = input.peek(HEAD_BYTES);
    if head.is_empty() {
        return Err(match (packing, input.defects.pop()) {
            (_, Some(defect)) => ImportError::Nothing(Some(defect)),
            (Packing::None, None) => ImportError::Empty,
            (_, None) => ImportError::Unrecognized("compressed, with nothing in it".into()),
        });
    }
    if head.starts_with(&CPU_PROFILE) {
        return Err(ImportError::OtherKind("CPU time".into()));
    }
    if let Some(format) = format_of(head) {
        return Ok(Recognized::Profile(format));
    }
    if is_malloc_info(head) {
        return Ok(Recognized::MallocInfo);
    }
    let looks = looks_like(head);
    Err(ImportError::Unrecognized(match packing {
        Packing::None => looks,
        Packing::Gzip => format!("gzip of: {looks}"),
        Packing::Zstd => format!("zstd of: {looks}"),
    }))
}

fn format_of(head: &[u8]) -> Option<Format> {
    let first_line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    // The reader finds the header, and with it the format.
    if first_line.starts_with(MARKER.as_bytes()) || first_line.starts_with(b"%warn") {
        return Some(Format::Gperftools);
    }
    if first_line == fleet::HEAD.as_bytes() {
        return Some(Format::Fleet);
    }
    if is_heaptrack(first_line) {
        return Some(Format::Heaptrack);
    }
    if is_pprof(head) {
        return Some(Format::Pprof);
    }
    // Messages may come before.
    if head.split(|&byte| byte == b'\n').any(heap_text::is_header) {
        return Some(Format::Gperftools);
    }
    if seastar::is_document(head) {
        return Some(Format::Seastar);
    }
    tables::format_of(head).or_else(|| is_collapsed(head).then_some(Format::Collapsed))
}

/// `v 10400 3`: two hexadecimal numbers, the version of heaptrack and of its format.
fn is_heaptrack(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"v ") else { return false };
    let is_hex = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit);
    rest.trim_ascii_end().split(|&byte| byte == b' ').all(is_hex) && rest.len() < 20
}

/// Whether the first fields are those of a `Profile` message, in whatever order: known numbers with the right wire types,
/// and where the first is a message, one that can be read. Text can look like fields by chance: a newline is the tag of
/// field 1.
fn is_pprof(head: &[u8]) -> bool {
    const FIELDS: usize = 8;
    let mut rest = head;
    for number in 0..FIELDS {
        let Some(&tag) = rest.first() else { return number > 1 };
        if !is_profile_tag(tag) {
            // Readers pass over what they do not know.
            return number > 1;
        }
        rest = &rest[1..];
        let Ok(value) = decode_varint(&mut rest) else { return number > 1 && rest.len() < 10 };
        if tag & 7 != 2 {
            continue;
        }
        let length = usize::try_from(value).unwrap_or(usize::MAX);
        let inner = &rest[..length.min(rest.len())];
        let is_whole = inner.len() == length;
        if number == 0 && tag >> 3 != 6 && !is_message(inner, is_whole) {
            return false;
        }
        if !is_whole {
            // Cut, or longer than what was looked at.
            return number > 0 || head.len() == HEAD_BYTES;
        }
        rest = &rest[length..];
    }
    true
}

fn is_message(mut bytes: &[u8], is_whole: bool) -> bool {
    while !bytes.is_empty() {
        let Ok((number, wire_type)) = decode_key(&mut bytes) else { return !is_whole };
        if number > 10 {
            return false;
        }
        if skip_field(wire_type, number, &mut bytes, DecodeContext::default()).is_err() {
            return !is_whole;
        }
    }
    true
}

/// Fields 1 to 6 and 11 are length-delimited, 13 may be; 7 to 10, 12 to 15 are numbers.
fn is_profile_tag(tag: u8) -> bool {
    matches!(tag >> 3, 1..=6 | 11 | 13) && tag & 7 == 2
        || matches!(tag >> 3, 7..=10 | 12..=15) && tag & 7 == 0
}

/// Whether the first lines are all text, most of them are frames and a number, and one has several frames: many a table has lines of a word and
/// a number.
fn is_collapsed(head: &[u8]) -> bool {
    const LINES: usize = 20;
    let is_cut = head.len() == HEAD_BYTES;
    let mut lines: Vec<&[u8]> = head.split(|&byte| byte == b'\n').take(LINES + 1).collect();
    if is_cut || lines.len() > LINES {
        lines.pop();
    }
    let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t' && *byte != b'\r';
    if lines.iter().any(|line| line.iter().any(is_control)) {
        return false;
    }
    lines.retain(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
    let is_stack = |line: &&&[u8]| collapsed::split(line).is_some();
    let stacks = lines.iter().filter(is_stack).count();
    let has_frames = lines.iter().any(|line| line.contains(&b';'));
    has_frames && stacks > 0 && stacks * 10 >= lines.len() * 9
}

/// Tells what bytes that are no profile look like, in a few words.
pub fn looks_like(head: &[u8]) -> String {
    const MAGICS: [(&[u8], &str); 17] = [
        (b"\x7fELF", "an ELF program or core file"),
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PERFILE2", "perf.data"),
        (b"JFR\0", "a recording of the Java Flight Recorder"),
        (b"JAVA PROFILE", "a Java heap dump"),
        (b"%PDF", "a PDF document"),
        (b"\x89PNG", "a PNG picture"),
        (b"SQLite format 3", "an SQLite database"),
        (b"<?xml", "XML"),
        (b"<svg", "an SVG picture"),
        (b"desc: ", "massif's output"),
        (b"memray", "a memray file, which only memray reads"),
        (b"\x04\x22\x4d\x18", "LZ4, perhaps a memray file"),
    ];
    if let Some(core) = elf_type(head) {
        return core.into();
    }
    if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return format!("it looks like {name}");
    }
    let text = head.trim_ascii_start();
    let lower = text[..text.len().min(64)].to_ascii_lowercase();
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return "it looks like HTML".into();
    }
    if text.starts_with(b"{") || text.starts_with(b"[") {
        return "it looks like JSON".into();
    }
    if head.iter().all(|&byte| byte == 0) {
        return "it holds zeros only".into();
    }
    let is_control = |byte: &&u8| **byte == 0x7f || **byte < b' ' && !b"\t\r\n\x1b".contains(*byte);
    if !head.iter().any(|byte| is_control(&byte)) {
        // The text may be a secret, and a message goes to logs and to models.
        return "it looks like text".into();
    }
    let first: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("it starts with {}", first.join(" "))
}

fn elf_type(head: &[u8]) -> Option<&'static str> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    // e_type, in the byte order that EI_DATA tells.
    let bytes = head.get(16..18)?;
    Some(match bytes[0] | bytes[1] {
        4 => "it looks like a core file",
        3 => "it looks like an ELF program or library",
        _ => "it looks like an ELF program",
    })
}

//! Answers on disk, one file per build ID, so that a second look at a binary need not open its debug information.
//!
//! A file is: `MAGIC`; format version, u32; CRC-32 of the body, u32; the body. All integers little-endian. The body:
//! crate version, build ID, source, files considered, debug link, strings, frames, addresses; each list is a u32 count
//! and its items. A file that does not read to its last byte, or with another version or CRC, is as good as absent.
//! Writers write another file and rename it, so readers and other writers see whole files only; of two writers the
//! later wins, which loses answers but never mixes them.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::SymbolSource;
use crate::answers::{Answers, StoredFrame};
use crate::elf::{DebugLink, Identity};
use crate::find::is_build_id;

const MAGIC: &[u8; 8] = b"rmsymbol";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const MAX_FILE_BYTES: u64 = 64 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const EXTENSION: &str = "symbols";
/// A temporary file this old belongs to a writer that is gone.
const TEMPORARY_AGE: Duration = Duration::from_secs(3600);

/// A folder of cache files. Every failure means only that the cache does not help.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn load(&self, build_id: &str) -> Option<Answers> {
        let path = self.path(build_id)?;
        if Identity::of(&path)?.size_bytes > MAX_FILE_BYTES {
            return None;
        }
        decode(&fs::read(path).ok()?, build_id)
    }

    pub fn store(&self, build_id: &str, answers: &Answers) -> Option<()> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let path = self.path(build_id)?;
        let content = encode(answers, build_id)?;
        // Paths and names of other people's programs are nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).ok()?;
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{build_id}.{}.{count}.tmp", std::process::id());
        let temporary = self.folder.join(temporary);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&temporary);
        let written = file.and_then(|mut file| file.write_all(&content));
        if written.and_then(|()| fs::rename(&temporary, path)).is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.evict(MAX_TOTAL_BYTES);
        Some(())
    }

    fn path(&self, build_id: &str) -> Option<PathBuf> {
        is_build_id(build_id).then(|| self.folder.join(format!("{build_id}.{EXTENSION}")))
    }

    /// Removes the files written longest ago until the rest fits, and what dead writers left.
    fn evict(&self, max_total_bytes: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            let Ok(modified) = metadata.modified() else { continue };
            let extension = path.extension();
            if extension == Some("tmp".as_ref()) {
                let age = now.duration_since(modified).unwrap_or_default();
                if age > TEMPORARY_AGE {
                    let _ = fs::remove_file(path);
                }
            } else if extension == Some(EXTENSION.as_ref()) {
                files.push((modified, metadata.len(), path));
            }
        }
        files.sort();
        let mut total_bytes: u64 = files.iter().map(|(_, size_bytes, _)| size_bytes).sum();
        for (_, size_bytes, path) in files {
            if total_bytes <= max_total_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            total_bytes -= size_bytes;
        }
    }
}

fn encode(answers: &Answers, build_id: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(answers.frames.len() * 32 + 4096);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    put_bytes(&mut out, env!("CARGO_PKG_VERSION").as_bytes());
    put_bytes(&mut out, build_id.as_bytes());
    let (kind, path) = match &answers.source {
        SymbolSource::None => (0, Path::new("")),
        SymbolSource::Dwarf { path } => (1, path.as_path()),
        SymbolSource::Symtab { path } => (2, path.as_path()),
        SymbolSource::Dynsym { path } => (3, path.as_path()),
    };
    put(&mut out, kind);
    put_bytes(&mut out, path.as_os_str().as_bytes());
    for identities in [answers.source_identity.as_slice(), &answers.considered] {
        put(&mut out, identities.len() as u32);
        for identity in identities {
            out.extend_from_slice(&identity.size_bytes.to_le_bytes());
            out.extend_from_slice(&identity.modified_ns.to_le_bytes());
        }
    }
    let (name, crc32) = answers.link.as_ref().map_or((&[][..], 0), |link| (&link.name, link.crc32));
    put_bytes(&mut out, name);
    put(&mut out, crc32);
    put(&mut out, answers.strings.len() as u32);
    for text in &answers.strings {
        put_bytes(&mut out, text.as_bytes());
    }
    put(&mut out, answers.frames.len() as u32);
    for frame in &answers.frames {
        for field in [frame.function, frame.system_name, frame.file, frame.line] {
            put(&mut out, field);
        }
    }
    put(&mut out, answers.by_address.len() as u32);
    for (address, &(start, end)) in &answers.by_address {
        out.extend_from_slice(&address.to_le_bytes());
        put(&mut out, start);
        put(&mut out, end);
    }
    let crc = crc32fast::hash(&out[HEADER_BYTES..]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    (out.len() as u64 <= MAX_FILE_BYTES).then_some(out)
}

fn put(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn decode(content: &[u8], build_id: &str) -> Option<Answers> {
    let body = content.get(HEADER_BYTES..)?;
    if content[..8] != *MAGIC
        || content[8..12] != VERSION.to_le_bytes()
        || content[12..16] != crc32fast::hash(body).to_le_bytes()
    {
        return None;
    }
    let mut input = Input(body);
    if input.bytes()? != env!("CARGO_PKG_VERSION").as_bytes()
        || input.bytes()? != build_id.as_bytes()
    {
        return None;
    }
    let mut answers = Answers::default();
    let kind = input.u32()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_owned()));
    answers.source = match kind {
        0 => SymbolSource::None,
        1 => SymbolSource::Dwarf { path },
        2 => SymbolSource::Symtab { path },
        3 => SymbolSource::Dynsym { path },
        _ => return None,
    };
    let source_identity = input.list(16, Input::identity)?;
    answers.source_identity = source_identity.first().copied();
    answers.considered = input.list(16, Input::identity)?;
    let (name, crc32) = (input.bytes()?.to_owned(), input.u32()?);
    answers.link = (!name.is_empty()).then_some(DebugLink { name, crc32 });
    answers.strings = input.list(4, |input| {
        let text = std::str::from_utf8(input.bytes()?).ok()?;
        Some(Arc::from(text))
    })?;
    let string_count = answers.strings.len() as u32;
    answers.frames = input.list(16, |input| {
        let (function, system_name, file) = (input.u32()?, input.u32()?, input.u32()?);
        let frame = StoredFrame { function, system_name, file, line: input.u32()? };
        frame.is_within(string_count).then_some(frame)
    })?;
    let frame_count = answers.frames.len() as u32;
    let by_address = input.list(16, |input| {
        let (address, start, end) = (input.u64()?, input.u32()?, input.u32()?);
        (start <= end && end <= frame_count).then_some((address, (start, end)))
    })?;
    answers.by_address = by_address.into_iter().collect();
    input.0.is_empty().then_some(answers)
}

/// The rest of the body.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    fn identity(&mut self) -> Option<Identity> {
        Some(Identity { size_bytes: self.u64()?, modified_ns: self.u64()? })
    }

    /// A list whose items take at least `item_bytes` each, so that a wrong count allocates nothing.
    fn list<T>(
        &mut self,
        item_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / item_bytes {
            return None;
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_written_longest_ago_go_first_and_only_until_the_rest_fits() {
        let folder = std::env::temp_dir().join(format!("ramson-evict-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, age_s: u64| {
            let file = fs::File::create(folder.join(name)).unwrap();
            file.set_len(1000).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        };
        write("aaaa.symbols", 30);
        write("bbbb.symbols", 90);
        write("cccc.symbols", 60);
        write("not-ours", 9000);
        write(".dddd.1.0.tmp", 9000);
        write(".dddd.2.0.tmp", 10);
        Cache::new(folder.clone()).evict(2500);
        let entries = fs::read_dir(&folder).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, [".dddd.2.0.tmp", "aaaa.symbols", "cccc.symbols", "not-ours"]);
    }

    #[test]
    fn a_correct_checksum_does_not_make_a_damaged_body_dangerous() {
        let mut answers = Answers::default();
        let frame = answers.frame("f(int)", "_Z1fi", Some("f.cc"), 7);
        answers.add(16, [frame, frame]);
        let mut content = encode(&answers, "abcd").unwrap();
        assert_eq!(decode(&content, "abcd").unwrap().get(16).unwrap().len(), 2);
        assert!(decode(&content, "abce").is_none());
        for at in HEADER_BYTES..content.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut content[at], value);
                let crc = crc32fast::hash(&content[HEADER_BYTES..]);
                content[12..16].copy_from_slice(&crc.to_le_bytes());
                if let Some(read) = decode(&content, "abcd") {
                    read.by_address.keys().for_each(|&address| drop(read.get(address)));
                }
                content[at] = before;
            }
        }
    }
}

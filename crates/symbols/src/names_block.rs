//! Names that a profile brings along, so that it can be read where its binaries are not: a block at the end of the file, as
//! FORMAT.md has it under "Names".

use ramson_apart::Owner;
use rustix::fs::{SeekFrom, seek};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::address::CodeAddress;
use crate::answers::Answers;
use crate::binary::Binary;
use crate::frame::Frame;

const MAGIC: &[u8; 16] = b"\x89ramson-names\r\n\x1a";
const VERSION: u32 = 2;
const FOOTER_BYTES: u64 = 32;
/// A larger block is as good as absent …
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// … and in a file of another user's one that is larger than this: unpacked, it may take twelve times as much.
const MAX_STRANGERS_BLOCK_BYTES: u64 = 16 << 20;

/// Names of binaries' file addresses, and of runtime addresses outside every binary.
#[derive(Default)]
pub struct CarriedNames {
    /// By path and build ID; code that belongs to no binary has neither.
    by_binary: HashMap<(String, String), Answers>,
}

impl CarriedNames {
    /// Adds the frames at `at`. No frames: nothing to carry.
    pub fn add(&mut self, at: CodeAddress, frames: &[Frame]) {
        if frames.is_empty() {
            return;
        }
        let (binary, address) = parts(at);
        let answers = self.by_binary.entry(key(binary)).or_default();
        if !answers.by_address.contains_key(&address) {
            answers.add(address, frames);
        }
    }

    /// Adds those of another profile, except what is in no binary: its address has a meaning in one process only.
    pub fn add_binaries(&mut self, other: &Self) {
        let is_binary =
            |(path, build_id): &(String, String)| !(path.is_empty() && build_id.is_empty());
        for (binary, answers) in other.by_binary.iter().filter(|(binary, _)| is_binary(binary)) {
            let own = self.by_binary.entry(binary.clone()).or_default();
            for &address in answers.by_address.keys() {
                if !own.by_address.contains_key(&address) {
                    own.add(address, &answers.get(address).unwrap_or_default());
                }
            }
        }
    }

    /// The frames at `at`.
    pub fn get(&self, at: CodeAddress) -> Option<Vec<Frame>> {
        let (binary, address) = parts(at);
        self.of(binary)?.get(address)
    }

    /// All that is known of a binary.
    pub(crate) fn of(&self, binary: Option<&Binary>) -> Option<&Answers> {
        self.by_binary.get(&key(binary))
    }

    /// How many addresses have names.
    pub fn count(&self) -> usize {
        self.by_binary.values().map(|answers| answers.by_address.len()).sum()
    }

    /// The block, footer included: what is put at the end of a file.
    pub fn to_block(&self) -> Vec<u8> {
        let mut out = borsh::to_vec(&self.by_binary).expect("lists are shorter than 2³²");
        let footer = (out.len() as u64, crc32fast::hash(&out), VERSION, MAGIC);
        borsh::to_writer(&mut out, &footer).expect("memory can be written");
        out
    }

    /// The names at the end of `file`. `None`: there are none, or not whole ones.
    pub fn in_file(file: &File) -> Option<Self> {
        let facts = file.metadata().ok()?;
        Self::in_file_of(file, facts.len(), Owner::of_user(facts.uid()).is_trusted())
    }

    /// The same of a file that was made of what others sent.
    pub fn in_copy(file: &File) -> Option<Self> {
        Self::in_file_of(file, file.metadata().ok()?.len(), false)
    }

    fn in_file_of(file: &File, length: u64, is_trusted: bool) -> Option<Self> {
        let most_bytes = if is_trusted { MAX_BLOCK_BYTES } else { MAX_STRANGERS_BLOCK_BYTES };
        Self::read(length, most_bytes, |buffer, offset| {
            // A hole costs the one who made it nothing.
            let end = seek(file, SeekFrom::Hole(offset)).unwrap_or(u64::MAX);
            let is_there = end >= offset + buffer.len() as u64;
            is_there.then(|| file.read_exact_at(buffer, offset).ok())?
        })
    }

    /// The same of a file's whole content.
    pub fn in_bytes(bytes: &[u8]) -> Option<Self> {
        Self::read(bytes.len() as u64, MAX_BLOCK_BYTES, |buffer, offset| {
            buffer.copy_from_slice(bytes.get(offset as usize..)?.get(..buffer.len())?);
            Some(())
        })
    }

    fn read(
        length: u64,
        most_bytes: u64,
        read_at: impl Fn(&mut [u8], u64) -> Option<()>,
    ) -> Option<Self> {
        let mut footer = [0; FOOTER_BYTES as usize];
        let body_end = length.checked_sub(FOOTER_BYTES)?;
        read_at(&mut footer, body_end)?;
        let (body_bytes, crc32, version, magic): (u64, u32, u32, [u8; 16]) =
            borsh::from_slice(&footer).ok()?;
        if magic != *MAGIC || version != VERSION || body_bytes > most_bytes {
            return None;
        }
        let body_start = body_end.checked_sub(body_bytes)?;
        let mut body = vec![0; body_bytes as usize];
        read_at(&mut body, body_start)?;
        if crc32fast::hash(&body) != crc32 {
            return None;
        }
        let by_binary: HashMap<_, Answers> = borsh::from_slice(&body).ok()?;
        by_binary.values().all(Answers::is_valid).then_some(Self { by_binary })
    }
}

fn parts(at: CodeAddress<'_>) -> (Option<&Binary>, u64) {
    match at {
        CodeAddress::InBinary(binary, address) => (Some(binary), address.0),
        CodeAddress::Outside(address) => (None, address.0),
    }
}

fn key(binary: Option<&Binary>) -> (String, String) {
    binary.map(|binary| (binary.path.clone(), binary.build_id.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{FileAddress, RuntimeAddress};
    use std::sync::Arc;

    const COMPILED: CodeAddress = CodeAddress::Outside(RuntimeAddress(0x7f00_0000));

    fn at(binary: &Binary, address: u64) -> CodeAddress<'_> {
        CodeAddress::InBinary(binary, FileAddress(address))
    }

    fn frame_named(function: &str, line: u32) -> Frame {
        let function: Arc<str> = Arc::from(function);
        Frame {
            system_name: function.clone(),
            function,
            file: Some(Arc::from("a.c")),
            line,
            offset: None,
        }
    }

    fn file_with(content: &[u8]) -> File {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn example() -> (CarriedNames, Binary) {
        let binary = Binary { path: "/bin/a".into(), build_id: "abcd".into(), pid: Some(7) };
        let mut names = CarriedNames::default();
        names.add(at(&binary, 16), &[frame_named("inlined", 3), frame_named("f", 9)]);
        names.add(at(&binary, 32), &[]);
        names.add(COMPILED, &[frame_named("compiled", 0)]);
        (names, binary)
    }

    #[test]
    fn block_is_read_back() {
        let (names, binary) = example();
        let content = [&b"anything"[..], &names.to_block()].concat();
        let read = CarriedNames::in_file(&file_with(&content)).unwrap();
        assert_eq!(read.count(), 2);
        let elsewhere = Binary { pid: None, ..binary };
        let functions = |found: Option<Vec<Frame>>| {
            let frames = found.unwrap_or_default();
            frames.iter().map(|frame| frame.function.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(functions(read.get(at(&elsewhere, 16))), ["inlined", "f"]);
        assert_eq!(functions(read.get(COMPILED)), ["compiled"]);
        assert!(read.get(at(&elsewhere, 32)).is_none());
        let other_build = Binary { build_id: "abce".into(), ..elsewhere };
        assert!(read.get(at(&other_build, 16)).is_none());
    }

    #[test]
    fn block_bytes_follow_format() {
        let number = |number: u32| number.to_le_bytes().to_vec();
        let text = |text: &str| [&number(text.len() as u32)[..], text.as_bytes()].concat();
        let frame = |function: u32, file: u32, line: u32, offset: u32| {
            [function, function, file, line, offset].map(number).concat()
        };
        let address = |at: u64, frames: [u32; 2]| {
            [at.to_le_bytes().to_vec(), frames.map(number).concat()].concat()
        };
        let outside = [
            text(""),
            text(""),
            number(1),
            text("compiled"),
            number(1),
            frame(0, u32::MAX, 4, u32::MAX),
        ];
        let outside = [&outside.concat()[..], &number(1), &address(0x7f00_0000, [0, 1])].concat();
        let strings = ["inlined", "a.c", "f"].map(text).concat();
        let frames = [frame(0, 1, 3, u32::MAX), frame(2, 1, 9, 7)].concat();
        let inside =
            [text("/bin/a"), text("abcd"), number(3), strings, number(2), frames, number(1)];
        let inside = [&inside.concat()[..], &address(16, [0, 2])].concat();
        let body = [number(2), outside, inside].concat();
        let binary = Binary { path: "/bin/a".into(), build_id: "abcd".into(), pid: None };
        let mut names = CarriedNames::default();
        names.add(COMPILED, &[Frame { file: None, ..frame_named("compiled", 4) }]);
        let outermost = Frame { offset: Some(7), ..frame_named("f", 9) };
        names.add(at(&binary, 16), &[frame_named("inlined", 3), outermost]);
        let block = names.to_block();
        assert_eq!(block[..body.len()], body);
        let footer = [(body.len() as u64).to_le_bytes().to_vec(), number(crc32fast::hash(&body))];
        let footer = [footer.concat(), number(2), b"\x89ramson-names\r\n\x1a".to_vec()].concat();
        assert_eq!(block[body.len()..], footer);
    }

    #[test]
    fn damaged_block_counts_as_absent() {
        let block = example().0.to_block();
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(CarriedNames::in_bytes(&damaged).is_none(), "byte {at}");
            assert!(CarriedNames::in_bytes(&block[..at]).is_none(), "cut at {at}");
            assert!(CarriedNames::in_bytes(&block[at + 1..]).is_none(), "begun at {at}");
        }
    }
}

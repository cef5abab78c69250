//! How a file is packed, and its bytes without the packing.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::cell::Cell;
use std::io::{self, BufReader, ErrorKind, Read};
use std::rc::Rc;

/// Bytes at the start of a file that tell its packing.
pub const MAGIC_BYTES: usize = 4;
/// Packed bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How the bytes were packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    None,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one frame.
    Zstd,
}

impl Packing {
    /// Returns the packing of a file that begins with `magic`.
    pub fn of(magic: &[u8]) -> Packing {
        match magic {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

/// The bytes without their packing; `packed` counts those that were read of the source. After `most_bytes` of them it is too large.
pub fn unpacked<'a>(
    source: impl Read + 'a,
    packed: Rc<Cell<u64>>,
    most_bytes: u64,
) -> io::Result<(Packing, Box<dyn Read + 'a>)> {
    let counted = Counted { source, count: packed, most_bytes };
    let mut source = BufReader::with_capacity(CHUNK_BYTES, counted);
    let mut magic = Vec::new();
    source.get_mut().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    let packing = Packing::of(&magic);
    let source = io::Cursor::new(magic).chain(source);
    let source: Box<dyn Read + 'a> = match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(source)),
        Packing::Zstd => match StreamingDecoder::new(source) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => Box::new(Damaged),
        },
        Packing::None => Box::new(source),
    };
    Ok((packing, source))
}

/// A frame with a damaged header: an error of its bytes like any other.
struct Damaged;

impl Read for Damaged {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::InvalidData.into())
    }
}

struct Counted<R> {
    source: R,
    count: Rc<Cell<u64>>,
    most_bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.count.get() > self.most_bytes {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let bytes = self.source.read(buffer)?;
        self.count.set(self.count.get() + bytes as u64);
        Ok(bytes)
    }
}

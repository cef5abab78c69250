//! How a file is packed, and its bytes without the packing.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::rc::Rc;

/// So many first bytes tell the packing.
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
    /// Of a file that begins so.
    pub fn of(magic: &[u8]) -> Packing {
        match magic {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Packing::Zstd,
            _ => Packing::None,
        }
    }
}

/// The bytes without their packing; `packed` counts those that were read of the source.
pub fn unpacked<'a>(
    source: impl Read + 'a,
    packed: Rc<Cell<u64>>,
) -> io::Result<(Packing, Box<dyn Read + 'a>)> {
    let counted = Counted { source, count: packed };
    let mut source = BufReader::with_capacity(CHUNK_BYTES, counted);
    let mut magic = [0; MAGIC_BYTES];
    let mut seen = 0;
    while seen < magic.len() {
        match source.get_mut().read(&mut magic[seen..]) {
            Ok(0) => break,
            Ok(bytes) => seen += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let packing = Packing::of(&magic[..seen]);
    let source = io::Cursor::new(magic).take(seen as u64).chain(source);
    let source: Box<dyn Read + 'a> = match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(source)),
        Packing::Zstd => Box::new(Zstd::Before(Some(source))),
        Packing::None => Box::new(source),
    };
    Ok((packing, source))
}

/// A frame whose header is read with its first bytes, so that a damaged one is an error like any other.
enum Zstd<R: BufRead> {
    Before(Option<R>),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Zstd::Before(source) = self {
            let source = source.take().ok_or(ErrorKind::InvalidData)?;
            let decoder = StreamingDecoder::new(source).map_err(|_| ErrorKind::InvalidData)?;
            *self = Zstd::Inside(Box::new(decoder));
        }
        match self {
            Zstd::Inside(decoder) => decoder.read(buffer),
            Zstd::Before(_) => Ok(0),
        }
    }
}

struct Counted<R> {
    source: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(buffer)?;
        self.count.set(self.count.get() + bytes as u64);
        Ok(bytes)
    }
}

//! A packed file, unpacked on a thread of its own a few chunks ahead of its reader.

use crate::packing::unpacked;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that may wait to be read.
const MOST_CHUNKS: usize = 4;

/// Unpacked bytes, and how many packed ones had been read when they were complete.
struct Chunk {
    bytes: Vec<u8>,
    packed: u64,
}

/// Reads what the thread has unpacked. Once this is dropped, the thread ends with its next chunk.
pub struct ReadAhead {
    chunks: Receiver<io::Result<Chunk>>,
    current: Cursor<Vec<u8>>,
    packed: Rc<Cell<u64>>,
}

impl ReadAhead {
    /// `packed` follows what was read, not what the thread is at. `None` where no thread can be started; the file has not
    /// been read then. It must be a regular one: of another kind of file the thread might wait for ever.
    pub fn start(file: &Arc<File>, packed: Rc<Cell<u64>>, most_bytes: u64) -> Option<ReadAhead> {
        let (full, chunks) = sync_channel(MOST_CHUNKS);
        let file = file.clone();
        Builder::new().spawn(move || unpack(file, most_bytes, &full)).ok()?;
        Some(ReadAhead { chunks, current: Cursor::default(), packed })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.current.read(buffer)?;
        if count > 0 {
            return Ok(count);
        }
        let Ok(next) = self.chunks.recv() else { return Ok(0) };
        let Chunk { bytes, packed } = next?;
        self.current = Cursor::new(bytes);
        self.packed.set(packed);
        self.current.read(buffer)
    }
}

fn unpack(file: Arc<File>, most_bytes: u64, full: &SyncSender<io::Result<Chunk>>) {
    let count = Rc::new(Cell::new(0));
    let mut source = match unpacked(file, count.clone(), most_bytes) {
        Ok((_, source)) => source,
        Err(error) => return drop(full.send(Err(error))),
    };
    loop {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        let read = source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes);
        if !bytes.is_empty() && full.send(Ok(Chunk { bytes, packed: count.get() })).is_err() {
            return;
        }
        match read {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return drop(full.send(Err(error))),
        }
    }
}

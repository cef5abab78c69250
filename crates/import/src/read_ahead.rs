//! A packed file, unpacked on a thread of its own a few chunks ahead of its reader.

use crate::packing::unpacked;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
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
    /// Chunks that were read go back to be filled again.
    spare: Sender<Vec<u8>>,
    current: Vec<u8>,
    start: usize,
    packed: Rc<Cell<u64>>,
}

impl ReadAhead {
    /// `packed` follows what was read, not what the thread is at. `None` where no thread can be started; the file has not
    /// been read then. It must be a regular one: of another kind of file the thread might wait for ever.
    pub fn start(file: &Arc<File>, packed: Rc<Cell<u64>>) -> Option<ReadAhead> {
        let (full, chunks) = sync_channel(MOST_CHUNKS);
        let (spare, empty) = channel();
        let file = file.clone();
        Builder::new().spawn(move || unpack(file, &full, &empty)).ok()?;
        Some(ReadAhead { chunks, spare, current: Vec::new(), start: 0, packed })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.current.len() {
            let Ok(next) = self.chunks.recv() else { return Ok(0) };
            let Chunk { bytes, packed } = next?;
            // A thread that has ended needs none.
            let _ = self.spare.send(std::mem::replace(&mut self.current, bytes));
            self.start = 0;
            self.packed.set(packed);
        }
        let count = (&self.current[self.start..]).read(buffer)?;
        self.start += count;
        Ok(count)
    }
}

fn unpack(file: Arc<File>, full: &SyncSender<io::Result<Chunk>>, empty: &Receiver<Vec<u8>>) {
    let count = Rc::new(Cell::new(0));
    let mut source = match unpacked(file, count.clone()) {
        Ok((_, source)) => source,
        Err(error) => return drop(full.send(Err(error))),
    };
    loop {
        let mut bytes = empty.try_recv().unwrap_or_default();
        bytes.resize(CHUNK_BYTES, 0);
        let (filled, end) = fill(&mut source, &mut bytes);
        bytes.truncate(filled);
        let is_read = filled == 0 || full.send(Ok(Chunk { bytes, packed: count.get() })).is_ok();
        match end {
            None if is_read => {}
            Some(Err(error)) if is_read => return drop(full.send(Err(error))),
            _ => return,
        }
    }
}

/// How many bytes were read; and how the source ended, if it did.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => return (filled, Some(Ok(()))),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (filled, None)
}

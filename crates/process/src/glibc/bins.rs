//! Large free chunks, by the lists of the bins that hold them: what lies inside of one must not be taken for chunks.

use super::caches::Heap;
use super::find::ArenaState;
use super::layout::{arena, chunk};
use crate::memory::Memory;

/// The first bin whose chunks are all of this size or more (`largebin_index_64` in malloc/malloc.c).
const FIRST_LARGE_BIN: usize = 120;
/// Chunks of the bin of unsorted ones that are looked at.
const MOST_UNSORTED: usize = 4096;
/// Smaller chunks are not large. So many large ones as there can be are looked at.
const LARGE_BYTES: u64 = 45_056;
/// Times that lists which change are followed again.
const MOST_TRIES: u32 = 4;

/// Free chunks, by address, with the first address behind each.
#[derive(Default)]
pub struct LargeFree {
    pub chunks: Vec<(u64, u64)>,
    /// Whether these are all the large ones.
    pub is_whole: bool,
}

/// The chunks of the bins of the largest, and of the bin of unsorted ones as far as it is short.
pub fn large_free(heap: &mut Heap<impl Memory>, state: &mut ArenaState) -> LargeFree {
    for _ in 0..MOST_TRIES {
        if let Some(mut found) = follow(heap, state) {
            found.chunks.retain(|(start, end)| end - start >= LARGE_BYTES);
            found.chunks.sort_unstable();
            if found.chunks.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
                return found;
            }
        }
        heap.forget();
        match state.read_again(heap.memory) {
            Some(again) => *state = again,
            None => break,
        }
    }
    LargeFree::default()
}

/// `None` if a list broke off.
fn follow(heap: &mut Heap<impl Memory>, state: &ArenaState) -> Option<LargeFree> {
    let mut found = LargeFree { chunks: Vec::new(), is_whole: true };
    let most_large = MOST_UNSORTED + (state.system_bytes() / LARGE_BYTES) as usize;
    let large = (FIRST_LARGE_BIN..=arena::BIN_COUNT).map(|bin| (bin, most_large));
    for (bin, most) in large.chain([(1, MOST_UNSORTED)]) {
        let (own, first) = state.bin(bin);
        let (mut before, mut at) = (own, first);
        let most = found.chunks.len() + most;
        while at != own {
            if found.chunks.len() >= most {
                found.is_whole = false;
                break;
            }
            let bytes = heap.free_chunk_bytes(at, before)?;
            found.chunks.push((at, at + bytes));
            before = at;
            at = heap.word(at.checked_add(2 * chunk::OVERHEAD_BYTES)?)?;
        }
    }
    Some(found)
}

//! Hashes that are the same in all places and versions: of stacks and frames, by their names.

use sha2::{Digest, Sha256};

/// Of texts one after the other; the first 64 bits of SHA-256.
pub fn hash<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    u64::from_be_bytes(*hash.finalize().first_chunk().expect("it has 32 bytes"))
}

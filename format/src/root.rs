//! Which root directory a process saw, told from outside by a reader that has another one: FORMAT.md's "Root".

use crate::mix;

/// From the start of the file.
pub const ROOT_OFFSET: u64 = 2560;
/// Length of the record.
pub const ROOT_BYTES: usize = 896;
/// Longest path that is kept.
pub const ROOT_PATH_BYTES: usize = 848;

const VERSION: u32 = 1;
const PATH_AT: usize = 32;
const CHECK_AT: usize = ROOT_BYTES - 8;

/// A root directory: where it was found, and what tells it from another one at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Device of its file system, as stat has it.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// When it was made, in ns since 1970; 0: not known.
    pub birth_ns: u64,
    path_bytes: usize,
    path: [u8; ROOT_PATH_BYTES],
}

impl Root {
    /// One at `path`, of which nothing is kept if it is too long.
    pub fn new(path: &[u8], device: u64, inode: u64, birth_ns: u64) -> Self {
        let path = if path.len() > ROOT_PATH_BYTES { &[] } else { path };
        let mut root =
            Self { device, inode, birth_ns, path_bytes: path.len(), path: [0; ROOT_PATH_BYTES] };
        root.path.iter_mut().zip(path).for_each(|(to, &byte)| *to = byte);
        root
    }

    /// Its path in the file system of the reader that wrote this; empty: not known.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.path_bytes).unwrap_or_default()
    }

    /// As it stands in the file.
    pub fn to_bytes(&self) -> [u8; ROOT_BYTES] {
        let head = u64::from(VERSION) | (self.path_bytes as u64) << 32;
        let words = [head, self.device, self.inode, self.birth_ns];
        let mut out = [0; ROOT_BYTES];
        for (to, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        out[PATH_AT..PATH_AT + ROOT_PATH_BYTES].copy_from_slice(&self.path);
        let check = check(&out);
        out[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// `None`: none was written, or it is not whole.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ROOT_BYTES] = bytes.try_into().ok()?;
        let path_bytes = (word(bytes, 0) >> 32) as usize;
        let is_whole = word(bytes, 0) as u32 == VERSION && word(bytes, CHECK_AT) == check(bytes);
        let path = bytes.get(PATH_AT..PATH_AT + path_bytes.min(ROOT_PATH_BYTES))?;
        let [device, inode, birth_ns] = [8, 16, 24].map(|at| word(bytes, at));
        is_whole.then(|| Self::new(path, device, inode, birth_ns))
    }
}

fn word(bytes: &[u8; ROOT_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[at / 8])
}

fn check(bytes: &[u8; ROOT_BYTES]) -> u64 {
    (0..CHECK_AT).step_by(8).fold(0x726f_6f74, |hash, at| mix(hash, word(bytes, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_read_whole_or_refused() {
        let root = Root::new(b"/var/lib/machines/one", 1, 2, 3);
        let bytes = root.to_bytes();
        assert_eq!(Root::from_bytes(&bytes), Some(root));
        assert_eq!(root.path(), b"/var/lib/machines/one");
        for at in 0..ROOT_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert_eq!(Root::from_bytes(&damaged), None, "byte {at}");
            assert_eq!(Root::from_bytes(&bytes[..at]), None, "cut at {at}");
        }
        assert_eq!(Root::from_bytes(&[0; ROOT_BYTES]), None);
    }

    #[test]
    fn overlong_root_path_is_dropped() {
        assert_eq!(Root::new(&[b'x'; ROOT_PATH_BYTES + 1], 1, 2, 3).path(), b"");
        assert_eq!(Root::new(&[b'x'; ROOT_PATH_BYTES], 1, 2, 3).path().len(), ROOT_PATH_BYTES);
    }
}

//! How much may be unpacked of the files of one binary, all together. Bytes are counted before they are allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that are left. Relaxed: only the number itself is shared.
#[derive(Clone)]
pub(crate) struct Budget {
    most_bytes: u64,
    left_bytes: Arc<AtomicU64>,
}

impl Budget {
    pub fn of(is_trusted: bool) -> Self {
        let most_bytes = ramson_apart::bounds(is_trusted).memory_bytes;
        Self { most_bytes, left_bytes: Arc::new(most_bytes.into()) }
    }

    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// Returns bytes that were taken.
    pub fn give_back(&self, bytes: u64) {
        self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A budget of its own with the bytes that are left now, for data that is dropped again soon.
    pub fn rest(&self) -> Self {
        let left_bytes = self.left_bytes.load(Ordering::Relaxed);
        Self { most_bytes: self.most_bytes, left_bytes: Arc::new(left_bytes.into()) }
    }

    /// Takes so much, or says why there is not so much left.
    pub fn take(&self, bytes: u64) -> Result<(), String> {
        let taken = |left: u64| left.checked_sub(bytes);
        let result = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        result.map(drop).map_err(|_| {
            format!("with the rest it takes more than the {} MiB allowed", self.most_bytes >> 20)
        })
    }
}

//! A list of bounded length without a heap.

use core::mem::MaybeUninit;

/// A list of at most `MOST` items. All zero is empty.
pub struct List<T, const MOST: usize> {
    items: [MaybeUninit<T>; MOST],
    count: usize,
}

impl<T: Copy, const MOST: usize> List<T, MOST> {
    pub fn new() -> Self {
        Self { items: [const { MaybeUninit::uninit() }; MOST], count: 0 }
    }

    /// Adds an item. False: there is no room.
    pub fn push(&mut self, item: T) -> bool {
        let Some(room) = self.items.get_mut(self.count) else { return false };
        room.write(item);
        self.count += 1;
        true
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Keeps the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    pub fn all(&self) -> &[T] {
        let items = self.items.get(..self.count).unwrap_or_default();
        // SAFETY: `push` has written all below `count`; the two types have one layout.
        unsafe { &*(core::ptr::from_ref(items) as *const [T]) }
    }

    pub fn all_mut(&mut self) -> &mut [T] {
        let items = self.items.get_mut(..self.count).unwrap_or_default();
        // SAFETY: as above.
        unsafe { &mut *(core::ptr::from_mut(items) as *mut [T]) }
    }
}

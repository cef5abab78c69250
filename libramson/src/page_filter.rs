//! The page filter: every record is counted on its address's page as long as it is there, and `free` looks here first.

use core::sync::atomic::Ordering::Relaxed;
use ramson_format::atomic::AtomicU8;

/// Pages that the page filter tells apart: address bits 12–35.
pub const FILTER_PAGES: usize = 1 << 24;

/// One byte per page of address space: how many live samples lie there (255: that many or more, for good).
#[repr(C, align(4096))]
pub struct PageFilter(pub [AtomicU8; FILTER_PAGES]);

/// See `PageFilter`.
pub static PAGE_FILTER: PageFilter = PageFilter([const { AtomicU8::new(0) }; FILTER_PAGES]);

/// The count of the page of `address`.
pub fn of(address: u64) -> &'static AtomicU8 {
    &PAGE_FILTER.0[(address >> 12) as usize & (FILTER_PAGES - 1)]
}

/// Raises the count of the page of `address`, up to 255; the count before, as an error if it could go no higher.
pub fn raise(address: u64) -> Result<u8, u8> {
    // Not read first: of a page that was not touched before, a store after a load is a second page fault.
    of(address)
        .compare_exchange(0, 1, Relaxed, Relaxed)
        .or_else(|_| of(address).fetch_update(Relaxed, Relaxed, |count| count.checked_add(1)))
}

/// Lowers it; a count that reached 255 is not known any more and stays.
pub fn lower(address: u64) {
    let _ = of(address).fetch_update(Relaxed, Relaxed, |count| {
        (count != u8::MAX && count != 0).then(|| count - 1)
    });
}

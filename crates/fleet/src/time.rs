//! Times of rows.

/// One second.
pub const NS_PER_SECOND: u64 = 1_000_000_000;
/// One millisecond.
pub const NS_PER_MILLISECOND: u64 = 1_000_000;
/// One minute.
pub const SECONDS_PER_MINUTE: u32 = 60;

/// Seconds since 1970.
pub fn seconds(unix_ns: u64) -> u32 {
    (unix_ns / NS_PER_SECOND) as u32
}

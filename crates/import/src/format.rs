//! The formats of foreign profiles.

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;

/// Formats that can be read in addition to ramson's own profile files.
pub const ACCEPTED: &str = "pprof, jemalloc heap_v2, gperftools heap, heaptrack, memleak, Seastar's alloc sites, collapsed stacks";

/// A format of foreign profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Format {
    /// google/pprof's profile.proto.
    Pprof,
    /// jemalloc's text.
    Jemalloc,
    /// gperftools' text, also Go's with `debug=1`.
    Gperftools,
    /// heaptrack's interpreted text.
    Heaptrack,
    /// Tables of memleak, of bcc or libbpf-tools.
    Memleak,
    /// Seastar's allocation sites, in a log or as Redpanda's JSON.
    Seastar,
    /// A ClickHouse server's answer about a fleet.
    Fleet,
    /// One stack and its value a line.
    Collapsed,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Pprof => "pprof",
            Format::Jemalloc => "jemalloc heap_v2",
            Format::Gperftools => "gperftools heap",
            Format::Heaptrack => "heaptrack",
            Format::Memleak => "memleak",
            Format::Seastar => "Seastar",
            Format::Fleet => "fleet",
            Format::Collapsed => "collapsed stacks",
        })
    }
}

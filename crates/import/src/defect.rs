//! Parts that a file lacks although it could be read, and reasons why a file could not be read at all.

use crate::malloc_info::MallocInfo;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Failure, read_error, write_error};
use ramson_profile::MOST_NAME_BYTES;
use ramson_profile::format::format_bytes;
use std::fmt;
use std::io;

/// Names in one line.
const MOST_SHOWN: usize = 3;

/// Something missing from a profile that was read.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ImportDefect {
    /// The packed bytes end in the middle.
    PackedCut,
    /// The packed bytes are damaged; what came before was read.
    PackedDamaged,
    /// More than `MOST_EXPANSION` bytes came out of each packed byte.
    ExpandsTooMuch,
    /// Reading stopped with this error of the system.
    Unreadable(String),
    /// The content of the file would take more memory than a real profile of its size.
    MemoryBound,
    /// The same of a packed file.
    PackedMemoryBound,
    /// The file ends in the middle of a record.
    Cut,
    /// Bytes at this position make no sense; what came before was read.
    Damaged {
        /// In the unpacked file.
        offset: u64,
    },
    /// Records that make no sense or name others that do not exist.
    BadRecords(u64),
    /// Lines that make no sense.
    BadLines(u64),
    /// Lines too long to be real.
    LongLines(u64),
    /// Frames of stacks deeper, or of addresses with more inlined frames, than real ones.
    FramesCut(u64),
    /// Names of functions or files longer than real ones.
    NamesCut(u64),
    /// Sample types that no heap profile of ramson's has.
    OtherSampleTypes(Vec<String>),
    /// A regular expression of the file that cannot be used.
    FrameExpression(String),
    /// A sampled profile that does not say its interval.
    NoInterval,
    /// Nothing says where the program's files were mapped.
    NoMappings,
    /// Stacks with fewer bytes than the first line's total.
    StacksMissing {
        /// Bytes of those that are there.
        bytes: u64,
        /// The total.
        of: u64,
    },
    /// A sampled profile without samples.
    NoSamples,
    /// Stacks at which tcmalloc took memory from the system.
    Growth,
    /// Tables before the last one.
    EarlierTables(u64),
    /// As many stacks as the table may have, or as it has if it does not say.
    LargestOnly(u64),
}

impl fmt::Display for ImportDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportDefect::PackedCut => f.write_str("the compressed data ends in the middle: the file is truncated"),
            ImportDefect::PackedDamaged => {
                f.write_str("the compressed data is damaged; only what came before was read")
            }
            ImportDefect::ExpandsTooMuch => {
                f.write_str("reading stopped: it decompresses to more than 300 times its size, as no real profile does")
            }
            ImportDefect::Unreadable(error) => write!(f, "reading stopped: {error}"),
            ImportDefect::MemoryBound => f.write_str(
                "reading stopped: the profile takes more than 6 times the size of the file",
            ),
            ImportDefect::PackedMemoryBound => f.write_str(
                "reading stopped: the profile takes more than 32 times the size of the file. Decompress the file first",
            ),
            ImportDefect::Cut => f.write_str("it ends in the middle of a record: the file is truncated"),
            ImportDefect::Damaged { offset } => {
                write!(f, "damaged at byte {offset}; only what came before was read")
            }
            ImportDefect::BadRecords(count) => write!(f, "{count} records are malformed and were skipped"),
            ImportDefect::BadLines(count) => write!(f, "{count} lines are malformed and were skipped"),
            ImportDefect::LongLines(count) => write!(f, "{count} lines are too long and were skipped"),
            ImportDefect::FramesCut(count) => {
                write!(f, "{count} frames were cut from stacks that are deeper than any real one")
            }
            ImportDefect::NamesCut(count) => {
                write!(f, "{count} names are longer than {} KiB and were cut", MOST_NAME_BYTES >> 10)
            }
            ImportDefect::OtherSampleTypes(names) => {
                let more = names.len().saturating_sub(MOST_SHOWN);
                let shown: Vec<String> =
                    names.iter().take(MOST_SHOWN).map(|name| format!("{name:?}")).collect();
                let shown = shown.join(", ");
                write!(f, "sample types that ramson does not count were skipped: {shown}")?;
                if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            ImportDefect::FrameExpression(expression) => {
                write!(f, "its expression for frames to drop cannot be used: {expression:?}")
            }
            ImportDefect::NoInterval => {
                f.write_str("it does not say its sampling interval: the values are taken as they are")
            }
            ImportDefect::NoMappings => f.write_str(
                "it has no MAPPED_LIBRARIES, so its addresses have no names. Pass --binary PROGRAM; from Go, fetch it without debug=1",
            ),
            ImportDefect::StacksMissing { bytes, of } => {
                let [bytes, of] = [bytes, of].map(|&bytes| format_bytes(bytes as f64));
                write!(f, "stacks are missing: the file has {bytes} of {of} (gperftools writes no more than 1 MiB of text)")
            }
            ImportDefect::NoSamples => f.write_str(
                "it contains no samples: sampling was not active (jemalloc's prof_active), or nothing that was sampled is live",
            ),
            ImportDefect::EarlierTables(1) => {
                f.write_str("one earlier table was skipped: the last one is shown")
            }
            ImportDefect::EarlierTables(count) => {
                write!(f, "{count} earlier tables were skipped: the last one is shown")
            }
            ImportDefect::LargestOnly(count) => {
                write!(f, "it lists only the {count} largest stacks; the total is their sum")
            }
            ImportDefect::Growth => f.write_str(
                "it counts memory that tcmalloc took from the system, by stack; live memory is not known",
            ),
        }
    }
}

/// Why there is no profile.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub enum ImportError {
    /// The first bytes could not be read.
    Io(#[borsh(serialize_with = "write_error", deserialize_with = "read_error")] io::Error),
    /// No byte at all.
    Empty,
    /// Not one of the formats; the text tells what the file looks like.
    Unrecognized(String),
    /// Reading it takes more memory or more bytes than this bound of its budget.
    OverBudget(u64),
    /// pprof's format, but of something else than a heap.
    NotAHeapProfile(Vec<String>),
    /// Two or more profiles, one after the other: the names of one would be given to the stacks of another.
    Concatenated,
    /// The allocator's sampling was off; the text says how to switch it on.
    SamplingOff(String),
    /// gperftools' text about something else than allocations.
    OtherKind(String),
    /// No profile, but what glibc says of its arenas.
    MallocInfo(MallocInfo),
    /// The format was recognized, but nothing could be read.
    Nothing(Option<ImportDefect>),
    /// A file as heaptrack writes it before `heaptrack --interpret`.
    RawHeaptrack,
    /// A version of heaptrack's format that is not known.
    HeaptrackVersion(u64),
    /// It was to be read in a process of its own, which gave no answer.
    Apart(Failure),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Io(error) => write!(f, "cannot be read: {error}"),
            ImportError::Empty => f.write_str("empty"),
            ImportError::Unrecognized(looks) => write!(f, "not a profile ({looks})"),
            ImportError::OverBudget(bytes) => {
                write!(f, "it takes more than {} MiB to read", bytes >> 20)
            }
            ImportError::NotAHeapProfile(types) => {
                write!(f, "a pprof file, but not of a heap: it counts {}", types.join(", "))
            }
            ImportError::Concatenated => {
                f.write_str("it contains several profiles, one after the other")
            }
            ImportError::SamplingOff(_) => {
                f.write_str("it is empty, because the allocator's sampling was off")
            }
            ImportError::OtherKind(kind) => write!(f, "a profile of {kind}, not of a heap"),
            ImportError::MallocInfo(_) => f.write_str("glibc's malloc_info, which has no stacks"),
            ImportError::Nothing(None) => f.write_str("nothing in it can be read"),
            ImportError::Nothing(Some(defect)) => {
                write!(f, "nothing in it can be read: {defect}")
            }
            ImportError::Apart(failure) => write!(f, "{failure}"),
            ImportError::RawHeaptrack => f.write_str("a raw heaptrack file without names"),
            ImportError::HeaptrackVersion(version) => {
                write!(f, "version {version} of heaptrack's format is not known")
            }
        }
    }
}

impl std::error::Error for ImportError {}

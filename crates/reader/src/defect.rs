//! Defects of the bytes of a profile: a reason to refuse them, or a part that is missing.

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Failure, read_error, write_error};
use ramson_format::{REGIONS, VERSION};
use std::{fmt, io};

/// Why bytes are not a profile that can be read at all.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub enum ReadError {
    /// The operating system refused.
    Io(#[borsh(serialize_with = "write_error", deserialize_with = "read_error")] io::Error),
    /// No bytes.
    Empty,
    /// Not our magic number; these are the first bytes.
    NotAProfile(Vec<u8>),
    /// A version that this program does not know.
    Version(u32),
    /// The process died, or is still busy, before the header was complete.
    Unfinished,
    /// More than this many bytes are present in its regions.
    TooLarge(u64),
    /// It was to be read in a process of its own, which gave no answer.
    Apart(Failure),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Empty => write!(f, "the file is empty"),
            Self::NotAProfile(first) => {
                let bytes = first.iter().take(4).map(|byte| format!("{byte:02x}"));
                let bytes = bytes.collect::<Vec<_>>().join(" ");
                write!(f, "not a profile (starts with {bytes}{})", looks_like(first))
            }
            Self::Version(version) => {
                write!(f, "profile format version {version}; this ramson reads version {VERSION}")
            }
            Self::Unfinished => {
                write!(f, "the profile is empty: its process ended while creating the file")
            }
            Self::Apart(failure) => write!(f, "{failure}"),
            Self::TooLarge(most_bytes) => {
                write!(f, "more than {} MiB of records of another user", most_bytes >> 20)
            }
        }
    }
}

impl std::error::Error for ReadError {}

fn looks_like(first: &[u8]) -> &'static str {
    match first {
        [0x7f, b'E', b'L', b'F', ..] => ": an ELF program?",
        [0x1f, 0x8b, ..] => ": a gzip file, perhaps pprof's?",
        [b'h', b'e', b'a', b'p', ..] => ": a text heap profile?",
        [b'#', b'!', ..] => ": a script?",
        _ if !first.is_empty() && first.iter().all(|byte| (32..127).contains(byte)) => ": text?",
        _ => "",
    }
}

/// The names of regions in messages, in the order of the directory.
pub(crate) const REGION_NAMES: [&str; REGIONS] = [
    "stacks",
    "frames",
    "live keys",
    "live samples",
    "mappings",
    "strings",
    "recent frees",
    "allocators",
];

fn read_region_name(input: &mut impl io::Read) -> io::Result<&'static str> {
    let name = String::deserialize_reader(input)?;
    let known = REGION_NAMES.into_iter().find(|known| *known == name);
    known.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Something that was not whole; the rest of the snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Defect {
    /// A region reaches beyond the bytes that are there.
    CutRegion {
        /// Its name.
        #[borsh(deserialize_with = "read_region_name")]
        region: &'static str,
        /// Bytes that are missing.
        missing_bytes: u64,
    },
    /// A region's entry in the directory makes no sense; nothing of it was read.
    BadRegion(#[borsh(deserialize_with = "read_region_name")] &'static str),
    /// Live samples reserved and never published, or being removed at this moment.
    TornSamples(u64),
    /// Live samples whose check fails.
    BadSamples(u64),
    /// Live samples of a stack that is not there; they count for stack 0.
    StacklessSamples(u64),
    /// Recent frees that were being written, or whose check fails.
    TornFrees(u64),
    /// Stacks begun and never committed, or whose hash fails.
    BadStacks(u64),
    /// Mappings begun and never committed, or whose check fails.
    BadMappings(u64),
    /// Allocators inside objects that are torn or damaged.
    BadAllocators(u64),
}

const DAMAGED: &str = "damaged and left out";
const INCOMPLETE: &str = "incomplete or damaged and left out";

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (count, subject, finding) = match self {
            Self::CutRegion { region, missing_bytes: bytes } => {
                return write!(
                    f,
                    "the file is truncated: {bytes} bytes of its {region} are missing"
                );
            }
            Self::BadRegion(region) => {
                return write!(f, "the directory entry of the {region} is damaged");
            }
            Self::TornSamples(count) => (count, ["sample was", "samples were"], "being written"),
            Self::BadSamples(count) => (count, ["sample is", "samples are"], DAMAGED),
            Self::StacklessSamples(count) => {
                (count, ["sample has", "samples have"], "lost the stack")
            }
            Self::TornFrees(count) => {
                (count, ["recent free was", "recent frees were"], "being written")
            }
            Self::BadStacks(count) => (count, ["stack is", "stacks are"], INCOMPLETE),
            Self::BadMappings(count) => (count, ["mapping is", "mappings are"], INCOMPLETE),
            Self::BadAllocators(count) => (count, ["allocator is", "allocators are"], INCOMPLETE),
        };
        let [one, several] = subject;
        write!(f, "{count} {} {finding}", if *count == 1 { one } else { several })
    }
}

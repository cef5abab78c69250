//! Sampled allocation sites of Seastar, as Redpanda's admin API gives them: `[{"shard": 0, "allocation_sites": [{"size": BYTES,
//! "count": SAMPLES, "backtrace": "0x1 /lib/x.so+0x2"}]}]`. A size stands for all live bytes of a site, a count for the samples
//! among them. The addresses are those of calls in the file, not in the process.

use crate::build::UNKNOWN;
use crate::defect::ImportError;
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use crate::maps::hex;
use crate::places::Places;
use crate::recognize::HEAD_BYTES;
use crate::tables;
use ramson_profile::{Estimate, Profile, SampleType};
use serde::Deserialize;

/// The document's text is held while it is read.
const MOST_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
struct Shard {
    allocation_sites: Vec<Site>,
}

#[derive(Deserialize)]
struct Site {
    size: u64,
    backtrace: String,
}

/// Whether the text looks like it.
pub fn is_document(head: &[u8]) -> bool {
    let contains = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
    head.trim_ascii_start().starts_with(b"[") && contains(b"\"allocation_sites\"")
}

/// Reads the document, whose shards' sites add up, or a log.
pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    if !is_document(input.peek(HEAD_BYTES)) {
        return tables::read(Format::Seastar, input);
    }
    let text = input.peek(MOST_BYTES + 1);
    let bytes = text.len();
    if bytes > MOST_BYTES {
        let looks = "Redpanda's memory profile of more than 64 MiB; ramson reads shorter ones";
        return Err(ImportError::Unrecognized(looks.into()));
    }
    let parsed: Result<Vec<Shard>, _> = serde_json::from_slice(text);
    let shards = parsed.map_err(|error| {
        ImportError::Unrecognized(format!(
            "it looks like Redpanda's memory profile, but line {} is malformed",
            error.line()
        ))
    })?;
    let mut places = Places::default();
    let mut stack = Vec::new();
    let _ = input.charge(bytes);
    for site in shards.into_iter().flat_map(|shard| shard.allocation_sites) {
        match add(&mut places, input, &site, &mut stack) {
            Ok(()) => {}
            Err(Stop::BadLine) => input.bad_lines += 1,
            Err(_) => break,
        }
    }
    Ok(imported(places.builder.profile))
}

fn add(
    places: &mut Places,
    input: &mut Input,
    site: &Site,
    stack: &mut Vec<u32>,
) -> Result<(), Stop> {
    stack.clear();
    for frame in site.backtrace.split_ascii_whitespace() {
        stack.push(frame_of(places, input, frame)?);
    }
    places.builder.add(input, stack, live(site.size))
}

/// The profile of a text of Seastar's.
pub fn imported(profile: Profile) -> Imported {
    Imported {
        profile,
        format: Format::Seastar,
        sample_types: vec![SampleType::InuseSpace],
        default_sample_type: SampleType::InuseSpace,
        drop_frames: DropFrames::Allocators,
        defects: Vec::new(),
    }
}

/// Values of a site.
pub fn live(bytes: u64) -> [Estimate; 4] {
    [UNKNOWN, UNKNOWN, UNKNOWN, Estimate::new(bytes as f64, f64::NAN)]
}

/// Stands for the program's file in the profile: addresses in it come without a path.
const PROGRAM: &str = "[program]";

/// The location of `0xADDRESS` in the program, or of `/PATH+0xADDRESS`. Seastar has subtracted 1 from return addresses already.
pub fn frame_of(places: &mut Places, input: &mut Input, frame: &str) -> Result<u32, Stop> {
    let (object, address) = frame.rsplit_once('+').unwrap_or((PROGRAM, frame));
    let digits = address.strip_prefix("0x").ok_or(Stop::BadLine)?;
    let address = hex(digits).filter(|&address| address > 0).ok_or(Stop::BadLine)?;
    places.location(input, object, address, "")
}

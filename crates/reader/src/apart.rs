//! Profiles of others, which a worker of their owner reads. Its answers are checked like the bytes of a file, because it may be in the owner's
//! hands.

use crate::ReadAt;
use crate::defect::ReadError;
use crate::snapshot::{FailedAllocation, Header, LiveSample, Snapshot, Stack};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Request};
use ramson_format::{END_BYTES, End, HEALTH, KINDS, LookupAddress, MAX_DEPTH, Root};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) const READ_FILE: u8 = 0x20;

/// As much of a profile as is wanted.
#[derive(Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Depth {
    /// A `Header`.
    Header,
    /// A `Snapshot`.
    Whole,
}

/// A profile that a worker reads.
pub struct Passed<'a> {
    by: Apart,
    kind: u8,
    body: Vec<u8>,
    file: Option<BorrowedFd<'a>>,
}

impl<'a> Passed<'a> {
    /// A file that one worker is to read, whoever owns it.
    pub fn file(by: Apart, file: &'a File, most_bytes: u64) -> Self {
        Self {
            by,
            kind: READ_FILE,
            body: most_bytes.to_le_bytes().to_vec(),
            file: Some(file.as_fd()),
        }
    }

    /// One that a worker opens when it gets a request of this kind, with the depth and this body.
    pub fn of_worker(by: Apart, kind: u8, body: Vec<u8>) -> Self {
        Self { by, kind, body, file: None }
    }

    /// Reads the header.
    pub fn header(&self) -> Result<Header, ReadError> {
        let header = self.ask::<Header>(Depth::Header)?;
        Some(header).filter(is_whole).ok_or(ReadError::Apart(Failure::BadAnswer))
    }

    /// Reads it whole.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let snapshot = self.ask::<Snapshot>(Depth::Whole)?;
        Some(snapshot).filter(is_valid).ok_or(ReadError::Apart(Failure::BadAnswer))
    }

    fn ask<T: BorshDeserialize>(&self, depth: Depth) -> Result<T, ReadError> {
        let mut body = borsh::to_vec(&depth).map_err(ReadError::Io)?;
        body.extend_from_slice(&self.body);
        let request = Request { kind: self.kind, body: &body, files: self.file.as_slice() };
        let answer = self.by.ask(&request).map_err(ReadError::Apart)?;
        borsh::from_slice(&answer).unwrap_or(Err(ReadError::Apart(Failure::BadAnswer)))
    }
}

/// In a worker: the answer.
pub fn read_to_depth<S: ReadAt + ?Sized>(source: &S, depth: Depth) -> Option<Vec<u8>> {
    let answer = match depth {
        Depth::Header => borsh::to_vec(&Header::read(source)),
        Depth::Whole => borsh::to_vec(&Snapshot::read(source)),
    };
    answer.ok()
}

/// Whether a header that came from another process is as the reader promises.
pub fn is_whole(header: &Header) -> bool {
    header.health.len() == HEALTH.len()
}

/// Whether a snapshot is as the reader promises.
fn is_valid(snapshot: &Snapshot) -> bool {
    let Snapshot { header, stacks, live, extents, freed, .. } = snapshot;
    let is_stack = |stack: usize| stack < stacks.len();
    let is_number = |number: f64| number.is_finite() && number >= 0.0;
    let overflow = stacks.get(..KINDS.len()).unwrap_or_default();
    let is_overflow =
        |(stack, &kind): (&Stack, &_)| stack.frames.is_empty() && stack.kind() == kind;
    let has_overflow =
        overflow.len() == KINDS.len() && overflow.iter().zip(&KINDS).all(is_overflow);
    let is_live = |live: &LiveSample| {
        is_stack(live.stack)
            && live.inverse_probability >= 1.0
            && live.inverse_probability.is_finite()
            && live.fits_in_key()
    };
    let failures = [&header.last_failure, &header.last_abort];
    let is_failure = |failure: &FailedAllocation| is_stack(failure.stack);
    is_whole(header)
        && has_overflow
        && stacks.iter().all(|stack| {
            stack.frames.len() <= MAX_DEPTH && weighted(stack).into_iter().all(is_number)
        })
        && live.iter().all(is_live)
        && extents.iter().all(|extent| {
            is_stack(extent.stack) && extent.start.checked_add(extent.bytes).is_some()
        })
        && extents.windows(2).all(|pair| pair[0].start + pair[0].bytes <= pair[1].start)
        && freed
            .iter()
            .all(|freed| is_stack(freed.alloc_stack) && freed.free_stack.is_none_or(is_stack))
        && failures.into_iter().flatten().all(|failure| is_failure(failure))
}

fn weighted(stack: &Stack) -> [f64; 6] {
    [
        stack.alloc_objects,
        stack.alloc_space,
        stack.freed_objects,
        stack.freed_space,
        stack.alloc_objects_variance,
        stack.alloc_space_variance,
    ]
}

pub(crate) fn write_root(root: &Option<Box<Root>>, out: &mut impl Write) -> io::Result<()> {
    let fields = |root: &Root| (root.device, root.inode, root.birth_ns, root.path().to_vec());
    root.as_deref().map(fields).serialize(out)
}

pub(crate) fn read_root(input: &mut impl Read) -> io::Result<Option<Box<Root>>> {
    let fields = Option::<(u64, u64, u64, Vec<u8>)>::deserialize_reader(input)?;
    Ok(fields.map(|(device, inode, birth, path)| Box::new(Root::new(&path, device, inode, birth))))
}

pub(crate) fn write_end(end: &Option<Box<End>>, out: &mut impl Write) -> io::Result<()> {
    end.as_ref().map(|end| end.to_bytes().to_vec()).serialize(out)
}

pub(crate) fn read_end(input: &mut impl Read) -> io::Result<Option<Box<End>>> {
    let Some(bytes) = Option::<Vec<u8>>::deserialize_reader(input)? else { return Ok(None) };
    let end = Some(bytes).filter(|bytes| bytes.len() == END_BYTES);
    let end = end.and_then(|bytes| End::from_bytes(&bytes));
    end.map(Box::new).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

pub(crate) fn write_frames(frames: &[LookupAddress], out: &mut impl Write) -> io::Result<()> {
    (frames.len() as u32).serialize(out)?;
    frames.iter().try_for_each(|frame| frame.0.serialize(out))
}

pub(crate) fn read_frames(input: &mut impl Read) -> io::Result<Vec<LookupAddress>> {
    let frames = Vec::<u64>::deserialize_reader(input)?;
    Ok(frames.into_iter().map(LookupAddress).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Extent, Freed};
    use ramson_format::Way;

    fn example() -> Snapshot {
        let stack = Stack { frames: vec![LookupAddress(7)], alloc_space: 3.5, ..Stack::default() };
        let mut stacks = KINDS.map(Stack::overflow).to_vec();
        stacks.push(stack);
        let live = LiveSample {
            address: 16,
            size: 8,
            inverse_probability: 1.5,
            stack: 2,
            ..LiveSample::default()
        };
        let extent = Extent { start: 4096, bytes: 4096, stack: 1, ..Extent::default() };
        let end = Some(Box::new(End::of(Way::Exited(3))));
        let header =
            Header { health: vec![0; HEALTH.len()], comm: "a".into(), end, ..Header::default() };
        Snapshot {
            header,
            stacks,
            live: vec![live],
            extents: vec![extent, Extent { start: 8192, ..extent }],
            freed: vec![Freed { alloc_stack: 2, ..Freed::default() }],
            defects: vec![crate::Defect::BadRegion("strings")],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_snapshot_arrives_as_it_was() {
        assert!(is_valid(&example()));
        let wire = borsh::to_vec(&example()).unwrap();
        assert_eq!(borsh::from_slice::<Snapshot>(&wire).unwrap(), example());
    }

    #[test]
    fn worker_answers_are_checked() {
        let damages: [fn(&mut Snapshot); 10] = [
            |it| it.header.health.clear(),
            |it| it.stacks.truncate(1),
            |it| it.stacks[0].frames.push(LookupAddress(1)),
            |it| it.stacks[2].alloc_space = f64::INFINITY,
            |it| it.live[0].stack = 3,
            |it| it.live[0].inverse_probability = 0.5,
            |it| it.live[0].size = u64::MAX,
            |it| it.extents[0].bytes = 4097,
            |it| it.freed[0].free_stack = Some(9),
            |it| {
                it.header.last_failure =
                    Some(Box::new(FailedAllocation { stack: 3, ..FailedAllocation::default() }))
            },
        ];
        for (index, damage) in damages.into_iter().enumerate() {
            let mut snapshot = example();
            damage(&mut snapshot);
            assert!(!is_valid(&snapshot), "{index}");
        }
    }
}

//! A program that may be killed at any instruction: it is run step by step, and whenever its profile file has changed, the file is
//! read as if the program had died there.

use ramson_format::{PAGE_BYTES, REGION_KINDS, Region, plan};
use ramson_reader::{Defect, Freed, ReadAt, ReadError, Snapshot};
use ramson_tests::tracing::{Stop, Traced};
use ramson_tests::{Run, library, program, read_bytes};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::offset_of;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Stdio};

const FILE_BYTES: u64 = 1 << 20;

/// The file as it was at the latest change, and what a reader made of it.
struct Watch {
    path: PathBuf,
    file: Option<File>,
    bytes: Vec<u8>,
    latest: Option<Snapshot>,
    changes: u64,
    /// Every sample that was ever seen: address and size.
    seen: HashSet<(u64, u64)>,
    /// Addresses of samples that were taken out.
    gone: Vec<u64>,
    /// Every recent free that was ever seen: address, size, and stack of the allocation.
    freed: HashSet<(u64, u64, usize)>,
    /// Every extent that was ever seen: address and size.
    extents: HashSet<(u64, u64)>,
    most_stacks: usize,
    most_live: usize,
}

impl Watch {
    fn new(path: PathBuf) -> Self {
        let bytes = vec![0; FILE_BYTES as usize];
        Self {
            path,
            file: None,
            bytes,
            latest: None,
            changes: 0,
            seen: HashSet::new(),
            gone: Vec::new(),
            freed: HashSet::new(),
            extents: HashSet::new(),
            most_stacks: 0,
            most_live: 0,
        }
    }

    fn look(&mut self) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        if self.copy() {
            self.changes += 1;
            self.check();
        }
    }

    /// Copies what is committed; whether anything has changed.
    fn copy(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        let mut has_changed = copy_part(file, &mut self.bytes, 0, PAGE_BYTES);
        for (region, kind) in plan(FILE_BYTES).iter().zip(REGION_KINDS) {
            // The program stands still: the page is of the same moment.
            let word = self.bytes[kind.row() + offset_of!(Region, committed)..].first_chunk();
            let committed = u64::from_le_bytes(*word.expect("it is in the first page"));
            let bytes = committed * kind.entry_bytes();
            has_changed |= copy_part(file, &mut self.bytes, region.offset, bytes);
        }
        has_changed
    }

    /// Fails unless every record that was committed before is there, and no record is there that was not made.
    fn check(&mut self) {
        let now = match (read_bytes(&self.bytes), &self.latest) {
            (Ok(now), _) => now,
            (Err(ReadError::Unfinished | ReadError::Empty), None) => return,
            (Err(error), _) => panic!("change {}: {error}", self.changes),
        };
        let is_under_way = |defect: &Defect| {
            use Defect::{BadMappings, BadStacks, TornFrees, TornSamples};
            matches!(
                defect,
                // Two where the rest of an extent is recorded before the extent is gone.
                TornSamples(1 | 2) | TornFrees(1) | BadStacks(1) | BadMappings(1)
            )
        };
        assert!(now.defects.iter().all(is_under_way), "{}: {:?}", self.changes, now.defects);
        if let Some(before) = &self.latest {
            assert!(before.mappings.iter().all(|mapping| now.mappings.contains(mapping)));
            let stacks: HashMap<_, _> = now
                .stacks
                .iter()
                .map(|stack| (&stack.frames, stack.sampled_alloc_objects))
                .collect();
            for stack in &before.stacks {
                let objects = stacks.get(&stack.frames).expect("a committed stack is gone");
                assert!(*objects >= stack.sampled_alloc_objects);
            }
            let live: HashMap<_, _> = now.live.iter().map(|live| (live.address, live)).collect();
            let frames = |snapshot: &Snapshot, stack: usize| snapshot.stacks[stack].frames.clone();
            let is_there = |freed: &Freed| now.freed.iter().any(|now| now.number == freed.number);
            assert!(before.freed.iter().all(is_there), "a recent free is gone");
            let gone_before = self.gone.len();
            for sample in &before.live {
                let Some(same) = live.get(&sample.address) else {
                    self.gone.push(sample.address);
                    continue;
                };
                assert_eq!((same.size, same.tid), (sample.size, sample.tid));
                assert_eq!(frames(&now, same.stack), frames(before, sample.stack));
            }
            let gone = self.gone.len() - gone_before;
            assert!(gone <= 1 && now.live.len() <= before.live.len() + 1, "more than one store");
        }
        self.seen.extend(now.live.iter().map(|live| (live.address, live.size)));
        self.extents.extend(now.extents.iter().map(|extent| (extent.start, extent.bytes)));
        self.freed.extend(now.freed.iter().map(|freed| {
            let stack = freed.free_stack.expect("there is room for every stack");
            assert!(!now.stacks[stack].frames.is_empty());
            (freed.address, freed.size, freed.alloc_stack)
        }));
        self.most_stacks = self.most_stacks.max(now.stacks.len());
        self.most_live = self.most_live.max(now.live.len());
        self.latest = Some(now);
    }
}

/// Copies a part of the file; whether it has changed.
fn copy_part(file: &File, bytes: &mut [u8], offset: u64, length: u64) -> bool {
    let mut now = vec![0; length as usize];
    ReadAt::read_at(file, offset, &mut now).expect("the file can be read");
    let before = &mut bytes[offset as usize..][..length as usize];
    let has_changed = *before != now;
    before.copy_from_slice(&now);
    has_changed
}

impl Watch {
    /// Fails unless exactly the freed blocks were seen among recent frees.
    fn check_freed(&self, freed: &HashSet<u64>) {
        let remembered: HashSet<_> = self.freed.iter().map(|&(address, ..)| address).collect();
        assert_eq!(&remembered, freed);
        assert_eq!((self.gone.len(), self.freed.len()), (freed.len(), freed.len()));
    }
}

/// The library's code in process `pid`.
fn code_of_library(pid: u32) -> Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let name = library().to_str().expect("a path in UTF-8");
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(name));
    let (start, end) =
        line.and_then(|line| line.split(' ').next()?.split_once('-')).expect("loaded");
    let number = |text| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    number(start)..number(end)
}

fn output_of(child: &mut Child) -> String {
    let mut output = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut output).expect("text");
    output
}

/// Blocks or mappings that the program says it made: address, size, and whether it stays.
fn told(output: &str, what: &str) -> Vec<(u64, u64, bool)> {
    let number = |text: &str, radix| u64::from_str_radix(text, radix).expect("a number");
    let lines = output.lines().filter(|line| line.starts_with(what));
    let told = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (number(&words[1][2..], 16), number(words[2], 10), words[3] == "1")
    });
    told.collect()
}

#[test]
fn kill_at_any_store_keeps_records() {
    let mut run = Run::new(program("steps.c")).env("RAMSON_MAX_FILE", "1M").without("RAMSON_DIR");
    let path = run.directory.path().join("steps.ramson");
    run.command.env("RAMSON_OUTPUT", &path).env("RAMSON_FREES", "1024").stdin(Stdio::piped());
    let mut child = run.spawn();
    let traced = Traced::attach(child.id());
    child.stdin.take().expect("piped").write_all(b"!").expect("it waits for that");
    let mut watch = Watch::new(path);
    let mut is_watched = false;
    let mut steps = 0u64;
    let mut code = 0..0;
    let mut was_in_library = false;
    loop {
        match traced.wait() {
            Stop::Signal(libc::SIGUSR1) => {
                is_watched = !is_watched;
                // Changes happened unwatched, so the latest snapshot must not be compared.
                watch.latest = None;
                if code.is_empty() {
                    code = code_of_library(child.id());
                }
            }
            // Stops by attaching, which may come before or after exec.
            Stop::Signal(libc::SIGSTOP | libc::SIGTRAP) if !is_watched => {}
            Stop::Signal(libc::SIGTRAP) => {
                steps += 1;
                if was_in_library {
                    watch.look();
                }
                was_in_library = code.contains(&traced.registers().rip);
            }
            Stop::Exited(status) => {
                assert_eq!(status, 0);
                break;
            }
            other => panic!("{other:?}"),
        }
        let resume = if is_watched { Traced::step } else { Traced::go_on };
        resume(&traced);
    }
    let output = output_of(&mut child);
    let blocks = told(&output, "block ");
    let made: HashSet<_> = blocks.iter().map(|&(address, size, _)| (address, size)).collect();
    assert!(watch.seen.is_subset(&made), "{:?}", watch.seen.difference(&made));
    let freed: HashSet<_> =
        blocks.iter().filter(|block| !block.2).map(|&(address, ..)| address).collect();
    assert!(watch.gone.iter().all(|address| freed.contains(address)), "{:x?}", watch.gone);
    watch.check_freed(&freed);
    let last = read_bytes(&std::fs::read(&watch.path).expect("kept")).expect("whole");
    assert_eq!(last.defects, []);
    let live: HashSet<_> = last.live.iter().map(|live| (live.address, live.size)).collect();
    let mut staying = blocks.iter().filter(|block| block.2);
    assert!(staying.all(|&(address, size, _)| live.contains(&(address, size))), "{live:x?}");
    let extents = told(&output, "extent ");
    let known: HashSet<_> = extents.iter().map(|&(start, bytes, _)| (start, bytes)).collect();
    assert_eq!(watch.extents, known);
    let mapped: HashSet<_> = last.extents.iter().map(|now| (now.start, now.bytes)).collect();
    let stays = extents.iter().filter(|extent| extent.2);
    assert_eq!(mapped, stays.map(|&(start, bytes, _)| (start, bytes)).collect());
    println!("{steps} steps, {} changes of the file", watch.changes);
    // Both tables grew while they were watched.
    let (changes, stacks, live) = (watch.changes, watch.most_stacks, watch.most_live);
    assert!(changes > 300 && stacks > 128 && live > 512, "{changes} {stacks} {live}");
}

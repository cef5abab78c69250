//! Live samples by block size and thread.

use crate::extents;
use ramson_format::Kind;
use ramson_profile::{Estimate, Label, SampleType, SampleUnit, StackSample};
use ramson_reader::Stack;
use ramson_source::Recording;
use std::collections::{BTreeMap, HashMap};
use std::fs;

/// The label that tells samples of this stack from others; a profile of the heap alone has none.
pub fn of_kind(stack: &Stack, kind: Option<Kind>) -> Option<Label> {
    (kind != Some(Kind::Heap)).then(|| Label::kind(stack.kind().name()))
}

/// Adds a sample for all live blocks of one stack, size and thread. What a stack allocated in all is counted per stack only:
/// it gets the average size.
pub fn add_live(stacks: &mut Vec<StackSample>, recording: &Recording, kind: Option<Kind>) {
    let snapshot = &recording.snapshot;
    let mut threads = HashMap::new();
    let mut groups: BTreeMap<(usize, u64, u32), [Estimate; 2]> = BTreeMap::new();
    for live in extents::live(snapshot, kind) {
        let [objects, space] = groups.entry((live.stack, live.size, live.tid)).or_default();
        *objects += live.estimate(SampleUnit::Objects);
        *space += live.estimate(SampleUnit::Bytes);
    }
    for (sample, stack) in stacks.iter_mut().zip(&snapshot.stacks) {
        if stack.alloc_objects > 0.0 {
            let average = (stack.alloc_space / stack.alloc_objects).round();
            let size = Label::block_size(average as u64);
            sample.labels = [size].into_iter().chain(of_kind(stack, kind)).collect();
        }
    }
    for ((stack, size, tid), [objects, space]) in groups {
        let thread = threads.entry(tid).or_insert_with(|| thread(recording, tid));
        let labels = [Label::block_size(size), thread.clone()];
        let mut sample = StackSample {
            locations: stacks[stack].locations.clone(),
            labels: labels.into_iter().chain(of_kind(&snapshot.stacks[stack], kind)).collect(),
            ..StackSample::default()
        };
        sample.values[SampleType::InuseObjects as usize] = objects;
        sample.values[SampleType::InuseSpace as usize] = space;
        stacks.push(sample);
    }
}

/// `NAME/TID`, or the ID alone: only names of running threads are known, and that of the first.
fn thread(recording: &Recording, tid: u32) -> Label {
    let header = &recording.snapshot.header;
    let of_running = recording.running.and_then(|pid| thread_name(pid, tid));
    let name = of_running.or_else(|| (tid == header.pid).then(|| header.comm.clone()));
    Label::thread(name.map_or_else(|| tid.to_string(), |name| format!("{name}/{tid}")).into())
}

/// Of a running thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

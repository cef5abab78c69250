//! Live samples by block size and thread.

use crate::extents::{self, Live};
use ramson_format::Kind;
use ramson_profile::{Estimate, Label, SampleType, SampleUnit, StackSample};
use ramson_reader::{Snapshot, Stack};
use ramson_source::Recording;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::Arc;

/// The label that tells samples of this stack from others; a profile of the heap alone has none.
pub fn of_kind(stack: &Stack, kind: Option<Kind>) -> Option<Label> {
    (kind != Some(Kind::Heap)).then(|| Label::kind(stack.kind().name()))
}

/// Adds a sample for all live blocks of one stack, size and thread. What a stack allocated in all is counted per stack only:
/// it gets the average size.
pub fn add_live(stacks: &mut Vec<StackSample>, recording: &Recording, kind: Option<Kind>) {
    let snapshot = &recording.snapshot;
    let mut threads = Threads { recording, names: HashMap::new() };
    let mut groups: BTreeMap<(usize, u64, u32), [Estimate; 2]> = BTreeMap::new();
    for Live { stack, size, tid, inverse_probability } in extents::live(snapshot, kind) {
        let [objects, space] = groups.entry((stack, size, tid)).or_default();
        *objects += Estimate::of_sample(size, inverse_probability, SampleUnit::Objects);
        *space += Estimate::of_sample(size, inverse_probability, SampleUnit::Bytes);
    }
    label_averages(stacks, snapshot, kind);
    for ((stack, size, tid), [objects, space]) in groups {
        let labels = [Label::block_size(size), threads.label(tid)];
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

fn label_averages(stacks: &mut [StackSample], snapshot: &Snapshot, kind: Option<Kind>) {
    for (sample, stack) in stacks.iter_mut().zip(&snapshot.stacks) {
        if stack.alloc_objects > 0.0 {
            let average = (stack.alloc_space / stack.alloc_objects).round();
            let size = Label::block_size(average as u64);
            sample.labels = [size].into_iter().chain(of_kind(stack, kind)).collect();
        }
    }
}

/// Names of threads: only those of running ones are known, and that of the first.
struct Threads<'a> {
    recording: &'a Recording,
    names: HashMap<u32, Label>,
}

impl Threads<'_> {
    /// `NAME/TID`, or the ID alone.
    fn label(&mut self, tid: u32) -> Label {
        let header = &self.recording.snapshot.header;
        let name = || -> Option<String> {
            let of_running = self
                .recording
                .running
                .and_then(|pid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok());
            let of_first = || (tid == header.pid).then(|| header.comm.clone());
            of_running.or_else(of_first).map(|name| name.trim_end().to_owned())
        };
        let label = self.names.entry(tid).or_insert_with(|| {
            let name: Arc<str> = match name() {
                Some(name) => format!("{name}/{tid}").into(),
                None => tid.to_string().into(),
            };
            Label::thread(name)
        });
        label.clone()
    }
}

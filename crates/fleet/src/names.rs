//! Names of stacks: the database has each stack and each frame once, by the hash of its names.

use crate::changes::StackKey;
use crate::layout::{FrameRow, StackRow};
use crate::rows::Rows;
use ramson_analysis::hash::hash;
use ramson_analysis::named::{assemble_stacks, stack_number};
use ramson_analysis::naming::Names;
use ramson_follow::Followed;
use ramson_format::KINDS;
use ramson_profile::{FrameTable, OwnFrames};
use ramson_reader::{Snapshot, Stack};
use std::collections::HashSet;

/// Hashes that are known to have been told. A process may make ever new stacks: beyond this, all are told again.
const MOST_TOLD: usize = 1 << 19;

/// Stacks and frames that the server has been told.
#[derive(Default)]
pub struct Dictionary {
    stacks: HashSet<u64>,
    frames: HashSet<u64>,
}

impl Dictionary {
    /// Names new stacks of a process. Without names a stack is known by its addresses. Fails for stacks that are not among the result.
    pub fn name(
        &mut self,
        of: &Followed,
        new: &[(StackKey, &Stack)],
        rows: &mut Rows,
    ) -> Vec<(StackKey, u64)> {
        if new.is_empty() {
            return Vec::new();
        }
        let all = of.snapshot();
        let overflow = KINDS.map(Stack::overflow).into_iter();
        let recording = of.recording.with(Snapshot {
            header: all.header.clone(),
            mappings: all.mappings.clone(),
            stacks: overflow.chain(new.iter().map(|(_, stack)| (*stack).clone())).collect(),
            ..Snapshot::default()
        });
        let numbers = (KINDS.len()..KINDS.len() + new.len()).collect();
        let Ok(mut named) = assemble_stacks(&recording, &Names::default(), &numbers) else {
            return Vec::new();
        };
        OwnFrames::default().fold(&mut named.profile);
        let table = FrameTable::new(&named.profile);
        let mut hashes = Vec::new();
        for sample in &named.profile.samples {
            let Some(number) = stack_number(sample) else { continue };
            let frame = |at| {
                let frame = table.name_at(at);
                FrameRow {
                    frame: hash([frame.name.as_bytes(), frame.file.as_bytes()]),
                    function: frame.name.to_string(),
                    file: frame.file.to_string(),
                }
            };
            let frames: Vec<FrameRow> = table.stack(sample).map(frame).collect();
            let stack = hash(frames.iter().map(|frame| frame.function.as_bytes()));
            hashes.push((new[number - KINDS.len()].0, stack));
            self.tell(stack, frames, rows);
        }
        hashes
    }

    fn tell(&mut self, stack: u64, frames: Vec<FrameRow>, rows: &mut Rows) {
        for told in [&mut self.stacks, &mut self.frames] {
            if told.len() >= MOST_TOLD {
                told.clear();
            }
        }
        if self.stacks.insert(stack) {
            let of_stack = frames.iter().map(|it| it.frame).collect();
            rows.stacks.push(StackRow { stack, frames: of_stack });
            rows.frames.extend(frames.into_iter().filter(|it| self.frames.insert(it.frame)));
        }
    }
}

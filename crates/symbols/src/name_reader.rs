//! Names in what other users own, in the worker that looks for them.

use std::fs::File;

use ramson_apart::Handler;

use crate::address::FileAddress;
use crate::answers::Answers;
use crate::asked::{ADDRESS, COMPILED_NAMES, NAMES};
use crate::compiled::Compiled;
use crate::segments;
use crate::symbolizer::{Options, Symbolized, Symbolizer};
use crate::their_names::{Question, Reply};

/// In a worker: looks for names. Keeps the files of one binary open, the last.
#[derive(Default)]
pub struct NameReader {
    open: Option<(Question, Symbolizer)>,
}

impl Handler for NameReader {
    fn kinds(&self) -> &'static [u8] {
        &[NAMES, COMPILED_NAMES, ADDRESS]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        let answer = match kind {
            NAMES => borsh::to_vec(&self.names(borsh::from_slice(body).ok()?)),
            COMPILED_NAMES => borsh::to_vec(&borsh::from_slice::<Compiled>(body).ok()?.told()),
            _ => borsh::to_vec(&segments::address(&borsh::from_slice(body).ok()?)),
        };
        answer.ok()
    }
}

impl NameReader {
    fn names(&mut self, mut question: Question) -> Reply {
        let addresses = std::mem::take(&mut question.addresses);
        let is_same = |(open, _): &(Question, _)| {
            open.binary == question.binary && open.is_without_lines == question.is_without_lines
        };
        if !self.open.as_ref().is_some_and(is_same) {
            // Files that were open take memory, too.
            self.open = None;
        }
        let open = || (question.clone(), Symbolizer::new(options(&question)));
        let (question, symbolizer) = self.open.get_or_insert_with(open);
        let wanted: Vec<FileAddress> = addresses.iter().copied().map(FileAddress).collect();
        let found = symbolizer.symbolize(&question.binary, &wanted);
        let Symbolized { frames, source, defect } = found;
        let mut answers = Answers::default();
        addresses.iter().zip(&frames).for_each(|(&at, frames)| answers.add(at, frames));
        Reply { answers, source, defect }
    }
}

fn options(question: &Question) -> Options {
    Options {
        debug_paths: question.debug_paths.clone(),
        sysroot: question.sysroot.first().cloned(),
        named_by: Some(question.named_by),
        is_without_lines: question.is_without_lines,
        ..Options::default()
    }
}

//! Names of what other users own: a worker of the owner looks for them, in the owner's root directory and with the owner's rights. Its answers are
//! checked: it may be in the owner's hands.

use std::fs::File;
use std::path::PathBuf;

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Handler, Owner, Request};

use crate::address::FileAddress;
use crate::answers::Answers;
use crate::binary::Binary;
use crate::compiled::{Compiled, Told};
use crate::defect::SymbolDefect;
use crate::frame::{Frame, SymbolSource};
use crate::rooted::{read_paths, write_paths};
use crate::segments::{self, Offset};
use crate::symbolizer::{Options, Symbolized, Symbolizer};

const NAMES: u8 = 0x12;
const COMPILED_NAMES: u8 = 0x13;
const ADDRESS: u8 = 0x14;

/// Question for the names in one binary.
#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub(crate) struct Question {
    #[borsh(serialize_with = "write_paths", deserialize_with = "read_paths")]
    pub debug_paths: Vec<PathBuf>,
    #[borsh(serialize_with = "write_paths", deserialize_with = "read_paths")]
    pub sysroot: Vec<PathBuf>,
    pub named_by: Owner,
    pub binary: Binary,
    /// Its debug information is too much to read.
    pub is_without_lines: bool,
    pub addresses: Vec<u64>,
}

/// Names by address, and what keeps them from being more.
#[derive(Default, BorshSerialize, BorshDeserialize)]
pub(crate) struct Reply {
    pub answers: Answers,
    pub source: SymbolSource,
    pub defect: Option<SymbolDefect>,
}

impl Question {
    /// Asks a worker. What it cannot name counts as unnamed.
    pub fn ask(mut self, by: &Apart) -> Reply {
        let mut reply = self.asked(by);
        let mut failure = None;
        if let Err(why @ (Failure::Memory(_) | Failure::Time(_))) = &reply {
            failure = Some(why.clone());
            // The table of symbols may be less.
            self.is_without_lines = true;
            reply = self.asked(by);
        }
        failure = failure.or_else(|| reply.as_ref().err().cloned());
        let mut reply = reply.unwrap_or_default();
        if let Some(failure) = failure {
            reply.defect = Some(SymbolDefect::NotRead { path: self.binary.path.into(), failure });
        }
        for &address in &self.addresses {
            if !reply.answers.by_address.contains_key(&address) {
                reply.answers.add(address, &[]);
            }
        }
        reply
    }

    fn asked(&self, by: &Apart) -> Result<Reply, Failure> {
        let reply: Reply = ask(by, NAMES, self)?;
        Some(reply).filter(|reply| reply.answers.is_valid()).ok_or(Failure::BadAnswer)
    }
}

/// Asks a worker for the names of compiled code.
pub(crate) fn compiled(by: &Apart, question: &Compiled) -> Result<Told, Failure> {
    let told: Told = ask(by, COMPILED_NAMES, question)?;
    Some(told).filter(|told| question.is_answer(told)).ok_or(Failure::BadAnswer)
}

/// Asks a worker for the address at which a file is mapped.
pub(crate) fn address(by: &Apart, question: &Offset) -> Option<u64> {
    ask::<Option<u64>>(by, ADDRESS, question).ok()?
}

fn ask<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    question: &impl BorshSerialize,
) -> Result<T, Failure> {
    let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
    let answer = by.ask(&Request { kind, body: &body, files: &[] })?;
    borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
}

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
            // What was open takes memory, too.
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

impl Reply {
    /// Adds what another answer has.
    pub fn extend(&mut self, other: &Self, addresses: &[FileAddress]) {
        for address in addresses {
            self.answers.add(address.0, &other.frames_at(address));
        }
        self.source = other.source;
        self.defect.clone_from(&other.defect);
    }

    pub fn frames_at(&self, address: &FileAddress) -> Vec<Frame> {
        self.answers.get(address.0).unwrap_or_default()
    }
}

//! Names in the binaries of other users: a worker of the owner looks for them, in the owner's root directory and with the owner's rights.

use std::path::PathBuf;

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Owner};

use crate::address::FileAddress;
use crate::answers::Answers;
use crate::asked::NAMES;
use crate::binary::Binary;
use crate::defect::SymbolDefect;
use crate::frame::{Frame, SymbolSource};
use crate::rooted::{read_paths, write_paths};

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
        let reply: Reply = by.ask_for(NAMES, self)?;
        Some(reply).filter(|reply| reply.answers.is_valid()).ok_or(Failure::BadAnswer)
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

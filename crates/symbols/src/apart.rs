//! Names from files of others: the files are opened here, and read by a helper. Its answers are checked: it may be in their hands.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Owner, Request};

use crate::answers::Answers;
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity};
use crate::engine::Files;
use crate::frame::SymbolSource;
use crate::rooted::{RootedPath, read_path, write_path};
use crate::sources::{Found, Provenance};
use crate::split::{MOST_MISSING, package_place};

pub(crate) const NAME: u8 = 0x12;
/// Debug files of one binary; more are not looked at.
const MOST_CANDIDATES: usize = 16;
/// Rounds in which parts that the debug information names are passed.
const MOST_ROUNDS: usize = 3;

/// Question to a helper. Its descriptors come in the order of `files`: of each, the file, its supplement, its package.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Question {
    pub files: Vec<Described>,
    /// The first file is the binary itself.
    pub has_binary: bool,
    /// Debug information is too much to read.
    pub is_without_lines: bool,
    /// Parts outside: their descriptors come last.
    pub units: Vec<Part>,
    pub addresses: Vec<u64>,
}

/// A file that comes as a descriptor.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Described {
    pub part: Part,
    pub supplement: Supplement,
    pub package: Option<Part>,
}

#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub(crate) struct Part {
    #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
    pub path: PathBuf,
    pub is_trusted: bool,
}

#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) enum Supplement {
    None,
    Given(Part),
    Missing(Damage),
}

/// A `SymbolDefect` of a file.
#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub(crate) enum Damage {
    Unreadable {
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        reason: String,
    },
    Missing {
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        path: PathBuf,
        #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
        supplement: PathBuf,
        build_id: String,
    },
}

/// Answer of a helper.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Reply {
    pub answers: Answers,
    pub source: SymbolSource,
    pub identity: Option<Identity>,
    pub damage: Option<Damage>,
    pub missing: Vec<Vec<u8>>,
}

fn write_buf(path: &Path, out: &mut impl std::io::Write) -> std::io::Result<()> {
    write_path(path, out)
}

impl Damage {
    pub fn of(defect: &SymbolDefect) -> Option<Self> {
        Some(match defect.clone() {
            SymbolDefect::Unreadable { path, reason } => Self::Unreadable { path, reason },
            SymbolDefect::SupplementMissing { path, supplement, build_id } => {
                Self::Missing { path, supplement, build_id }
            }
            _ => return None,
        })
    }

    pub fn into_defect(self) -> SymbolDefect {
        match self {
            Self::Unreadable { path, reason } => SymbolDefect::Unreadable { path, reason },
            Self::Missing { path, supplement, build_id } => {
                SymbolDefect::SupplementMissing { path, supplement, build_id }
            }
        }
    }
}

/// A file that is passed to a helper, with what belongs to it.
struct Passed {
    file: File,
    path: PathBuf,
    place: Option<RootedPath>,
    identity: Identity,
    is_trusted: bool,
    supplement: Result<Option<Box<Passed>>, SymbolDefect>,
    package: Option<Box<Passed>>,
}

/// The files of a binary that a helper answers for.
pub(crate) struct Remote {
    by: Apart,
    named_by: Owner,
    files: Vec<Passed>,
    units: Vec<Passed>,
    has_binary: bool,
    is_without_lines: bool,
    source: SymbolSource,
    place: Option<RootedPath>,
    identity: Option<Identity>,
    damage: Option<SymbolDefect>,
}

impl Remote {
    /// Collects the files for a helper. `None`: no file needs a helper.
    pub fn gather(found: &mut Found, file: Option<&ElfFile>) -> Option<Self> {
        let may_have_lines = |file: &ElfFile| file.has_lines() && file.damage().is_none();
        let mut candidates: Vec<ElfFile> = Vec::new();
        let mut has_lines = file.is_some_and(may_have_lines);
        while !has_lines && candidates.len() < MOST_CANDIDATES {
            let Some(next) = found.next_debug_file() else { break };
            has_lines = may_have_lines(&next);
            candidates.push(next);
        }
        let mut all = file.into_iter().chain(&candidates);
        let Some(by) = all.find_map(|file| Some(file.apart.as_ref()?.by.clone())) else {
            found.give_back(candidates);
            return None;
        };
        let all = file.into_iter().chain(&candidates).filter(|file| may_be_passed(file));
        let files: Vec<Passed> =
            all.filter_map(|file| Passed::with_parts(found, file).ok()).collect();
        let has_binary = file
            .is_some_and(|file| files.first().is_some_and(|first| first.identity == file.identity));
        Some(Self {
            by,
            named_by: found.search.folders.named_by,
            files,
            units: Vec::new(),
            has_binary,
            is_without_lines: false,
            source: SymbolSource::None,
            place: None,
            identity: None,
            damage: None,
        })
    }

    /// Adds the frames at `addresses`. Those that it fails to get count as unnamed.
    pub fn answer(&mut self, addresses: &[u64], answers: &mut Answers) {
        let mut reply = self.ask(addresses);
        for _ in 0..MOST_ROUNDS {
            let missing = reply.as_ref().map_or(&[][..], |reply| &reply.missing);
            if !self.find_parts(missing) {
                break;
            }
            reply = self.ask(addresses);
        }
        let mut failure = None;
        if let Err(why @ (Failure::Memory(_) | Failure::Time(_))) = &reply
            && !self.is_without_lines
        {
            failure = Some(why.clone());
            // Its table of symbols may be less.
            self.is_without_lines = true;
            reply = self.ask(addresses);
        }
        let path = self.files.first().map(|file| file.path.clone()).unwrap_or_default();
        failure = failure.or_else(|| reply.as_ref().err().cloned());
        if let Some(failure) = failure {
            self.damage = Some(SymbolDefect::NotRead { path, failure });
        }
        let Ok(reply) = reply else {
            addresses.iter().for_each(|&address| answers.add(address, &[]));
            return;
        };
        for &address in addresses {
            answers.add(address, &reply.answers.get(address).unwrap_or_default());
        }
        let is_it = |file: &&Passed| Some(file.identity) == reply.identity;
        let source = self.files.iter().find(is_it).or(self.files.first());
        self.source = reply.source;
        self.place = source.and_then(|file| file.place.clone());
        self.identity = source.map(|file| file.identity);
        if self.damage.is_none() {
            self.damage = reply.damage.map(Damage::into_defect);
        }
    }

    pub fn provenance(&self) -> Provenance<'_> {
        Provenance {
            source: self.source,
            place: self.place.as_ref(),
            identity: self.identity,
            is_strange: self.files.iter().chain(&self.units).any(Passed::is_strange),
            damage: self.damage.as_ref(),
        }
    }

    fn ask(&self, addresses: &[u64]) -> Result<Reply, Failure> {
        let question = Question {
            files: self.files.iter().map(Passed::described).collect(),
            has_binary: self.has_binary,
            is_without_lines: self.is_without_lines,
            units: self.units.iter().map(Passed::part).collect(),
            addresses: addresses.to_vec(),
        };
        let body = borsh::to_vec(&question).map_err(|_| Failure::BadAnswer)?;
        let files: Vec<BorrowedFd> =
            self.files.iter().flat_map(Passed::descriptors).chain(units(&self.units)).collect();
        let answer = self.by.ask(&Request { kind: NAME, body: &body, files: &files })?;
        let reply: Reply = borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)?;
        Some(reply).filter(|reply| reply.answers.is_valid()).ok_or(Failure::BadAnswer)
    }

    /// Opens those of the missing parts that the helper may have; false if there are none.
    fn find_parts(&mut self, missing: &[Vec<u8>]) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let known = self.units.len();
        for path in missing.iter().take(MOST_MISSING) {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            if self.units.iter().all(|unit| unit.path != path)
                && self.units.len() < MOST_MISSING * MOST_ROUNDS
                && let Some(unit) = Passed::opened(&RootedPath::named(self.named_by, path), path)
            {
                self.units.push(unit);
            }
        }
        self.units.len() > known
    }
}

fn units(units: &[Passed]) -> impl Iterator<Item = BorrowedFd<'_>> {
    units.iter().map(|unit| unit.file.as_fd())
}

/// Whether a helper may have it: it is not this user's own, or everyone may read it.
fn may_be_passed(file: &ElfFile) -> bool {
    let is_public = |place: &RootedPath| place.open_to_all().is_ok_and(|found| found.is_some());
    !file.is_trusted || file.apart.is_some() || file.place.as_ref().is_some_and(is_public)
}

impl Passed {
    fn of(file: &ElfFile) -> std::io::Result<Self> {
        Ok(Self {
            file: file.file.try_clone()?,
            path: file.path.clone(),
            place: file.place.clone(),
            identity: file.identity,
            is_trusted: file.is_trusted,
            supplement: Ok(None),
            package: None,
        })
    }

    fn with_parts(found: &mut Found, file: &ElfFile) -> std::io::Result<Self> {
        let passed = Self::of(file)?;
        if !file.has_lines() {
            return Ok(passed);
        }
        let supplement = found.supplement(file).map(|supplement| {
            let supplement = supplement.filter(may_be_passed)?;
            Self::of(&supplement).ok().map(Box::new)
        });
        let place = package_place(file);
        let package = Self::opened(&place, &place.shown()).map(Box::new);
        Ok(Self { supplement, package, ..passed })
    }

    /// Opens the file at `place` if the helper may see its content: the file is a stranger's, or every user may read it.
    fn opened(place: &RootedPath, path: &Path) -> Option<Self> {
        let opened = place.open().ok()?;
        let is_trusted = opened.facts.is_trusted();
        let opened = if is_trusted { place.open_to_all().ok()?? } else { opened };
        Some(Self {
            path: path.to_owned(),
            place: Some(place.clone()),
            identity: opened.facts.into(),
            file: opened.file,
            is_trusted,
            supplement: Ok(None),
            package: None,
        })
    }

    fn is_strange(&self) -> bool {
        !self.is_trusted || self.parts().any(|part| !part.is_trusted)
    }

    fn part(&self) -> Part {
        Part { path: self.path.clone(), is_trusted: self.is_trusted }
    }

    fn described(&self) -> Described {
        let supplement = match &self.supplement {
            Ok(None) => Supplement::None,
            Ok(Some(supplement)) => Supplement::Given(supplement.part()),
            Err(defect) => Damage::of(defect).map_or(Supplement::None, Supplement::Missing),
        };
        let package = self.package.as_ref().map(|package| package.part());
        Described { part: self.part(), supplement, package }
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.file.as_fd()].into_iter().chain(self.parts().map(|part| part.file.as_fd()))
    }

    /// Its supplement and its package, as far as there are any.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        let supplement = self.supplement.as_ref().ok().and_then(Option::as_ref);
        [supplement, self.package.as_ref()].into_iter().flatten().map(Box::as_ref)
    }
}

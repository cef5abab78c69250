//! Names from files of others, in the helper that reads them.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ramson_apart::Handler;

use crate::answers::Answers;
use crate::apart::{Damage, Described, NAME, Part, Question, Reply, Supplement};
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity};
use crate::engine::{Engine, Files};
use crate::identified::{CRC32, ElfFacts, IDENTIFY};
use crate::links::{debug_link, supplement_link};
use crate::perf_map::{COMPILED_NAMES, PerfMap, SeenAddress};
use crate::segments::{ADDRESS, address_in_file};
use crate::split::{Parts, Split};

/// Reads ELF files and debug information that come as descriptors. Keeps those of the binary that was asked for last.
#[derive(Default)]
pub struct NameReader {
    open: Option<(Key, Engine)>,
}

/// Which files an engine has.
#[derive(PartialEq)]
struct Key {
    files: Vec<Identity>,
    has_binary: bool,
    is_without_lines: bool,
}

impl Handler for NameReader {
    fn kinds(&self) -> &'static [u8] {
        &[IDENTIFY, CRC32, NAME, COMPILED_NAMES, ADDRESS]
    }

    fn answer(&mut self, kind: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        let answer = match kind {
            IDENTIFY => borsh::to_vec(&identify(only(files)?)),
            CRC32 => borsh::to_vec(&given(only(files)?).ok().and_then(|file| file.crc32())),
            NAME => borsh::to_vec(&self.names(borsh::from_slice(body).ok()?, files)?),
            COMPILED_NAMES => {
                let addresses: Vec<SeenAddress> = borsh::from_slice(body).ok()?;
                borsh::to_vec(&PerfMap::names(only(files)?, &addresses))
            }
            ADDRESS => {
                let offset = borsh::from_slice(body).ok()?;
                borsh::to_vec(&address_in_file(&only(files)?, offset))
            }
            _ => return None,
        };
        answer.ok()
    }
}

fn only(files: Vec<File>) -> Option<File> {
    files.into_iter().next()
}

fn given(file: File) -> Result<ElfFile, String> {
    ElfFile::given(file, PathBuf::new(), false)
}

fn identify(file: File) -> Result<ElfFacts, String> {
    let file = given(file)?;
    let facts = ElfFacts { build_id: file.build_id.clone(), ..ElfFacts::default() };
    Ok(match file.damage() {
        Some(damage) => ElfFacts { damage: Some(damage), ..facts },
        None => ElfFacts {
            link: debug_link(&file),
            supplement: supplement_link(&file),
            has_lines: file.has_lines(),
            ..facts
        },
    })
}

impl NameReader {
    fn names(&mut self, question: Question, files: Vec<File>) -> Option<Reply> {
        let Question { files: described, has_binary, is_without_lines, units, addresses } =
            question;
        let mut descriptors = files.into_iter();
        let mut opened = Vec::new();
        for described in described {
            opened.push(Opened::of(described, &mut descriptors)?);
        }
        let units = units.into_iter().map(|part| elf(part, &mut descriptors));
        let units = units.collect::<Option<Vec<_>>>()?.into_iter().flatten();
        let units: HashMap<PathBuf, ElfFile> =
            units.map(|unit| (unit.path.clone(), unit)).collect();
        let all = opened.iter().flat_map(Opened::identities);
        let files = all.chain(units.values().map(|unit| unit.identity)).collect();
        let key = Key { files, has_binary, is_without_lines };
        if self.open.as_ref().is_none_or(|(open, _)| *open != key) {
            // The engine that was open takes memory, too.
            self.open = None;
            let engine = open(opened, units, has_binary, is_without_lines);
            self.open = Some((key, engine));
        }
        let (_, engine) = self.open.as_mut()?;
        let mut answers = Answers::default();
        engine.answer(&addresses, &mut answers);
        let bytes = |path: PathBuf| path.into_os_string().into_vec();
        let missing = engine.missing_parts().into_iter().map(bytes).collect();
        let damage = engine.damage.as_ref().and_then(Damage::of);
        Some(Reply { answers, source: engine.source, identity: engine.identity, damage, missing })
    }
}

fn open(
    mut opened: Vec<Opened>,
    units: HashMap<PathBuf, ElfFile>,
    has_binary: bool,
    is_without_lines: bool,
) -> Engine {
    let damage = opened.iter().find_map(|opened| opened.damage.clone());
    let binary = (has_binary && !opened.is_empty()).then(|| opened.remove(0));
    let (file, of_binary) = binary.map_or((None, None), |opened| {
        let Opened { file, supplement, package, .. } = opened;
        let identity = file.as_ref().map(|file| file.identity);
        (file, identity.map(|identity| (identity, Belongings { supplement, package })))
    });
    let mut belongings: Vec<_> = of_binary.into_iter().collect();
    let mut queue = VecDeque::new();
    for Opened { file, supplement, package, .. } in opened {
        let Some(file) = file else { continue };
        belongings.push((file.identity, Belongings { supplement, package }));
        queue.push_back(file);
    }
    let mut given = Given { queue, belongings, units, is_without_lines };
    let mut engine = Engine::open(&mut given, file.as_ref());
    engine.damage = engine.damage.or(damage);
    engine
}

/// A file that came, with what belongs to it.
struct Opened {
    file: Option<ElfFile>,
    supplement: Result<Option<ElfFile>, SymbolDefect>,
    package: Option<ElfFile>,
    damage: Option<SymbolDefect>,
}

struct Belongings {
    supplement: Result<Option<ElfFile>, SymbolDefect>,
    package: Option<ElfFile>,
}

/// `None`: there is no descriptor of it. `Some(None)`: it is no ELF file.
fn elf(part: Part, descriptors: &mut impl Iterator<Item = File>) -> Option<Option<ElfFile>> {
    Some(ElfFile::given(descriptors.next()?, part.path, part.is_trusted).ok())
}

impl Opened {
    fn of(described: Described, descriptors: &mut impl Iterator<Item = File>) -> Option<Self> {
        let Described { part, supplement, package } = described;
        let path = part.path.clone();
        let file = ElfFile::given(descriptors.next()?, part.path, part.is_trusted);
        let supplement = match supplement {
            Supplement::None => Ok(None),
            Supplement::Given(part) => Ok(elf(part, descriptors)?),
            Supplement::Missing(damage) => Err(damage.into_defect()),
        };
        let package = match package {
            Some(part) => elf(part, descriptors)?,
            None => None,
        };
        let damage = file.as_ref().err().cloned();
        let damage = damage.map(|reason| SymbolDefect::Unreadable { path, reason });
        Some(Self { file: file.ok(), supplement, package, damage })
    }

    fn identities(&self) -> impl Iterator<Item = Identity> {
        let supplement = self.supplement.as_ref().ok().and_then(Option::as_ref);
        let all = [self.file.as_ref(), supplement, self.package.as_ref()];
        all.into_iter().flatten().map(|file| file.identity)
    }
}

/// The files that came.
struct Given {
    queue: VecDeque<ElfFile>,
    belongings: Vec<(Identity, Belongings)>,
    units: HashMap<PathBuf, ElfFile>,
    is_without_lines: bool,
}

impl Given {
    fn of(&mut self, file: &ElfFile) -> Option<&mut Belongings> {
        let mut all = self.belongings.iter_mut();
        all.find(|(identity, _)| *identity == file.identity).map(|(_, belongings)| belongings)
    }
}

impl Files for Given {
    fn next_debug_file(&mut self) -> Option<ElfFile> {
        self.queue.pop_front()
    }

    fn supplement(&mut self, file: &ElfFile) -> Result<Option<ElfFile>, SymbolDefect> {
        let Some(belongings) = self.of(file) else { return Ok(None) };
        let found = std::mem::replace(&mut belongings.supplement, Ok(None));
        found.map(|found| {
            found.map(|mut found| {
                found.share_budget(file);
                found
            })
        })
    }

    fn split(&mut self, file: &ElfFile) -> Split {
        let package = self.of(file).and_then(|belongings| belongings.package.take());
        let mut parts = Parts { package, units: std::mem::take(&mut self.units) };
        for part in parts.package.iter_mut().chain(parts.units.values_mut()) {
            part.budget = file.budget.clone();
        }
        Split::given(file, parts)
    }

    fn has_lines(&self, file: &ElfFile) -> bool {
        !self.is_without_lines && file.has_lines()
    }
}

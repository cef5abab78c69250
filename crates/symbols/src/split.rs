//! Debug information that the compiler left outside the program (`-gsplit-dwarf`): all of it in a package
//! `PROGRAM.dwp`, or one `.dwo` file per unit, where it was compiled.

use std::ffi::OsStr;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackageSections, DwarfSections, RunTimeEndian, SectionId};

use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::elf::ElfFile;
use crate::lines::{check_abbreviations, endian};
use crate::rooted::{Readers, RootedPath};

/// Lists of units are short if there are this many.
const UNIT_LISTS: usize = 1 << 10;
/// Further parts that are not there are not told.
const MOST_MISSING: usize = 64;

/// Finds the outside parts of one file with DWARF, for any number of threads. Nothing is opened before the first request,
/// and nothing closed after: threads refer to it.
pub(crate) struct Split {
    /// Place of the package; others have the names that the debug information tells.
    package_place: RootedPath,
    /// Its parts must then not be a stranger's either.
    is_of_trusted_file: bool,
    readers: Readers,
    budget: Budget,
    package: OnceLock<Option<(DwarfPackageSections<Vec<u8>>, RunTimeEndian)>>,
    /// By the hash of the path.
    units: Vec<OnceLock<Box<Unit>>>,
    /// Parts that were asked for and are not there, in this order.
    missing: Mutex<Vec<PathBuf>>,
    /// Relaxed: an estimate of what is held.
    size_bytes: AtomicU64,
}

/// A `.dwo` file.
struct Unit {
    path: PathBuf,
    sections: Option<(DwarfSections<Vec<u8>>, RunTimeEndian)>,
    next: OnceLock<Box<Unit>>,
}

impl Split {
    pub fn of(file: &ElfFile) -> Self {
        let name = file.path.file_name().unwrap_or_default();
        let place = file.place.clone().unwrap_or_else(|| file.folder.join(name.as_ref()));
        Self {
            package_place: place.with_suffix(".dwp"),
            is_of_trusted_file: file.is_trusted,
            readers: file.readers,
            budget: file.budget.clone(),
            package: OnceLock::new(),
            units: (0..UNIT_LISTS).map(|_| OnceLock::new()).collect(),
            missing: Mutex::default(),
            size_bytes: AtomicU64::new(0),
        }
    }

    /// The part that `request` names. addr2line checks that the part is of the same compilation.
    pub fn load<'a>(&'a self, request: SplitDwarfLoad<Bytes<'a>>) -> Option<Arc<Dwarf<Bytes<'a>>>> {
        if let Some((package, endian)) = self.package.get_or_init(|| self.open_package()) {
            let slice = |section: &'a Vec<u8>| Bytes::new(section, *endian);
            let package = package.borrow(slice, Bytes::new(&[], *endian));
            if let Ok(Some(unit)) =
                package.and_then(|package| package.find_cu(request.dwo_id, &request.parent))
            {
                return check_abbreviations(&unit).is_ok().then(|| Arc::new(unit));
            }
        }
        let name = request.path.as_ref()?.slice();
        let folder = request.comp_dir.as_ref().map(|folder| folder.slice());
        let folder = folder.unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name));
        let Some((sections, endian)) = self.unit(&path) else {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            if missing.len() < MOST_MISSING && !missing.contains(&path) {
                missing.push(path);
            }
            return None;
        };
        let mut unit = sections.borrow(|section| Bytes::new(section, *endian));
        unit.make_dwo(&request.parent);
        check_abbreviations(&unit).is_ok().then(|| Arc::new(unit))
    }

    /// Parts that were asked for and are not there; only so many are noted.
    pub fn missing(&self) -> Vec<PathBuf> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    fn unit(&self, path: &Path) -> Option<&(DwarfSections<Vec<u8>>, RunTimeEndian)> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(path);
        let mut place = &self.units[hash as usize % UNIT_LISTS];
        loop {
            let unit = place.get_or_init(|| {
                let sections = self.open_unit(path);
                Box::new(Unit { path: path.to_owned(), sections, next: OnceLock::new() })
            });
            if unit.path == path {
                return unit.sections.as_ref();
            }
            place = &unit.next;
        }
    }

    fn open_package(&self) -> Option<(DwarfPackageSections<Vec<u8>>, RunTimeEndian)> {
        let load = |file: &ElfFile| {
            let sections = DwarfPackageSections::load(self.loader(file)).ok()?;
            Some((sections, endian(file).ok()?))
        };
        load(&self.open(&self.package_place)?)
    }

    fn open_unit(&self, path: &Path) -> Option<(DwarfSections<Vec<u8>>, RunTimeEndian)> {
        let load = |file: &ElfFile| {
            Some((DwarfSections::load(self.loader(file)).ok()?, endian(file).ok()?))
        };
        load(&self.open(&RootedPath::here(path))?)
    }

    fn open(&self, place: &RootedPath) -> Option<ElfFile> {
        let mut file = ElfFile::open(place, self.readers).ok()?;
        file.budget = self.budget.clone();
        (file.is_trusted || !self.is_of_trusted_file).then_some(file)
    }

    /// Reads sections of `file`; a damaged one counts as empty, and the unit as missing what it had.
    fn loader(&self, file: &ElfFile) -> impl FnMut(SectionId) -> gimli::Result<Vec<u8>> {
        |id: SectionId| {
            // All of them: the index of a package names ranges in each, used or not.
            let section = id.dwo_name().and_then(|name| file.section(name));
            let content = section.and_then(|section| file.read(section).ok()).unwrap_or_default();
            self.size_bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
            Ok(content)
        }
    }
}

//! Debug information that the compiler left outside the program (`-gsplit-dwarf`): all of it in a package
//! `PROGRAM.dwp`, or one `.dwo` file per unit, where it was compiled.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, Reader, SectionId};

use crate::elf::ElfFile;
use crate::lines::{Bytes, bytes};

/// Finds the outside parts of one file with DWARF. Nothing is opened before the first request.
pub(crate) struct Split {
    package_path: PathBuf,
    package: Option<Option<DwarfPackage<Bytes>>>,
    /// The first part that was asked for and is not there.
    pub missing: Option<PathBuf>,
    pub size_bytes: u64,
}

impl Split {
    pub fn of(file: &ElfFile) -> Self {
        let mut package_path = file.path.clone().into_os_string();
        package_path.push(".dwp");
        let package_path = PathBuf::from(package_path);
        Self { package_path, package: None, missing: None, size_bytes: 0 }
    }

    /// The part that `request` names. That it is of the same compilation is checked by addr2line.
    pub fn load(&mut self, request: SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf<Bytes>>> {
        if self.package.is_none() {
            self.package = Some(self.open_package());
        }
        if let Some(Some(package)) = &self.package
            && let Ok(Some(unit)) = package.find_cu(request.dwo_id, &request.parent)
        {
            return Some(Arc::new(unit));
        }
        let name = request.path.as_ref()?.to_slice().ok()?;
        let folder = request.comp_dir.as_ref().and_then(|folder| folder.to_slice().ok());
        let folder = folder.unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(&folder)).join(OsStr::from_bytes(&name));
        let Some(mut unit) = self.open_unit(&path) else {
            self.missing.get_or_insert(path);
            return None;
        };
        unit.make_dwo(&request.parent);
        Some(Arc::new(unit))
    }

    fn open_package(&mut self) -> Option<DwarfPackage<Bytes>> {
        let path = self.package_path.clone();
        let load = self.loader(&path)?;
        let empty = Bytes::new(Arc::from([]), gimli::RunTimeEndian::Little);
        DwarfPackage::load::<_, gimli::Error>(load, empty).ok()
    }

    fn open_unit(&mut self, path: &Path) -> Option<Dwarf<Bytes>> {
        let load = self.loader(path)?;
        Dwarf::load::<_, gimli::Error>(load).ok()
    }

    /// Reads sections of the file at `path`; a damaged one counts as empty, and the unit as missing what it had.
    fn loader(
        &mut self,
        path: &Path,
    ) -> Option<impl FnMut(SectionId) -> gimli::Result<Bytes> + use<'_>> {
        let file = ElfFile::open(path).ok()?;
        let sections = file.sections().ok()?;
        Some(move |id: SectionId| {
            // All of them: the index of a package names ranges in each, used or not.
            let name = id.dwo_name().unwrap_or_default();
            let content = bytes((&file, &sections), name);
            let content = content.or_else(|_| bytes((&file, &sections), ""));
            let content = content.map_err(|_| gimli::Error::Io)?;
            self.size_bytes += content.len() as u64;
            Ok(content)
        })
    }
}

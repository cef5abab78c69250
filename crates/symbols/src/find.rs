//! Where a binary and its debug file are. Nothing is used unless its build ID is the profile's.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::binary::{Binary, is_build_id};
use crate::debuginfod::Servers;
use crate::defect::SymbolDefect;
use crate::elf::{DebugLink, ElfFile, Identity, OpenError, supplement_link};

/// Where distributions put separate debug files.
const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";
/// What the kernel appends to the path of an unlinked file.
const DELETED: &str = " (deleted)";
/// A process has at most this many mappings by default (`vm.max_map_count`).
const MAX_MAPPINGS: usize = 1 << 16;

/// Where else than in the usual places files may be.
#[derive(Default)]
pub(crate) struct Folders {
    /// Folders with debug files.
    pub debug_paths: Vec<PathBuf>,
    /// A copy of the root directory of the machine that the profile is from.
    pub sysroot: Option<PathBuf>,
}

/// What is looked for, and where.
pub(crate) struct Search<'a> {
    pub binary: &'a Binary,
    pub folders: &'a Folders,
    pub servers: Option<&'a mut Servers>,
}

impl Search<'_> {
    /// The profile's build ID, or else the file's.
    pub fn build_id<'a>(&'a self, file: Option<&'a ElfFile>) -> &'a str {
        match file {
            Some(file) if self.binary.build_id.is_empty() => &file.build_id,
            _ => &self.binary.build_id,
        }
    }

    /// A debug file from a server, if there are servers to ask.
    pub fn fetch(&mut self, build_id: &str) -> Option<PathBuf> {
        self.servers.as_mut()?.fetch(build_id)
    }
}

/// Finds the file that `binary` was mapped from.
pub(crate) fn locate(binary: &Binary, folders: &Folders) -> Result<ElfFile, SymbolDefect> {
    let (mut differs, mut unreadable) = (None, None);
    let (wanted, binary_path) = (binary.build_id.clone(), binary.path.clone());
    let paths = binary_paths(binary, folders).into_iter();
    for path in paths.chain(std::iter::once_with(|| mapped_paths(binary)).flatten()) {
        match ElfFile::open(&path) {
            Ok(file) if wanted.is_empty() || file.build_id == wanted => return Ok(file),
            Ok(file) => {
                let (wanted, found) = (wanted.clone(), file.build_id);
                let defect = SymbolDefect::BuildIdDiffers { path, wanted, found, used: None };
                differs.get_or_insert(defect);
            }
            Err(OpenError::Missing) => {}
            Err(OpenError::Unreadable(reason)) => {
                unreadable.get_or_insert(SymbolDefect::Unreadable { path, reason });
            }
        }
    }
    let missing = SymbolDefect::BinaryMissing { path: binary_path, build_id: wanted };
    mapped_under_any_name(binary).ok_or(differs.or(unreadable).unwrap_or(missing))
}

/// By name: in the sysroot, then inside the process's root, so that containers work, then here.
fn binary_paths(binary: &Binary, folders: &Folders) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let is_verifiable = !binary.build_id.is_empty();
    let is_deleted = binary.path.ends_with(DELETED);
    // What is now at a deleted file's name is another file unless its build ID says otherwise.
    if is_deleted && !is_verifiable {
        return paths;
    }
    let path = binary.path.strip_suffix(DELETED).unwrap_or(&binary.path);
    if let Some(sysroot) = folders.sysroot.as_ref().filter(|_| path.starts_with('/')) {
        paths.push(concatenated(sysroot, path));
        if !is_verifiable {
            return paths;
        }
    }
    let root = process_root(binary).filter(|_| path.starts_with('/'));
    if let Some(root) = &root {
        paths.push(concatenated(root, path));
    }
    // Without a build ID, a file of the same name outside the container proves nothing.
    if root.is_none_or(|root| is_verifiable || !root.exists()) {
        paths.push(PathBuf::from(path));
    }
    paths
}

/// By what the process has mapped: reaches unlinked files. Needs privileges, except for the executable.
fn mapped_paths(binary: &Binary) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let Some(pid) = binary.pid else { return paths };
    let plain = binary.path.strip_suffix(DELETED).unwrap_or(&binary.path);
    let is_it = |link: &Path| {
        let Ok(target) = std::fs::read_link(link) else { return false };
        let Some(target) = target.to_str() else { return false };
        target == binary.path || target.strip_suffix(DELETED) == Some(plain)
    };
    let mut links = mapped_links(pid);
    paths.extend(links.next().filter(|executable| is_it(executable)));
    paths.extend(links.find(|link| is_it(link)));
    paths
}

/// The executable, then every mapped file, once for each mapping.
fn mapped_links(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/map_files")).ok().into_iter().flatten();
    let links = entries.take(MAX_MAPPINGS).flatten().map(|entry| entry.path());
    std::iter::once(PathBuf::from(format!("/proc/{pid}/exe"))).chain(links)
}

/// By build ID alone: who replaces a binary may have renamed it first, and a process in a changed root directory sees other paths
/// than its links have.
fn mapped_under_any_name(binary: &Binary) -> Option<ElfFile> {
    let pid = binary.pid.filter(|_| !binary.build_id.is_empty())?;
    let mut seen = HashSet::new();
    let is_new = |link: &PathBuf| std::fs::read_link(link).is_ok_and(|target| seen.insert(target));
    let files = mapped_links(pid).filter(is_new).filter_map(|link| ElfFile::open(&link).ok());
    files.into_iter().find(|file| file.build_id == binary.build_id)
}

fn process_root(binary: &Binary) -> Option<PathBuf> {
    binary.pid.map(|pid| PathBuf::from(format!("/proc/{pid}/root")))
}

/// `root` followed by the absolute `path`, which `Path::join` would take instead of `root`.
fn concatenated(root: &Path, path: &str) -> PathBuf {
    let mut joined = root.as_os_str().to_owned();
    joined.push(path);
    PathBuf::from(joined)
}

/// A place where a separate debug file may be.
#[derive(Default)]
pub(crate) struct Place {
    pub path: PathBuf,
    /// What must hold besides the build ID.
    pub crc32: Option<u32>,
    /// Where a file is once it was fetched from a server.
    pub is_fetched: bool,
}

/// Every place to look for the debug file of `binary`, best first.
pub(crate) fn debug_places(
    search: &Search,
    file: Option<&ElfFile>,
    link: Option<&DebugLink>,
) -> Vec<Place> {
    let Search { binary, folders, servers } = search;
    let build_id = search.build_id(file);
    let at = |path| Place { path, ..Place::default() };
    let mut places = Vec::new();
    let roots = debug_roots(binary, folders);
    for root in &roots {
        places.extend(by_build_id(root, build_id).map(at));
    }
    let path = binary.path.strip_suffix(DELETED).unwrap_or(&binary.path);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if is_build_id(build_id) {
        // An unstripped copy of the binary will do as well.
        let copies =
            folders.debug_paths.iter().filter(|_| !name.is_empty()).map(|root| root.join(name));
        places.extend(copies.map(at));
    }
    if let Some(link) = link {
        let name = OsStr::from_bytes(&link.name);
        let mut linked = folders.debug_paths.clone();
        let file_systems = folders.sysroot.clone().into_iter().chain(process_root(binary));
        for root in file_systems.chain([PathBuf::new()]) {
            let folder = concatenated(&root, folder);
            linked.push(folder.join(".debug"));
            linked.push(folder);
        }
        linked.extend(roots.iter().map(|root| concatenated(root, folder)));
        let crc32 = Some(link.crc32);
        places.extend(linked.into_iter().map(|folder| Place { crc32, ..at(folder.join(name)) }));
    }
    let fetched = servers.as_ref().and_then(|servers| servers.place(build_id));
    places.extend(fetched.map(|path| Place { is_fetched: true, ..at(path) }));
    places
}

fn debug_roots(binary: &Binary, folders: &Folders) -> Vec<PathBuf> {
    let mut roots = folders.debug_paths.clone();
    let file_systems = folders.sysroot.clone().into_iter().chain(process_root(binary));
    roots.extend(file_systems.map(|root| concatenated(&root, SYSTEM_DEBUG_DIR)));
    roots.push(PathBuf::from(SYSTEM_DEBUG_DIR));
    roots
}

fn by_build_id(root: &Path, build_id: &str) -> Option<PathBuf> {
    let (directory, file) = build_id.split_at_checked(2)?;
    is_build_id(build_id).then(|| root.join(format!(".build-id/{directory}/{file}.debug")))
}

/// Opens the file at `place` if it is the debug file of the binary with this build ID. A file that is not is as
/// good as absent: another package may own it.
pub(crate) fn open_debug_file(place: &Place, build_id: &str) -> Option<ElfFile> {
    let file = ElfFile::open(&place.path).ok()?;
    let is_it = match place.crc32 {
        Some(crc32) => file.build_id == build_id && file.crc32() == Some(crc32),
        None => file.build_id == build_id,
    };
    is_it.then_some(file)
}

/// The supplement of `file`, the part that `dwz` moved to a common file, if there is one; a defect if it is missing.
pub(crate) fn supplement(
    search: &mut Search,
    file: &ElfFile,
) -> Result<Option<ElfFile>, SymbolDefect> {
    let Search { binary, folders, .. } = *search;
    let Some((link, build_id)) = supplement_link(file) else { return Ok(None) };
    let link = Path::new(OsStr::from_bytes(&link));
    let mut paths = Vec::new();
    // Relative names start at the debug file, wherever its own links lead.
    let real = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    paths.extend(real.parent().map(|folder| folder.join(link)));
    if let (Some(root), Some(link)) = (process_root(binary), link.to_str())
        && link.starts_with('/')
    {
        paths.push(concatenated(&root, link));
    }
    for root in debug_roots(binary, folders) {
        paths.extend(by_build_id(&root, &build_id));
        paths.extend(link.file_name().map(|name| root.join(".dwz").join(name)));
    }
    let fetched = std::iter::once_with(|| search.fetch(&build_id)).flatten();
    for path in paths.into_iter().chain(fetched) {
        if let Ok(file) = ElfFile::open(&path)
            && file.build_id == build_id
            && file.sections().is_ok()
        {
            return Ok(Some(file));
        }
    }
    let (path, supplement) = (file.path.clone(), link.to_owned());
    Err(SymbolDefect::SupplementMissing { path, supplement, build_id })
}

/// What identifies every file that exists now and could be a source.
pub(crate) fn present(file: Option<&ElfFile>, places: &[Place]) -> Vec<Identity> {
    let debug_files = places.iter().filter_map(|place| Identity::of(&place.path));
    file.map(|file| file.identity).into_iter().chain(debug_files).collect()
}

//! Search for a binary and its debug file. If the profile has a build ID, a file is used only if its build ID is the same.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ramson_apart::Owner;
use ramson_paths::{Facts, mapped_links};

use crate::binary::{Binary, is_build_id};
use crate::debuginfod::Servers;
use crate::defect::SymbolDefect;
use crate::elf::{ElfFile, Identity, OpenError};
use crate::links::{DebugLink, supplement_link};
use crate::rooted::{NotedRoot, Readers, RootedPath};

/// Folder in which distributions put separate debug files.
const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";
/// Suffix that the kernel appends to the path of an unlinked file.
const DELETED: &str = " (deleted)";

/// Places other than the usual ones in which files may be.
pub(crate) struct Folders {
    /// Folders with debug files.
    pub debug_paths: Vec<PathBuf>,
    /// A copy of the root directory of the machine that the profile is from.
    pub sysroot: Option<PathBuf>,
    /// The root directory of a process that has ended, where that is not ours.
    pub root: Option<NotedRoot>,
    /// Who must be able to read a file that is used.
    pub readers: Readers,
    /// The user whose programs and profiles name what is looked for.
    pub named_by: Owner,
    /// Debug information is too much to read.
    pub is_without_lines: bool,
    /// The owner of a file that was found and is not to be read here.
    pub theirs: Cell<Option<Owner>>,
}

impl Folders {
    fn open(&self, place: &RootedPath) -> Result<ElfFile, OpenError> {
        let opened = ElfFile::open(place, self.readers);
        if let Err(OpenError::Theirs(owner)) = &opened {
            self.theirs.set(Some(*owner));
        }
        opened
    }

    /// Each folder with debug files as a root of its own, then by its path, as links in it may lead out of it.
    fn debug_folders(&self) -> impl Iterator<Item = RootedPath> {
        let roots = |path: &PathBuf| {
            [RootedPath::within(path, Path::new("/")), RootedPath::named_by_user(path)]
        };
        self.debug_paths.iter().flat_map(roots)
    }

    /// Every root directory in which a path of `binary`'s process may be meant, at `path`.
    fn in_file_systems(&self, binary: &Binary, path: &Path) -> Vec<RootedPath> {
        let sysroot = self.sysroot.iter().map(|root| RootedPath::within(root, path));
        let here = RootedPath::named(self.named_by, path);
        sysroot.chain(self.in_its_root(binary, path)).chain([here]).collect()
    }

    /// `path` as the process of `binary` sees it, or saw it before it ended.
    fn in_its_root(&self, binary: &Binary, path: &Path) -> Option<RootedPath> {
        let process = binary.pid.map(|pid| RootedPath::in_process(pid, path));
        process.or_else(|| Some(RootedPath::told(self.root.as_ref()?, path)))
    }
}

/// Binary that is looked for, and where.
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

/// Finds the file that `binary` was mapped from. One of a stranger counts only if neither root nor the user has one of this build, by the
/// same name or where names came from before (`earlier`).
pub(crate) fn locate(
    binary: &Binary,
    folders: &Folders,
    earlier: Option<&RootedPath>,
) -> Result<ElfFile, SymbolDefect> {
    let mut differs = None;
    let mut unreadable = None;
    let mut strange = None;
    let mut is_theirs = false;
    let wanted = binary.build_id.clone();
    // Without a build ID, nothing tells whether the file at this name now is still the same.
    if wanted.is_empty()
        && folders.sysroot.is_none()
        && let Some(file) = mapped_by_name(binary)
    {
        return Ok(file);
    }
    for place in binary_paths(binary, folders) {
        match folders.open(&place) {
            Ok(file) if wanted.is_empty() || file.build_id == wanted && file.is_chosen() => {
                return Ok(file);
            }
            Ok(file) if file.build_id == wanted => drop(strange.get_or_insert(file)),
            Ok(file) => {
                let ElfFile { path, build_id: found, .. } = file;
                let wanted = wanted.clone();
                let defect = SymbolDefect::BuildIdDiffers { path, wanted, found, used: None };
                differs.get_or_insert(defect);
            }
            Err(OpenError::Missing) => {}
            Err(OpenError::Theirs(_)) => is_theirs = true,
            Err(OpenError::Unreadable(reason)) => {
                unreadable.get_or_insert(SymbolDefect::Unreadable { path: place.shown(), reason });
            }
        }
    }
    let earlier = earlier
        .filter(|_| strange.is_some() || is_theirs)
        .and_then(|place| folders.open(place).ok())
        .filter(|file| file.build_id == wanted && file.is_chosen());
    let missing = SymbolDefect::BinaryMissing { path: binary.path.clone(), build_id: wanted };
    earlier
        .or(strange)
        .or_else(|| mapped_by_name(binary))
        .or_else(|| mapped_under_any_name(binary))
        .ok_or(differs.or(unreadable).unwrap_or(missing))
}

/// By name: in the sysroot, then inside the process's root, so that containers work, then here.
fn binary_paths(binary: &Binary, folders: &Folders) -> Vec<RootedPath> {
    let mut paths = Vec::new();
    let is_verifiable = !binary.build_id.is_empty();
    let is_deleted = binary.path.ends_with(DELETED);
    // The file that is now at a deleted file's name is another file unless its build ID says otherwise.
    if is_deleted && !is_verifiable {
        return paths;
    }
    let path = Path::new(plain_path(binary));
    if let Some(sysroot) = folders.sysroot.as_ref().filter(|_| path.is_absolute()) {
        paths.push(RootedPath::within(sysroot, path));
        if !is_verifiable {
            return paths;
        }
    }
    let in_its_root = folders.in_its_root(binary, path).filter(|_| path.is_absolute());
    // Without a build ID, a file of the same name outside the container proves nothing.
    let proves_nothing = in_its_root.as_ref().is_some_and(RootedPath::has_root);
    paths.extend(in_its_root);
    if is_verifiable || !proves_nothing {
        paths.push(RootedPath::named(folders.named_by, path));
    }
    paths
}

/// By what the process has mapped: reaches unlinked files. Needs privileges, except for the executable.
fn mapped_by_name(binary: &Binary) -> Option<ElfFile> {
    let plain = plain_path(binary);
    let is_it = |target: &Path| {
        let target = target.to_str().unwrap_or_default();
        target == binary.path || target.strip_suffix(DELETED) == Some(plain)
    };
    let wanted = &binary.build_id;
    mapped(binary, is_it).find(|file| wanted.is_empty() || file.build_id == *wanted)
}

/// By build ID alone: who replaces a binary may have renamed it first, and a process in a changed root directory sees other paths
/// than its links have.
fn mapped_under_any_name(binary: &Binary) -> Option<ElfFile> {
    let mut seen = HashSet::new();
    let is_new = |target: &Path| !binary.build_id.is_empty() && seen.insert(target.to_owned());
    mapped(binary, is_new).find(|file| file.build_id == binary.build_id)
}

/// The files that the process of `binary` has mapped under names that are wanted.
fn mapped(
    binary: &Binary,
    mut is_wanted: impl FnMut(&Path) -> bool,
) -> impl Iterator<Item = ElfFile> {
    let path = Path::new(plain_path(binary));
    let links = binary
        .pid
        .into_iter()
        .flat_map(|pid| mapped_links(pid).into_iter().map(move |link| (pid, link)));
    links.filter(move |(_, link)| is_wanted(&link.name)).filter_map(move |(pid, link)| {
        ElfFile::mapped(link.open().ok()?, &RootedPath::in_process(pid, path)).ok()
    })
}

fn plain_path(binary: &Binary) -> &str {
    binary.path.strip_suffix(DELETED).unwrap_or(&binary.path)
}

/// A place where a separate debug file may be.
pub(crate) struct Place {
    pub at: RootedPath,
    /// CRC-32 of the file that must match in addition to the build ID.
    crc32: Option<u32>,
    /// Whether a file is here only after it was fetched from a server.
    pub is_fetched: bool,
}

impl From<RootedPath> for Place {
    fn from(at: RootedPath) -> Self {
        Self { at, crc32: None, is_fetched: false }
    }
}

/// Every place to look for the debug file of `binary`, best first.
pub(crate) fn debug_places(
    search: &Search,
    file: Option<&ElfFile>,
    link: Option<&DebugLink>,
) -> Vec<Place> {
    let Search { binary, folders, servers } = search;
    let build_id = search.build_id(file);
    let roots = debug_roots(binary, folders);
    let mut places: Vec<Place> = Vec::new();
    places.extend(roots.iter().filter_map(|root| by_build_id(root, build_id)).map(Place::from));
    let (folder, name) = plain_path(binary).rsplit_once('/').unwrap_or((".", plain_path(binary)));
    if is_build_id(build_id) && !name.is_empty() {
        // An unstripped copy of the binary will do as well.
        let copies = folders.debug_folders().map(|folder| folder.join(name.as_ref()));
        places.extend(copies.map(Place::from));
    }
    if let Some(link) = link {
        let name = Path::new(OsStr::from_bytes(&link.name));
        let mut linked: Vec<_> = folders.debug_folders().collect();
        for beside in folders.in_file_systems(binary, Path::new(folder)) {
            linked.extend([beside.join(".debug".as_ref()), beside]);
        }
        linked.extend(roots.iter().map(|root| root.below(folder)));
        let crc32 = Some(link.crc32);
        let linked = linked.into_iter().map(|folder| Place::from(folder.join(name)));
        places.extend(linked.map(|place| Place { crc32, ..place }));
    }
    let fetched = servers.as_ref().and_then(|servers| servers.place(build_id));
    places.extend(
        fetched.map(|path| Place { is_fetched: true, ..Place::from(RootedPath::here(&path)) }),
    );
    places
}

fn debug_roots(binary: &Binary, folders: &Folders) -> Vec<RootedPath> {
    let system = folders.in_file_systems(binary, Path::new(SYSTEM_DEBUG_DIR));
    folders.debug_folders().chain(system).collect()
}

fn by_build_id(root: &RootedPath, build_id: &str) -> Option<RootedPath> {
    let (directory, file) = build_id.split_at_checked(2)?;
    let inner = || format!(".build-id/{directory}/{file}.debug");
    is_build_id(build_id).then(|| root.join(inner().as_ref()))
}

/// Opens the file at `place` if it may be used and is the debug file of the binary with this build ID. A file that is not is as
/// good as absent: another package may own it.
pub(crate) fn open_debug_file(
    place: &Place,
    build_id: &str,
    folders: &Folders,
    may_be_used: fn(&ElfFile) -> bool,
) -> Option<ElfFile> {
    let file = folders.open(&place.at).ok().filter(may_be_used)?;
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
    // Relative names start at the debug file, wherever its own links lead.
    let mut paths = vec![file.folder.join(link)];
    paths.extend(folders.in_its_root(binary, link).filter(|_| link.is_absolute()));
    for root in debug_roots(binary, folders) {
        paths.extend(by_build_id(&root, &build_id));
        paths.extend(link.file_name().map(|name| root.join(".dwz".as_ref()).join(name.as_ref())));
    }
    let fetched = std::iter::once_with(|| search.fetch(&build_id))
        .flatten()
        .map(|path| RootedPath::here(&path));
    for path in paths.into_iter().chain(fetched) {
        if let Ok(mut found) = folders.open(&path)
            && found.build_id == build_id
            && (found.is_chosen() || !file.is_trusted)
            && found.damage().is_none()
        {
            found.share_budget(file);
            return Ok(Some(found));
        }
    }
    let path = file.path.clone();
    Err(SymbolDefect::SupplementMissing { path, supplement: link.to_owned(), build_id })
}

/// Identities of all files that exist now and could be a source, except for files that strangers may have put there.
pub(crate) fn present(file: Option<&ElfFile>, places: &[Place]) -> Vec<Identity> {
    let debug_files = places.iter().filter_map(|place| {
        let is_chosen = |facts: &Facts| facts.is_trusted() || place.at.is_named_by_user();
        place.at.look().filter(is_chosen).map(Identity::from)
    });
    file.map(|file| file.identity).into_iter().chain(debug_files).collect()
}

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A root with `inner/file` in it, and a secret beside it.
fn scratch() -> (TempDir, Root) {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::write(root.join("inner/file"), "inside").unwrap();
    fs::write(directory.path().join("secret"), "outside").unwrap();
    let opened = Root::at(&root).unwrap();
    (directory, opened)
}

fn content(opened: Result<RegularFile, Refusal>) -> Result<String, Refusal> {
    let mut text = String::new();
    opened?.file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn links_resolve_within_root() {
    let (directory, root) = scratch();
    let link = |name: &str, target: &Path| {
        symlink(target, directory.path().join("root").join(name)).unwrap();
        content(root.open(Path::new(name), Links::WithinRoot))
    };
    assert_eq!(link("relative", Path::new("inner/file")).unwrap(), "inside");
    assert_eq!(link("absolute", Path::new("/inner/file")).unwrap(), "inside");
    assert_eq!(link("above", Path::new("../../../inner/file")).unwrap(), "inside");
    let secret = directory.path().join("secret");
    for (name, target) in [("up", Path::new("../secret")), ("out", secret.as_path())] {
        assert!(matches!(link(name, target), Err(Refusal::Missing)), "{name}");
    }
    assert!(matches!(root.open(Path::new("relative"), Links::Refused), Err(Refusal::Link)));
    assert_eq!(content(root.open(Path::new("/inner/file"), Links::Refused)).unwrap(), "inside");
}

#[test]
fn magic_links_lead_nowhere() {
    let root = Root::at(Path::new("/")).unwrap();
    for path in ["/proc/self/exe", "/proc/self/root/etc/passwd", "/proc/self/cwd/Cargo.toml"] {
        let found = root.open(Path::new(path), Links::WithinRoot);
        assert!(found.is_err(), "{path}: {found:?}");
    }
}

#[test]
fn only_stored_regular_files_open() {
    let (directory, root) = scratch();
    let path = |name| directory.path().join("root").join(name);
    mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // The null device, which root may make.
    mknodat(CWD, path("device"), FileType::CharacterDevice, Mode::RUSR, 0x103).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    for (name, kind) in [
        ("fifo", Kind::Fifo),
        ("device", Kind::Device),
        ("socket", Kind::Socket),
        ("inner", Kind::Directory),
    ] {
        match root.open(Path::new(name), Links::WithinRoot) {
            Err(Refusal::NotRegular(found)) => assert_eq!(found, kind),
            other => panic!("{name}: {other:?}"),
        }
    }
    let system = Root::at(Path::new("/")).unwrap();
    for path in ["/proc/kmsg", "/proc/version", "/sys/kernel/notes", "/sys/fs/cgroup/cgroup.procs"]
    {
        let found = system.open(Path::new(path), Links::WithinRoot);
        assert!(matches!(found, Err(Refusal::Pseudo | Refusal::Missing)), "{path}: {found:?}");
    }
}

#[test]
fn directory_shows_its_owners_files_only() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("profiles");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("own"), "1").unwrap();
    fs::write(path.join("planted"), "2").unwrap();
    std::os::unix::fs::chown(path.join("planted"), Some(1501), None).unwrap();
    symlink("/etc/passwd", path.join("link")).unwrap();
    mknodat(CWD, path.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let directory = Directory::open(&path, 0).unwrap();
    assert_eq!(directory.owner(), 0);
    let entries = directory.entries().unwrap();
    assert_eq!(entries.iter().map(|entry| entry.name.as_os_str()).collect::<Vec<_>>(), ["own"]);
    assert_eq!(content(directory.open_file(OsStr::new("own"))).unwrap(), "1");
    let planted = directory.open_file(OsStr::new("planted"));
    assert!(matches!(planted, Err(Refusal::OtherOwner(1501))), "{planted:?}");
    assert!(matches!(directory.open_file(OsStr::new("link")), Err(Refusal::Link)));
    assert!(matches!(directory.open_file(OsStr::new("../secret")), Err(Refusal::Missing)));
    symlink(&path, scratch.path().join("linked")).unwrap();
    let linked = Directory::open(&scratch.path().join("linked"), 0);
    assert!(matches!(linked, Err(Refusal::Link)), "{linked:?}");
    let file = Directory::open(&path.join("own"), 0);
    assert!(matches!(file, Err(Refusal::Io(_))), "{file:?}");
    let missing = Directory::open(&scratch.path().join("missing"), 0);
    assert!(matches!(missing, Err(Refusal::Missing)), "{missing:?}");
}

#[test]
fn replaced_directory_stays_open() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("profiles");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("profile"), "true").unwrap();
    let directory = Directory::open(&path, 0).unwrap();
    fs::rename(&path, scratch.path().join("away")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("profile"), "false").unwrap();
    assert_eq!(content(directory.open_file(OsStr::new("profile"))).unwrap(), "true");
}

#[test]
fn creation_in_directory_follows_no_link() {
    let scratch = TempDir::new().unwrap();
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let directory = Directory::open_chosen(scratch.path()).unwrap();
    symlink(&elsewhere, scratch.path().join("marks")).unwrap();
    assert!(directory.make_directory(OsStr::new("marks")).is_err());
    assert!(directory.create_file(OsStr::new("marks")).is_err());
    assert!(directory.create_file(OsStr::new("elsewhere/file")).is_err());
    let own = directory.make_directory(OsStr::new("own")).unwrap();
    assert!(own.is_private() && own.may_be_written_by(own.owner()) && !own.may_be_written_by(1501));
    own.create_file(OsStr::new("file")).unwrap();
    own.rename(OsStr::new("file"), OsStr::new("renamed")).unwrap();
    assert!(own.has(OsStr::new("renamed")) && !own.has(OsStr::new("file")));
    own.remove(OsStr::new("renamed")).unwrap();
    assert!(own.entries().unwrap().is_empty() && fs::read_dir(elsewhere).unwrap().next().is_none());
}

#[test]
fn chosen_directory_shows_all_users() {
    let scratch = TempDir::new().unwrap();
    fs::write(scratch.path().join("planted"), "2").unwrap();
    std::os::unix::fs::chown(scratch.path().join("planted"), Some(1501), None).unwrap();
    symlink("planted", scratch.path().join("link")).unwrap();
    let directory = Directory::open_chosen(scratch.path()).unwrap();
    assert_eq!(directory.entries().unwrap().len(), 1);
    assert_eq!(content(directory.open_file(OsStr::new("planted"))).unwrap(), "2");
    assert!(matches!(directory.open_file(OsStr::new("link")), Err(Refusal::Link)));
}

#[test]
fn executable_is_found_under_any_name() {
    let opened = executable_of(std::process::id()).unwrap();
    let expected = fs::metadata(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(opened.facts.bytes, expected.len());
    assert!(opened.facts.is_trusted());
}

#[test]
fn replaced_mapped_file_is_refused() {
    let facts = executable_of(std::process::id()).unwrap().facts;
    let path = std::env::current_exe().unwrap();
    // A range that is no mapping, as for a caller whom the kernel refuses its link.
    let map = |inode| MappedFile {
        pid: std::process::id(),
        range: 0x1000..0x2000,
        device: facts.device,
        inode,
        path: path.to_str().unwrap(),
    };
    assert_eq!(mapped_file(&map(facts.inode)).unwrap().facts, facts);
    let other = mapped_file(&map(facts.inode + 1));
    assert!(matches!(other, Err(Refusal::OtherFile)), "{other:?}");
}

#[test]
fn place_in_root_has_links_resolved() {
    let (directory, root) = scratch();
    symlink("inner", directory.path().join("root/link")).unwrap();
    let opened = root.open(Path::new("/link/file"), Links::WithinRoot).unwrap();
    assert_eq!(root.path_of(&opened).unwrap(), Path::new("/inner/file"));
    assert_eq!(root.look(Path::new("link/file"), Links::WithinRoot).unwrap(), opened.facts);
    let system = Root::at(Path::new("/")).unwrap();
    let expected = directory.path().canonicalize().unwrap().join("root/inner/file");
    assert_eq!(system.path_of(&opened).unwrap(), expected);
    let outside = system.open(&directory.path().join("secret"), Links::WithinRoot).unwrap();
    assert_eq!(root.path_of(&outside), None);
}

#[test]
fn private_directory_is_not_open() {
    let (directory, root) = scratch();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(directory.path().join(path), Permissions::from_mode(mode)).unwrap();
    };
    let is_open = || {
        let file = root.open(Path::new("inner/file"), Links::WithinRoot).unwrap();
        root.is_open_to_all(&file)
    };
    mode("root/inner", 0o711);
    mode("root/inner/file", 0o644);
    assert!(is_open());
    mode("root/inner/file", 0o640);
    assert!(!is_open());
    mode("root/inner/file", 0o644);
    mode("root/inner", 0o700);
    assert!(!is_open());
}

#[test]
fn mapped_files_begin_with_executable() {
    let links = mapped_links(std::process::id());
    let executable = executable_of(std::process::id()).unwrap().facts;
    assert_eq!(links[0].open().unwrap().facts, executable);
    assert_eq!(links[0].name, std::env::current_exe().unwrap());
    assert!(links.iter().filter(|link| link.open().is_ok()).count() > 2);
}

#[test]
fn recorded_root_differs_from_replacement() {
    let (directory, root) = scratch();
    let path = directory.path().canonicalize().unwrap().join("root");
    let told = Root::told(&path).unwrap();
    assert_eq!(told.identity().unwrap(), root.identity().unwrap());
    assert_eq!(told.path().as_deref(), Some(path.as_path()));
    assert_eq!(content(told.open(Path::new("/inner/file"), Links::Refused)).unwrap(), "inside");
    let link = path.with_file_name("link");
    symlink(&path, &link).unwrap();
    for through in [link.as_path(), &link.join("inner")] {
        assert!(matches!(Root::told(through), Err(Refusal::Link)), "{through:?}");
    }
    assert!(matches!(Root::told(&path.join("inner/file")), Err(Refusal::Missing)));
    for made_up in ["/proc/self/root", "/proc/self/cwd"] {
        assert!(Root::told(Path::new(made_up)).is_err(), "{made_up}");
    }
    fs::rename(&path, path.with_file_name("old")).unwrap();
    fs::create_dir(&path).unwrap();
    assert_ne!(Root::told(&path).unwrap().identity().unwrap(), root.identity().unwrap());
}

#[test]
fn mounts_of_other_users_are_refused() {
    const ANOTHER: u32 = 1501;
    let above = Path::new("/sys/fs");
    let inner = OsStr::new("cgroup");
    for (user, is_entered) in [(0, true), (ANOTHER, false)] {
        let itself = Directory::open(&above.join(inner), user);
        assert_ne!(matches!(itself, Err(Refusal::Mount)), is_entered, "{itself:?}");
        let directory = Directory::open(above, user).unwrap();
        let within = directory.directory(inner);
        assert_ne!(matches!(within, Err(Refusal::Mount)), is_entered, "{within:?}");
        assert_eq!(directory.has(inner), is_entered);
    }
}

#[test]
fn mounts_and_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (map, link) = (folder.path().join("map"), folder.path().join("link"));
    std::fs::write(&map, "").unwrap();
    std::os::unix::fs::symlink(&map, &link).unwrap();
    let script = format!("mount --bind /proc/self/exe {} && exec cat", map.display());
    let mut within = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let comm = || std::fs::read(format!("/proc/{}/comm", within.id())).unwrap();
    while !comm().starts_with(b"cat") {}
    let open = |root: Root, path: &Path| root.open_itself(path).map(drop);
    let own = || Root::at("/".as_ref()).unwrap();
    let its = Root::of_process(within.id()).unwrap();
    assert!(matches!(open(its, &map), Err(Refusal::Mount)));
    assert!(open(own(), &map).is_ok());
    assert!(matches!(open(own(), &link), Err(Refusal::Link)));
    drop(within.stdin.take());
    within.wait().unwrap();
}

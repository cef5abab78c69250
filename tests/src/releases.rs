//! The C libraries of other Debian releases, and programs that run with them: unpacked by `tests/glibcs`, installed nowhere.

use crate::servers::{Scratch, clean, copy, finish};
use crate::{library, program_with, target_directory};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Releases whose C libraries are run: two that stay as they are, the next one, and the newest that the archive has.
pub const RELEASES: [&str; 4] = ["bullseye", "trixie", "forky", "newest"];

/// The C library of one of them.
pub struct Release {
    name: &'static str,
    root: PathBuf,
}

impl Release {
    /// Unpacks it, if that was not done before.
    pub fn of(name: &'static str) -> Self {
        let directory = target_directory().join("glibc");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("glibcs");
        finish(clean(script).arg(&directory).arg(name)).good();
        Self { name, root: directory.join(name).canonicalize().unwrap() }
    }

    /// Its version: 2.x.
    pub fn minor(&self) -> u32 {
        const BANNER: &[u8] = b"stable release version 2.";
        let file = std::fs::read(self.libc()).unwrap();
        let at = file.windows(BANNER.len()).position(|bytes| bytes == BANNER);
        let at = at.unwrap_or_else(|| panic!("{}: no version", self.name)) + BANNER.len();
        let digits = file[at..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| 10 * number + u32::from(digit - b'0'))
    }

    /// The library.
    pub fn libc(&self) -> PathBuf {
        self.file("libc.so.6")
    }

    /// A program of `tests/programs` of its own for it, with its own loader.
    pub fn program(&self, source: &str) -> PathBuf {
        let libc = self.libc();
        let loader = self.file("ld-linux-x86-64.so.2");
        let own = [
            format!("-Wl,--dynamic-linker={}", loader.display()),
            format!("-Wl,-rpath={}", libc.parent().unwrap().display()),
        ];
        self.compiled(source, "", &own)
    }

    /// A root directory, `root` in `scratch`, with the C library, `/libramson.so` and a program of `tests/programs`.
    pub fn root_with(&self, scratch: &Scratch, source: &str) -> PathBuf {
        let root = scratch.path("root");
        finish(clean("cp").arg("-a").arg(&self.root).arg(&root)).good();
        copy(&self.compiled(source, "-in-root", &[]), &root.join(source.trim_end_matches(".c")));
        copy(library(), &root.join("libramson.so"));
        for directory in ["proc", "var/tmp"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        finish(clean("chmod").arg("1777").arg(root.join("var/tmp"))).good();
        root
    }

    /// A root directory of Debian 13 with Python 3.13, `root` in `scratch`, from which directories of `scratch` are found as from here.
    pub fn root_with_python(scratch: &Scratch) -> PathBuf {
        let python = Self::of("trixie-python");
        let root = scratch.path("root");
        finish(clean("cp").arg("-a").arg(&python.root).arg(&root)).good();
        for directory in ["lib", "lib64"] {
            symlink(format!("usr/{directory}"), root.join(directory)).unwrap();
        }
        let inside = root.join(scratch.path("").strip_prefix("/").unwrap());
        std::fs::create_dir_all(inside.join("profiles")).unwrap();
        std::fs::create_dir_all(root.join("proc")).unwrap();
        root
    }

    fn compiled(&self, source: &str, suffix: &str, own: &[String]) -> PathBuf {
        let loader = self.file("ld-linux-x86-64.so.2");
        let files = [self.libc(), self.file("libpthread.so.0"), self.file("librt.so.1"), loader];
        let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let fixed =
            ["-Wno-deprecated-declarations", "-nodefaultlibs", "-Wl,--allow-shlib-undefined"];
        let named = own.iter().chain(&files).map(String::as_str);
        let options: Vec<&str> = fixed.into_iter().chain(named).chain(["-lgcc"]).collect();
        let stem = source.split('.').next().unwrap_or(source);
        program_with(source, &format!("{stem}-{}{suffix}", self.name), &options)
    }

    fn file(&self, name: &str) -> PathBuf {
        let places = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
        let mut paths = places.iter().map(|place| self.root.join(place).join(name));
        paths.find(|path| path.exists()).unwrap_or_else(|| panic!("{} has no {name}", self.name))
    }
}

//! Files that `make install` installs contain no path of the machine that built them.

use ramson_tests::Directory;
use ramson_tests::servers::ramson_program;
use ramson_tests::{library, tool};
use std::path::{Path, PathBuf};

/// Directories of the machine that builds.
fn directories() -> Vec<String> {
    let home = std::env::var("HOME").expect("cargo needs it as well");
    let cargo =
        std::env::var_os("CARGO_HOME").map_or(Path::new(&home).join(".cargo"), PathBuf::from);
    let checkout =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("it is there");
    // By itself /root is no path of this machine only.
    vec![
        format!("{home}/."),
        cargo.join("registry").display().to_string(),
        format!("{}/", checkout.display()),
    ]
}

#[test]
fn installed_files_hide_build_paths() {
    let scratch = Directory::new();
    let stripped = scratch.path().join("ramson");
    let installed =
        ["-o", stripped.to_str().expect("UTF-8"), ramson_program().to_str().expect("UTF-8")];
    tool("strip", &installed);
    for file in [stripped.as_path(), library()] {
        let content = std::fs::read(file).expect("it was just built");
        for directory in directories() {
            let is_there =
                content.windows(directory.len()).any(|bytes| bytes == directory.as_bytes());
            assert!(
                !is_there,
                "{} has {directory} in it. Is .cargo/rustc in use (RUSTC_WRAPPER unset), and was everything built since it is?",
                file.display()
            );
        }
    }
}

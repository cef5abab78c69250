//! A cache file names the version of the crate that wrote it.

fn main() {
    let manifest = std::fs::read_to_string("../Cargo.toml").expect("the main workspace");
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    println!("cargo:rustc-env=SYMBOLS_VERSION={}", version.expect("a version"));
    println!("cargo:rerun-if-changed=../Cargo.toml");
}

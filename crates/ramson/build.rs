//! `make dist` puts libramson.so into the command: RAMSON_EMBEDDED_LIBRARY names the file.

fn main() {
    println!("cargo:rerun-if-env-changed=RAMSON_EMBEDDED_LIBRARY");
    println!("cargo:rustc-check-cfg=cfg(has_library)");
    if let Ok(library) = std::env::var("RAMSON_EMBEDDED_LIBRARY") {
        println!("cargo:rerun-if-changed={library}");
        println!("cargo:rustc-cfg=has_library");
    }
}

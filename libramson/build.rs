//! Links libramson.so without any library: it must not depend on one C library version.

fn main() {
    for argument in
        ["-nostartfiles", "-nostdlib", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-soname,libramson.so"]
    {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}

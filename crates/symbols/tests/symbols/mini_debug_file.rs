//! Mini debug information: `.gnu_debugdata`, made here as Fedora's find-debuginfo makes it.

use crate::support::*;
use ramson_symbols::{SymbolDefect, SymbolSource};

/// A stripped library whose `.gnu_debugdata` has the symbols that `.dynsym` lacks. Returns addresses in `visible` (in
/// `.dynsym`) and `hidden` (not in it).
fn library_with_mini_debug_information(folder: &Folder, xz: &str) -> [u64; 2] {
    folder.write("a.c", C_SOURCE);
    folder.run("gcc -O2 -g -shared -fPIC -Wl,--build-id a.c -o a");
    let symbols = nm(folder, "a");
    let addresses = ["visible", "hidden"].map(|name| {
        let symbol = symbols.iter().find(|symbol| symbol.name == name).unwrap();
        symbol.address + symbol.size / 2
    });
    folder.write("keep", "hidden\nchosen\nresolve\n");
    folder.run("objcopy --only-keep-debug a mini");
    folder.run("objcopy -S --remove-section .comment --keep-symbols=keep mini");
    folder.run(&format!("{xz} mini"));
    folder.run("strip a");
    folder.run("objcopy --add-section .gnu_debugdata=mini.xz a");
    addresses
}

#[test]
fn mini_debug_names_hidden_functions() {
    for xz in ["xz", "xz -9e --check=crc32", "xz --block-size=4096"] {
        let folder = Folder::new();
        let addresses = library_with_mini_debug_information(&folder, xz);
        let symbolized = symbolize(&binary(&folder.path("a"), &build_id(&folder, "a")), &addresses);
        assert_eq!(functions(&symbolized), [["visible"], ["hidden"]], "{xz}");
        assert!(matches!(symbolized.source, SymbolSource::Symtab));
        assert!(matches!(symbolized.defect, Some(SymbolDefect::NoLines { .. })));
    }
}

#[test]
fn damaged_mini_debug_leaves_exports() {
    let folder = Folder::new();
    let addresses = library_with_mini_debug_information(&folder, "xz");
    let packed = std::fs::read(folder.path("mini.xz")).unwrap();
    for cut in [0, 5, packed.len() / 2, packed.len() - 1] {
        std::fs::write(folder.path("cut.xz"), &packed[..cut.max(1)]).unwrap();
        folder.run("objcopy --update-section .gnu_debugdata=cut.xz a b");
        let symbolized = symbolize(&binary(&folder.path("b"), &build_id(&folder, "b")), &addresses);
        assert_eq!(functions(&symbolized), [vec!["visible".to_owned()], vec![]], "{cut}");
        let text = symbolized.defect.unwrap().to_string();
        assert!(text.contains(".gnu_debugdata"), "{text}");
    }
}

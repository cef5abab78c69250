//! Binaries of running processes that nobody finds at their paths any more.

use crate::support::*;
use ramson_symbols::{Binary, SymbolDefect};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process of `a`, which `gcc -g FLAGS` made, with its binary and an address in it. It waits for its input to end.
struct Waiting {
    folder: Folder,
    child: Child,
    binary: Binary,
    address: u64,
}

impl Waiting {
    fn start(flags: &str, command: impl Fn(&Folder) -> Command) -> Waiting {
        let folder = Folder::new();
        let waits = "puts(\"up\"); fflush(stdout); getchar(); return visible(argc)";
        folder.write("a.c", &C_SOURCE.replace("return visible(argc)", waits));
        folder.run(&format!("gcc -include stdio.h -O2 -g -Wl,--build-id {flags} a.c -o a"));
        let symbols = nm(&folder, "a");
        let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
        let address = hidden.address + hidden.size / 2;
        let mut binary = binary(&folder.path("a"), &build_id(&folder, "a"));
        let mut command = command(&folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        binary.pid = Some(child.id());
        Waiting { folder, child, binary, address }
    }

    #[track_caller]
    fn assert_is_named(&self, binary: &Binary) {
        let found = symbolize(binary, &[self.address]);
        let expected = ["inlined".to_owned(), "hidden".to_owned()];
        assert_eq!((functions(&found), found.defect), (vec![expected.to_vec()], None));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A test that failed has said why.
        let _ = self.child.wait();
    }
}

#[test]
fn deleted_executable_is_found() {
    let mut waiting = Waiting::start("", |folder| Command::new(folder.path("a")));
    let mut binary = waiting.binary.clone();
    waiting.assert_is_named(&binary);
    waiting.folder.run("rm a");
    waiting.assert_is_named(&binary);
    binary.path += " (deleted)";
    waiting.assert_is_named(&binary);
    binary.build_id.clear();
    waiting.assert_is_named(&binary);
    drop(waiting.child.stdin.take());
    waiting.child.wait().unwrap();
    let gone = symbolize(&binary, &[waiting.address]);
    assert!(matches!(gone.defect, Some(SymbolDefect::BinaryMissing { .. })));
}

#[test]
fn replaced_executable_is_found_by_id() {
    let waiting = Waiting::start("", |folder| Command::new(folder.path("a")));
    waiting.folder.run("mv a a.old");
    waiting.assert_is_named(&waiting.binary);
    waiting.folder.run("cp /bin/true a");
    waiting.assert_is_named(&waiting.binary);
    waiting.folder.run("rm a.old");
    waiting.assert_is_named(&waiting.binary);
    // Without a build ID another name proves nothing.
    let unverifiable = Binary { build_id: String::new(), ..waiting.binary.clone() };
    waiting.folder.run("rm a");
    let missed = symbolize(&unverifiable, &[waiting.address]);
    assert!(
        matches!(missed.defect, Some(SymbolDefect::BinaryMissing { .. })),
        "{:?}",
        missed.defect
    );
}

#[test]
fn deleted_executable_in_root_is_found() {
    let waiting = Waiting::start("-static", |folder| {
        let mut command = Command::new("chroot");
        command.arg(&folder.0).arg("/a");
        command
    });
    // As the process sees it.
    let binary = Binary { path: "/a".into(), ..waiting.binary.clone() };
    waiting.assert_is_named(&binary);
    waiting.folder.run("rm a");
    waiting.assert_is_named(&binary);
}

#[test]
fn deleted_library_is_found_mapped() {
    let folder = Folder::new();
    folder.write("lib.c", &C_SOURCE.replace("int main(", "int unused("));
    folder.run("gcc -O2 -g -shared -fPIC -Wl,--build-id lib.c -o lib.so");
    let symbols = nm(&folder, "lib.so");
    let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
    let address = hidden.address + hidden.size / 2;
    let library = binary(&folder.path("lib.so"), &build_id(&folder, "lib.so"));
    let waiting = Waiting::start("", |started| {
        let mut command = Command::new(started.path("a"));
        command.env("LD_PRELOAD", folder.path("lib.so"));
        command
    });
    let library = Binary { pid: waiting.binary.pid, ..library };
    folder.run("mv lib.so lib.so.old");
    folder.run("rm lib.so.old");
    let found = symbolize(&library, &[address]);
    assert_eq!((functions(&found)[0][1].as_str(), found.defect), ("hidden", None));
}

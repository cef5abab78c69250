//! Bytes that are no profile are called by what they look like.

use crate::read;
use ramson_import::ImportError;

fn finding(bytes: &[u8]) -> String {
    match read(bytes) {
        Err(error @ (ImportError::Unrecognized(_) | ImportError::Empty)) => error.to_string(),
        other => panic!("{bytes:?}: {other:?}"),
    }
}

#[test]
fn unrecognized_bytes_are_described() {
    let mut core = b"\x7fELF\x02\x01\x01".to_vec();
    core.resize(64, 0);
    core[16] = 4;
    for (bytes, part) in [
        (&b""[..], "empty"),
        (&core, "core file"),
        (b"PERFILE2\x68\0\0\0\0\0\0\0", "perf.data"),
        (b"{\"nodes\": []}", "JSON"),
        (b"\n  <!DOCTYPE html><html>", "HTML"),
        (b"--- symbol\nbinary=/bin/x\n---\n--- profile\n", "--raw"),
        (b"desc: --detailed-freq=1\ncmd: x\n", "massif"),
        (&[0; 4096], "zeros"),
        (b"PK\x03\x04\x14\0", "zip"),
        (b"one line of prose and no more", "it looks like text"),
        (b"\x01\x02\x03\x04\x05", "01 02 03 04"),
    ] {
        let finding = finding(bytes);
        assert!(finding.contains(part), "{finding}");
    }
}

#[test]
fn source_code_is_no_stack() {
    for text in [
        "fn main() {\n    let a = 1;\n    let b = 2;\n}\n",
        "key = value; other = 1\nport 80\nlisten 443\nname x\n",
        "root:x:0:0:root:/root:/bin/bash\n",
        "# HELP go_goroutines Number of goroutines.\ngo_goroutines 9\ngo_threads 7\n",
        "nr_free_pages 4711\npgfault 12\n",
    ] {
        let finding = finding(text.as_bytes());
        assert!(finding.contains("looks like text"), "{finding}");
        assert!(!finding.contains(&text[..8]), "it may be a secret: {finding}");
    }
}

#[test]
fn cpu_profile_is_called_so() {
    let words: [u64; 5] = [0, 3, 0, 10_000, 0];
    let cpu: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(matches!(read(&cpu), Err(ImportError::OtherKind(kind)) if kind == "CPU time"));
}

#[test]
fn raw_and_future_heaptrack_are_refused() {
    let raw = read(b"v 10400 3\nx /bin/true\nm 1\n");
    assert!(matches!(raw, Err(ImportError::RawHeaptrack)));
    let future = read(b"v 20000 9\nX true\n");
    assert!(matches!(future, Err(ImportError::HeaptrackVersion(9))));
}

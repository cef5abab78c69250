//! Whatever the body of a cache file, behind a correct checksum: its answers can be used, or it counts as absent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_symbols::{Binary, FileAddress, Options, Symbolizer};

const BUILD_ID: &str = "0123456789abcdef";

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("ramson-fuzz-cache-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary directory can be written");
    let mut body = Vec::new();
    for text in [env!("SYMBOLS_VERSION"), BUILD_ID] {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text.as_bytes());
    }
    body.extend(bytes);
    let mut content = b"rmsymbol\x02\0\0\0".to_vec();
    content.extend(crc32fast::hash(&body).to_le_bytes());
    content.extend(body);
    std::fs::write(folder.join(format!("{BUILD_ID}.symbols")), content).expect("it can be written");
    let options = Options { cache_dir: Some(folder.clone()), ..Options::default() };
    let binary = Binary { path: "/nowhere".into(), build_id: BUILD_ID.into(), pid: None };
    let addresses = [0, 1, 16, 4096, u64::MAX].map(FileAddress);
    let answer = Symbolizer::new(options).symbolize(&binary, &addresses);
    assert_eq!(answer.frames.len(), addresses.len());
    std::fs::remove_dir_all(&folder).expect("it was just made");
});

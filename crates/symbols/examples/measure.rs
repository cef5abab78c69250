//! Times one question: `nm -S BINARY | awk '$3 ~ /[tT]/ {print $1}' | measure BINARY BUILD_ID [CACHE_DIR]`. The first
//! run with a cache folder is cold, the second warm.

use std::time::Instant;

use ramson_symbols::{Binary, FileAddress, Options, Symbolizer};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("path of the binary");
    let build_id = arguments.next().expect("build ID, may be empty");
    let cache_dir = arguments.next().map(Into::into);
    let parse = |line: String| u64::from_str_radix(line.trim().trim_start_matches("0x"), 16);
    let addresses = std::io::stdin().lines().map(|line| parse(line.unwrap()).unwrap());
    let addresses: Vec<FileAddress> = addresses.map(FileAddress).collect();
    let binary = Binary { path, build_id, pid: None };
    let start = Instant::now();
    let mut symbolizer = Symbolizer::new(Options { cache_dir, ..Options::default() });
    let symbolized = symbolizer.symbolize(&binary, &addresses);
    let elapsed = start.elapsed();
    let named = symbolized.frames.iter().filter(|frames| !frames.is_empty()).count();
    let frames: usize = symbolized.frames.iter().map(Vec::len).sum();
    println!("{} addresses, {named} named, {frames} frames: {elapsed:?}", addresses.len());
    println!("{:?}", symbolized.source);
    symbolized.defect.into_iter().for_each(|defect| println!("{defect}"));
}

//! Files of /proc as text.

use ramson_apart::proc;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a line of /proc/PID/maps: a path has at most 4,096 bytes, and each byte that ends lines is shown as four.
const MOST_LINE_BYTES: u64 = 32 << 10;

/// Reads a file as text and replaces what is not UTF-8: names of programs, files and mount points may be any bytes, and the kernel cuts some of them
/// in the middle of a letter.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    match path.as_ref().to_str().and_then(|path| path.strip_prefix("/proc/")) {
        Some(inner) => proc::open(inner)?.read_to_end(&mut bytes)?,
        None => File::open(path)?.read_to_end(&mut bytes)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of a file that may be too long to be kept.
pub fn lines(path: impl AsRef<Path>) -> io::Result<impl Iterator<Item = String>> {
    Ok(lines_of(BufReader::with_capacity(64 << 10, File::open(path)?)))
}

pub(crate) fn lines_of(mut text: impl BufRead) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        (&mut text)
            .take(MOST_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .ok()
            .filter(|&read| read > 0)?;
        line.pop_if(|last| *last == b'\n');
        Some(String::from_utf8_lossy(&line).into_owned())
    })
}

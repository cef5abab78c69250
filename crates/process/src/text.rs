//! Files of /proc as text.

use std::path::Path;
use std::{fs, io};

/// What is not UTF-8 is replaced: names of programs, files and mount points may be any bytes, and the kernel cuts some of them
/// in the middle of a letter.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

//! Whatever environment, auxiliary vector, /proc/self/stat and ELF notes a program starts with, libramson reads them. Lines are
//! variables; one that begins with a digit is an auxiliary entry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ffi::CString;

fuzz_target!(|bytes: &[u8]| {
    let (mut variables, mut auxiliary) = (Vec::new(), Vec::new());
    for line in bytes.split(|&byte| byte == b'\n') {
        match line {
            [kind @ b'0'..=b'9', value, ..] => {
                auxiliary.push(((kind - b'0') as usize * 5, *value as usize));
            }
            _ => variables.extend(CString::new(line)),
        }
        guest::fuzzed::read_text(line);
    }
    guest::fuzzed::read_text(bytes);
    guest::fuzzed::read_environment(&variables, &auxiliary);
});

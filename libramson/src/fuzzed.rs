//! Functions that the fuzz targets call: the parsers of bytes that libramson did not make.

use crate::config::Config;
use crate::record;
use crate::walk::{self, Place};

/// Compiles the rule for the code `distance` bytes after the unwind tables' index, which lies `index_at` bytes into `segment`.
pub fn compile_rule(segment: &[u8], index_at: u16, distance: i32) {
    let start = segment.as_ptr() as u64;
    let end = start + segment.len() as u64;
    let unwind_header = start + (index_at as u64).min(segment.len() as u64);
    let place = Place {
        start,
        end,
        unwind_header,
        unwind_start: start,
        unwind_end: end,
        code_start: start,
        code_end: end,
        generation: 1,
        is_permanent: false,
    };
    // `segment` outlives the call, which keeps nothing of it.
    walk::compile(&place, unwind_header.wrapping_add_signed(distance as i64));
}

/// Reads the settings from the initial stack of a process with these variables and auxiliary entries.
pub fn read_environment(variables: &[std::ffi::CString], auxiliary: &[(usize, usize)]) {
    let mut stack = vec![1, c"program".as_ptr() as usize, 0];
    stack.extend(variables.iter().map(|variable| variable.as_ptr() as usize));
    // The kernel's auxiliary vector is never empty; AT_PAGESZ is 6.
    stack.extend([0, 6, 4096]);
    // AT_RANDOM (25) is an address.
    let random = [7u8; 16];
    for &(kind, value) in auxiliary.iter().filter(|(kind, _)| *kind != 0) {
        stack.extend([kind, if kind == 25 { random.as_ptr() as usize } else { value }]);
    }
    stack.extend([0, 0]);
    let mut config = Config::default();
    // SAFETY: as the kernel lays it out, and nobody else knows it.
    unsafe { config.take_from_initial_stack(stack.as_ptr()) };
    assert!(config.file_bytes.is_multiple_of(4096));
}

/// Reads what the kernel or a linker wrote.
pub fn read_text(bytes: &[u8]) {
    record::start_ticks_in(bytes);
    if let Some(build_id) = walk::build_id_in(bytes) {
        assert!(build_id.len() <= 32);
    }
}

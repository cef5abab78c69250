//! `ramson mark`: keeps a profile as it is now under a name; a history of the process gets it, too.

use crate::flags::MarkFlags;
use crate::output::{print, remark};
use crate::record;
use ramson_source::{Failure, marks, open_recording};

pub fn mark(flags: &MarkFlags) -> Result<(), Failure> {
    let recording = open_recording(&flags.source.source)?;
    let path = marks::keep(&recording, &flags.name, flags.force)?;
    if let Err(failure) = record::mark(&recording, &flags.name) {
        remark(format_args!("{failure}. The mark is in {} only", path.display()));
    }
    print(&format!("{}\n", path.display()))
}

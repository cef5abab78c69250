//! `ramson mark`: keeps a profile as it is now under a name; a history of the process gets it, too.

use crate::answers::Marked;
use crate::flags::MarkFlags;
use crate::output::{print, print_json, remark};
use crate::record;
use ramson_process::clock::unix_ns;
use ramson_source::{Failure, marks, open_recording};

pub fn mark(flags: &MarkFlags) -> Result<(), Failure> {
    let recording = open_recording(&flags.source.source)?;
    let file = marks::keep(&recording, &flags.name, flags.force)?;
    let time_unix_ns = unix_ns();
    let in_history = record::mark(&recording, &flags.name).unwrap_or_else(|failure| {
        remark(format_args!("{failure}. The mark is in {} only", file.display()));
        false
    });
    if !flags.json {
        return print(&format!("{}\n", file.display()));
    }
    let (pid, name) = (recording.pid(), recording.name().to_owned());
    let mark = flags.name.clone();
    print_json("mark", &Marked { mark, pid, name, time_unix_ns, file, in_history })
}

//! `ramson snap`: one moment of a process as a profile file of its own, which is not written any more.

use crate::flags::SnapFlags;
use crate::output::print;
use crate::output_file::write_file;
use ramson_process::clock::unix_ns;
use ramson_profile::format::format_local_time;
use ramson_source::{Failure, Recording, open_recording};
use std::path::Path;

pub fn snap(flags: &SnapFlags) -> Result<(), Failure> {
    let recording = open_recording(&flags.source.source)?;
    if recording.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{}: a profile file holds one moment, not a range. Pass its end alone, or export the range",
            flags.source.source
        )));
    }
    let path = flags.output.clone().unwrap_or_else(|| file_name(&recording).into());
    write_file(&path, flags.force, |out| out.write_all(&recording.to_bytes()))?;
    if path == Path::new("-") { Ok(()) } else { print(&format!("{}\n", path.display())) }
}

fn file_name(recording: &Recording) -> String {
    let time_ns = recording.past.as_ref().map_or_else(unix_ns, |past| past.time_ns);
    let time = format_local_time(time_ns).replace([':', '-'], "");
    format!("{}-{}-{time}.ramson", recording.name().replace('/', "_"), recording.pid())
}

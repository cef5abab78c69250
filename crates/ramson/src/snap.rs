//! `ramson snap`: one moment of a process as a profile file of its own, which is not written any more.

use crate::answers::Snapped;
use crate::flags::SnapFlags;
use crate::output::{print, print_json};
use crate::output_file::{refuse_terminal, write_file};
use ramson_process::clock::unix_ns;
use ramson_profile::format::format_local_time;
use ramson_source::{Failure, Recording, open_recording};
use std::path::{Path, PathBuf};

pub fn snap(flags: &SnapFlags) -> Result<(), Failure> {
    let is_output = flags.output.as_deref() == Some(Path::new("-"));
    if is_output && flags.json {
        return Err(Failure::usage("-o -: standard output is either the profile or JSON"));
    }
    refuse_terminal(flags.output.as_deref().unwrap_or(Path::new("")), "a profile")?;
    let recording = open_recording(&flags.source.source)?;
    if recording.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{}: a profile file holds one moment, not a range. Pass its end alone, or export the range",
            flags.source.source
        )));
    }
    let time_unix_ns = recording.past.as_ref().map_or_else(unix_ns, |past| past.time_ns);
    let usual = || PathBuf::from(file_name(&recording, time_unix_ns));
    let file = flags.output.clone().unwrap_or_else(usual);
    let content = recording.to_bytes();
    write_file(&file, flags.force, |out| out.write_all(&content))?;
    if is_output {
        return Ok(());
    }
    if !flags.json {
        return print(&format!("{}\n", file.display()));
    }
    let (pid, name) = (recording.pid(), recording.name().to_owned());
    print_json("snap", &Snapped { pid, name, time_unix_ns, file, bytes: content.len() as u64 })
}

fn file_name(recording: &Recording, time_unix_ns: u64) -> String {
    let time = format_local_time(time_unix_ns).replace([':', '-'], "");
    format!("{}-{}-{time}.ramson", recording.name().replace('/', "_"), recording.pid())
}

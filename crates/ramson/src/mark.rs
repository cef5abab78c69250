//! `ramson mark`: keeps one moment of a process, under a name that a history of the process gets too, or in a file of its own.

use crate::answers::Marked;
use crate::flags::MarkFlags;
use crate::history;
use crate::output::{print, print_json, remark};
use crate::output_file::{refuse_terminal, write_file};
use ramson_process::clock::unix_ns;
use ramson_profile::printable;
use ramson_source::{Failure, Recording, marks, open_recording};
use std::path::{Path, PathBuf};

pub fn mark(flags: &MarkFlags) -> Result<(), Failure> {
    let is_printed = flags.output.as_deref() == Some(Path::new("-"));
    if is_printed && flags.json {
        return Err(Failure::usage("-o -: cannot be combined with --json. Leave one out"));
    }
    refuse_terminal(flags.output.as_deref().unwrap_or(Path::new("")), "a profile")?;
    let recording = open_recording(&flags.source.source)?;
    let marked = match (&flags.name, &flags.output) {
        (Some(name), _) => keep(&recording, name, flags.force)?,
        (None, Some(file)) => write(&recording, file, flags)?,
        (None, None) => unreachable!("one of the two is required"),
    };
    if is_printed {
        Ok(())
    } else if flags.json {
        print_json("mark", &marked)
    } else {
        print(&(printable(&marked.file.display().to_string()) + "\n"))
    }
}

fn keep(recording: &Recording, name: &str, force: bool) -> Result<Marked, Failure> {
    let file = marks::keep(recording, name, force)?;
    let time_unix_ns = unix_ns();
    let in_history = history::mark(recording, name).unwrap_or_else(|failure| {
        remark(format_args!("{failure}. The mark is in {} only", file.display()));
        false
    });
    Ok(Marked { in_history, ..marked(recording, Some(name), time_unix_ns, file) })
}

fn write(recording: &Recording, file: &Path, flags: &MarkFlags) -> Result<Marked, Failure> {
    if recording.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{}: a profile file holds one moment, not a range. Pass its end alone, or export the range",
            flags.source.source
        )));
    }
    let time_unix_ns = recording.past.as_ref().map_or_else(unix_ns, |past| past.time_ns);
    let content = recording.to_bytes();
    write_file(file, flags.force, |out| out.write_all(&content))?;
    Ok(marked(recording, None, time_unix_ns, file.to_owned()))
}

fn marked(recording: &Recording, name: Option<&str>, time_unix_ns: u64, file: PathBuf) -> Marked {
    Marked {
        mark: name.map(str::to_owned),
        pid: recording.pid(),
        name: recording.name().to_owned(),
        time_unix_ns,
        file,
        in_history: false,
    }
}

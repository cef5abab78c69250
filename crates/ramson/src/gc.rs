//! `ramson gc`: a Go program's collections, and which stacks make the collector work.

use crate::flags::GcFlags;
use crate::output::{hint, print, print_json};
use crate::table;
use ramson_analysis::gc::{Gc, of_trace, watch};
use ramson_analysis::question::Question;
use ramson_profile::format::format_duration;
use ramson_source::Failure;
use signal_hook::consts::signal::SIGINT;
use signal_hook::flag;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Of a text with gctrace's lines.
const MOST_BYTES: u64 = 256 << 20;

pub fn gc(flags: &GcFlags) -> Result<(), Failure> {
    // What was seen until then is printed. Behind a pipe, the program that Ctrl-C ends closes it.
    let is_stopped = Arc::new(AtomicBool::new(false));
    flag::register(SIGINT, is_stopped.clone())
        .map_err(|error| Failure::failed(error.to_string()))?;
    let found = match &*flags.source {
        "-" => traced("standard input", stdin())?,
        path if Path::new(path).is_file() => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            traced(path, file)?
        }
        _ => {
            hint(&format!("watching for {}", format_duration(flags.window)));
            let window = Duration::from_nanos(flags.window);
            watch(&question(flags), window, &|| is_stopped.load(Ordering::Relaxed))?
        }
    };
    if flags.json {
        return print_json("gc", &found);
    }
    print(&table::gc::text(&found, flags.rows))
}

fn question(flags: &GcFlags) -> Question {
    Question {
        sources: vec![flags.source.clone()],
        names: flags.names.names(),
        selection: flags.frames.selection(&flags.filters),
        rows: flags.rows,
        ..Question::default()
    }
}

fn traced(origin: &str, from: impl Read) -> Result<Gc, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(origin, &error))?;
    of_trace(origin, &String::from_utf8_lossy(&bytes))
}

fn unreadable(origin: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{origin}: {error}"))
}

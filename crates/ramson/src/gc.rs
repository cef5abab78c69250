//! `ramson gc`: a Go program's collections, and which stacks make the collector work.

mod live;

use crate::flags::GcFlags;
use crate::output::{hint, print, print_json, remark};
use crate::table;
use ramson_analysis::gc::{Gc, of_trace, watch};
use ramson_analysis::question::Question;
use ramson_profile::format::format_duration;
use ramson_source::Failure;
use signal_hook::consts::signal::SIGINT;
use signal_hook::flag;
use std::env;
use std::fs::File;
use std::io::{IsTerminal, Read, stdin, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Of a text with gctrace's lines.
const MOST_BYTES: u64 = 256 << 20;

/// How long a process is watched if nothing is said.
const WINDOW: Duration = Duration::from_secs(10);

/// Whether there is a terminal on which a picture can be drawn.
fn is_screen() -> bool {
    stdout().is_terminal() && env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}

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
        _ if flags.window.is_none() && !flags.json && is_screen() => {
            let (found, has_ended) = live::show(&question(flags))?;
            print(&table::gc::text(&found, flags.rows))?;
            if has_ended {
                remark("the process has ended");
            }
            return Ok(());
        }
        _ => {
            let window = flags.window.map_or(WINDOW, Duration::from_nanos);
            hint(&format!("watching for {}", format_duration(window.as_nanos() as u64)));
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

//! Debug files from debuginfod servers, by build ID. Every server, file and wait is bounded; a file is used only if its
//! build ID is the one that was asked for.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::binary::is_build_id;
use crate::defect::SymbolDefect;
use crate::elf::ElfFile;
use crate::evict::{TEMPORARY, evict, touch};

/// Debug files kept on disk, all together.
const MAX_TOTAL_BYTES: u64 = 4 << 30;
/// A server that is there answers the knock at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// So long it is taken for granted that the servers still do not have a file.
const MISS_AGE: Duration = Duration::from_secs(600);
const DEBUG_FILE: &str = "debug";
const MISS: &str = "missing";
const MAX_REDIRECTS: u32 = 5;

/// Servers to ask, where to keep what they send, and how much of it.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// As in `DEBUGINFOD_URLS`: `http://host:8002` or `https://…`, best first.
    pub urls: Vec<String>,
    /// Folder for what was fetched, and for what the servers did not have.
    pub folder: PathBuf,
    /// Longest silence of a server.
    pub timeout: Duration,
    /// All waiting together, over the life of the symbolizer.
    pub max_wait: Duration,
    /// A larger file is not fetched.
    pub max_file_bytes: u64,
    /// Called with the address before a file is fetched; it may take a while.
    pub on_fetch: Option<fn(&str)>,
}

/// The servers, and what is known of them.
pub(crate) struct Servers {
    options: ServerOptions,
    agent: ureq::Agent,
    waited: Duration,
    /// Servers that failed are not asked again.
    is_down: Vec<bool>,
    /// Misses of this run; those of earlier ones are in the folder.
    missed: HashMap<String, Instant>,
    /// One for each server that failed.
    pub failures: Vec<SymbolDefect>,
}

enum Answer {
    File,
    NotThere,
    Failed(String),
}

impl Servers {
    pub fn new(options: ServerOptions) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT.min(options.timeout)))
            .timeout_recv_response(Some(options.timeout))
            .timeout_per_read(Some(options.timeout))
            .max_redirects(MAX_REDIRECTS)
            .http_status_as_error(false)
            .user_agent(concat!("ramson/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let is_down = vec![false; options.urls.len()];
        let (waited, missed) = (Duration::ZERO, HashMap::new());
        Self { options, agent, waited, is_down, missed, failures: Vec::new() }
    }

    /// Where the debug file with this build ID is kept, if it was fetched.
    pub fn place(&self, build_id: &str) -> Option<PathBuf> {
        is_build_id(build_id).then(|| self.path(build_id, DEBUG_FILE))
    }

    /// Whether asking for this build ID may bring something new.
    pub fn may_know(&self, build_id: &str) -> bool {
        is_build_id(build_id)
            && self.is_down.contains(&false)
            && self.waited < self.options.max_wait
            && !self.path(build_id, DEBUG_FILE).exists()
            && self.missed.get(build_id).is_none_or(|then| then.elapsed() >= MISS_AGE)
            && !is_recent(&self.path(build_id, MISS))
    }

    /// The debug file with this build ID: from the folder, else from the first server that has it.
    pub fn fetch(&mut self, build_id: &str) -> Option<PathBuf> {
        let path = self.place(build_id)?;
        if path.exists() {
            touch(&path);
            return Some(path);
        }
        if !self.may_know(build_id) {
            return None;
        }
        let mut is_missing_everywhere = true;
        for index in 0..self.options.urls.len() {
            let left = self.options.max_wait.saturating_sub(self.waited);
            if self.is_down[index] || left.is_zero() {
                is_missing_everywhere = false;
                continue;
            }
            let url = self.options.urls[index].trim_end_matches('/').to_owned();
            let start = Instant::now();
            let answer = self.ask(&format!("{url}/buildid/{build_id}/debuginfo"), build_id, left);
            self.waited += start.elapsed();
            match answer {
                Answer::File => {
                    evict(&self.options.folder, DEBUG_FILE, MAX_TOTAL_BYTES);
                    return Some(path);
                }
                Answer::NotThere => {}
                Answer::Failed(reason) => {
                    is_missing_everywhere = false;
                    self.is_down[index] = true;
                    self.failures.push(SymbolDefect::ServerFailed { url, reason });
                }
            }
        }
        if is_missing_everywhere {
            self.missed.insert(build_id.to_owned(), Instant::now());
            let miss = self.path(build_id, MISS);
            let _ = self.make_folder().and_then(|()| File::create(miss));
        }
        None
    }

    fn ask(&self, address: &str, build_id: &str, left: Duration) -> Answer {
        if let Some(on_fetch) = self.options.on_fetch {
            on_fetch(address);
        }
        let request = self.agent.get(address).config().timeout_global(Some(left)).build();
        let mut response = match request.call() {
            Ok(response) => response,
            Err(error) => return Answer::Failed(said(&error)),
        };
        match response.status().as_u16() {
            200 => {}
            404 => return Answer::NotThere,
            status => return Answer::Failed(format!("it answered {status}")),
        }
        if response.body().content_length().is_some_and(|bytes| bytes > self.options.max_file_bytes)
        {
            return Answer::NotThere;
        }
        self.keep(response.body_mut().as_reader(), build_id)
    }

    /// Writes another file, checks it and renames it, so that a part or a wrong one is never seen.
    fn keep(&self, body: impl Read, build_id: &str) -> Answer {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{build_id}.{}.{count}.{TEMPORARY}", std::process::id());
        let temporary = self.options.folder.join(name);
        let kept = self.write(body, &temporary).and_then(|is_whole| {
            let is_it =
                is_whole && ElfFile::open(&temporary).is_ok_and(|file| file.build_id == build_id);
            if is_it {
                fs::rename(&temporary, self.path(build_id, DEBUG_FILE))?;
            }
            Ok(is_it)
        });
        if !matches!(kept, Ok(true)) {
            let _ = fs::remove_file(&temporary);
        }
        match kept {
            Ok(true) => Answer::File,
            Ok(false) => Answer::NotThere,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    /// Whether `body` ended within the bound.
    fn write(&self, body: impl Read, path: &Path) -> io::Result<bool> {
        self.make_folder()?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        let most = self.options.max_file_bytes;
        let count = io::copy(&mut body.take(most.saturating_add(1)), &mut file)?;
        file.flush()?;
        Ok(count <= most)
    }

    fn make_folder(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.options.folder)
    }

    fn path(&self, build_id: &str, extension: &str) -> PathBuf {
        self.options.folder.join(format!("{build_id}.{extension}"))
    }
}

fn is_recent(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age < MISS_AGE)
}

fn said(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        other => other.to_string(),
    }
}

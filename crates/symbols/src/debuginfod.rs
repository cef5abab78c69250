//! Debug files from debuginfod servers, by build ID. Every server, file and wait is bounded; a file is used only if its
//! build ID is the one that was asked for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::defect::SymbolDefect;
use crate::elf::ElfFile;
use crate::folder::{Folder, touch};
use crate::rooted::{Readers, RootedPath};

/// A server that is there answers the knock at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a miss counts: ramson takes it for granted that the servers still do not have the file.
const MISS_AGE: Duration = Duration::from_secs(600);
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
    files: Folder,
    agent: ureq::Agent,
    waited: Duration,
    /// Servers that failed are not asked again.
    is_down: Vec<bool>,
    /// One for each server that failed.
    pub failures: Vec<SymbolDefect>,
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
        let path = options.folder.clone();
        let files = Folder { path, extension: "debug", max_total_bytes: 4 << 30 };
        Self { options, files, agent, waited: Duration::ZERO, is_down, failures: Vec::new() }
    }

    /// Path of the debug file with this build ID. The file exists only if it was fetched. `None`: not a build ID.
    pub fn place(&self, build_id: &str) -> Option<PathBuf> {
        self.files.place(build_id)
    }

    /// Whether asking for this build ID may bring something new.
    pub fn may_know(&self, build_id: &str) -> bool {
        self.is_down.contains(&false)
            && self.waited < self.options.max_wait
            && self.place(build_id).is_some_and(|path| !path.exists() && !is_recent(&miss(&path)))
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
                Ok(true) => {
                    self.files.evict();
                    return Some(path);
                }
                Ok(false) => {}
                Err(reason) => {
                    is_missing_everywhere = false;
                    self.is_down[index] = true;
                    self.failures.push(SymbolDefect::ServerFailed { url, reason });
                }
            }
        }
        if is_missing_everywhere
            && let Err(error) = self.files.make().and_then(|()| File::create(miss(&path)))
        {
            // A folder that cannot take the miss cannot take a file either: there is no use in asking for more.
            self.is_down.fill(true);
            let url = self.options.urls[0].clone();
            self.failures.push(SymbolDefect::ServerFailed { url, reason: error.to_string() });
        }
        None
    }

    /// Whether the file is in the folder now; an error if the server, or keeping the file, failed.
    fn ask(&self, address: &str, build_id: &str, left: Duration) -> Result<bool, String> {
        if let Some(on_fetch) = self.options.on_fetch {
            on_fetch(address);
        }
        let request = self.agent.get(address).config().timeout_global(Some(left)).build();
        let mut response = request.call().map_err(|error| said(&error))?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(false),
            status => return Err(format!("it answered {status}")),
        }
        if response.body().content_length().is_some_and(|bytes| bytes > self.options.max_file_bytes)
        {
            return Ok(false);
        }
        self.keep(response.body_mut().as_reader(), build_id).map_err(|error| error.to_string())
    }

    /// Keeps the file if it is whole and has this build ID.
    fn keep(&self, body: impl Read, build_id: &str) -> io::Result<bool> {
        let mut file = self.files.temporary()?;
        let most = self.options.max_file_bytes;
        let count = io::copy(&mut body.take(most.saturating_add(1)), &mut file)?;
        let is_it = count <= most
            && ElfFile::open(&RootedPath::here(file.path()), Readers::Caller)
                .is_ok_and(|found| found.build_id == build_id);
        if is_it && let Some(path) = self.place(build_id) {
            file.persist(path)?;
        }
        Ok(is_it)
    }
}

/// A file whose age says when no server had the debug file at `path`.
fn miss(path: &Path) -> PathBuf {
    path.with_extension("missing")
}

fn is_recent(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < MISS_AGE))
}

fn said(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        other => other.to_string(),
    }
}

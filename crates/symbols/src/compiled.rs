//! Names of code that the runtime of one process compiled: which maps are its own, and who reads them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, NOBODY, Owner, for_owner, for_process, for_told_root};
use ramson_paths::{Refusal, RegularFile};

use crate::address::RuntimeAddress;
use crate::asked::COMPILED_NAMES;
use crate::defect::SymbolDefect;
use crate::perf_map::{
    MAX_BYTES, MAX_NAME_BYTES, MAX_STRANGER_BYTES, PerfMap, REPLACED, SeenAddress,
};
use crate::rooted::{NotedRoot, RootedPath};

/// The process that wrote the map, as its profile and the kernel know it.
#[derive(Clone, Debug)]
pub struct JitProcess {
    /// Its number here, if it still runs.
    pub running: Option<u32>,
    /// Its number in its own PID namespace, by which it names the file.
    pub own_pid: u32,
    /// Its user: only it and root may tell names.
    pub owner: Owner,
    /// Its root directory, if it has ended and had another than ours.
    pub root: Option<NotedRoot>,
    /// When it was first known to run; an older map is of an earlier process with this number.
    pub start: SystemTime,
    /// When it was last known to run; a map made later is of a later process. Not looked at while it runs.
    pub last: SystemTime,
}

/// Names by address; of those that have one.
pub type CompiledNames = HashMap<RuntimeAddress, Arc<str>>;

/// The names at these addresses by the map of this process. `Ok(None)`: it wrote none.
pub fn compiled_names(
    process: &JitProcess,
    addresses: &[SeenAddress],
) -> Result<Option<CompiledNames>, SymbolDefect> {
    let question = Compiled::of(process, addresses.to_vec());
    let told = match owner_of(process) {
        None => question.told(),
        Some(by) => match question.ask(&by) {
            // The runtime's host may have written it here.
            Ok(Ok(None)) => {
                question.told_of(process.running.map(map_of).map(|map| RootedPath::here(&map)))
            }
            Ok(told) => told,
            Err(failure) => {
                let path = map_of(process.own_pid);
                Err(SymbolDefect::PerfMapRefused { path, reason: failure.to_string() })
            }
        },
    };
    let named = |names: Vec<String>| {
        let named = addresses.iter().zip(names).filter(|(_, name)| !name.is_empty());
        named.map(|(seen, name)| (RuntimeAddress(seen.address), name.into())).collect()
    };
    Ok(told?.map(named))
}

/// Who reads what the owner of the process has. `None`: this process does.
fn owner_of(process: &JitProcess) -> Option<Apart> {
    match (process.running, &process.root) {
        (Some(pid), _) => for_process(pid),
        (None, Some(root)) => for_told_root(root.owner.unwrap_or(NOBODY), &root.path),
        (None, None) => for_owner(process.owner),
    }
}

/// Question for names of compiled code, to who may read the map.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Compiled {
    running: Option<u32>,
    own_pid: u32,
    owner: Owner,
    root: Option<NotedRoot>,
    /// Nanoseconds since 1970.
    start_ns: i128,
    last_ns: i128,
    addresses: Vec<SeenAddress>,
}

/// A name for each address, which may be empty; `None`: there is no map.
pub(crate) type Told = Result<Option<Vec<String>>, SymbolDefect>;

impl Compiled {
    fn of(process: &JitProcess, addresses: Vec<SeenAddress>) -> Self {
        let JitProcess { running, own_pid, owner, ref root, start, last } = *process;
        let ns = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let [start_ns, last_ns] = [start, last].map(|at| ns(at) as i128);
        // A worker is within it.
        let root = root.clone().filter(|root| for_owner(root.owner.unwrap_or(NOBODY)).is_none());
        Self { running, own_pid, owner, root, start_ns, last_ns, addresses }
    }

    /// The answer, by this process.
    pub fn told(&self) -> Told {
        self.told_of(self.places())
    }

    fn told_of(&self, places: impl IntoIterator<Item = RootedPath>) -> Told {
        let mut refusal = None;
        for place in places {
            match self.read(&place) {
                Ok(None) => {}
                Ok(names) => return Ok(names),
                Err(reason) => {
                    refusal = Some(SymbolDefect::PerfMapRefused { path: place.shown(), reason });
                }
            }
        }
        refusal.map_or(Ok(None), Err)
    }

    /// The answer of a worker.
    fn ask(&self, by: &Apart) -> Result<Told, Failure> {
        let told: Told = by.ask_for(COMPILED_NAMES, self)?;
        Some(told).filter(|told| self.is_answer(told)).ok_or(Failure::BadAnswer)
    }

    /// Whether it can be the answer.
    fn is_answer(&self, told: &Told) -> bool {
        let is_name = |name: &String| name.len() <= MAX_NAME_BYTES * REPLACED;
        match told {
            Ok(Some(names)) => names.len() == self.addresses.len() && names.iter().all(is_name),
            Ok(None) | Err(_) => true,
        }
    }

    fn places(&self) -> Vec<RootedPath> {
        let own = map_of(self.own_pid);
        match (self.running, &self.root) {
            // In its own mount namespace, by its own number; else the runtime's host wrote it here.
            (Some(pid), _) => {
                vec![RootedPath::in_process(pid, &own), RootedPath::here(&map_of(pid))]
            }
            (None, Some(root)) => vec![RootedPath::told(root, &own)],
            (None, None) => vec![RootedPath::here(&own)],
        }
    }

    /// Names by the map at `place`. `Ok(None)`: no map of this very process is there; `Err`: why the map is not used.
    fn read(&self, place: &RootedPath) -> Result<Option<Vec<String>>, String> {
        let RegularFile { file, facts, .. } = match place.open_itself() {
            Ok(found) => found,
            Err(Refusal::Missing) => return Ok(None),
            Err(refusal) => return Err(refusal.to_string()),
        };
        if ![self.owner.user, 0].contains(&facts.owner.user) {
            return Err(format!("it belongs to {}, not to the program's user", facts.owner));
        }
        // The owner's worker has read it.
        if for_owner(facts.owner).is_some() {
            return Ok(None);
        }
        // Process numbers come again, and maps stay behind.
        let is_old = facts.modified_ns < self.start_ns;
        let is_later = self.running.is_none() && facts.created_ns > self.last_ns;
        if is_old || is_later {
            return Ok(None);
        }
        let most = if facts.is_trusted() { MAX_BYTES } else { MAX_STRANGER_BYTES };
        if facts.bytes > most {
            return Err(format!("it is larger than {} MiB", most >> 20));
        }
        let map = PerfMap::read(file, most).map_err(|error| error.to_string())?;
        Ok(Some(map.find(&self.addresses).into_iter().map(Cow::into_owned).collect()))
    }
}

fn map_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_large_map_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "10 4 a\n").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(MAX_STRANGER_BYTES + 1).unwrap();
        let process = |uid| JitProcess {
            running: None,
            own_pid: 1,
            owner: Owner::of_user(uid),
            root: None,
            start: SystemTime::UNIX_EPOCH,
            last: SystemTime::now() + std::time::Duration::from_secs(60),
        };
        let read = |uid| {
            Compiled::of(
                &process(uid),
                vec![SeenAddress { address: 0x10, first_ns: 1, last_ns: 1 }],
            )
            .read(&RootedPath::here(&path))
        };
        let names = read(rustix::process::geteuid().as_raw()).unwrap().unwrap();
        assert_eq!(names, ["a"]);
        std::os::unix::fs::chown(&path, Some(1501), None).expect("this test runs as root");
        assert_eq!(read(1501).err().as_deref(), Some("it is larger than 64 MiB"));
    }
}

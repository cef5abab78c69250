//! Names of code that a runtime compiled while the program ran, from `perf-PID.map`: a line `START SIZE NAME` per function,
//! numbers in hex. node writes one with `--perf-basic-prof`, Python 3.12 with `-X perf`, Java with an agent.

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::address::RuntimeAddress;
use crate::defect::SymbolDefect;

/// What lies beyond is not read; a line takes about 60 bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Further lines are not read either.
const MAX_FUNCTIONS: usize = 4 << 20;
/// A longer name is cut: no runtime's name is that long.
const MAX_NAME_BYTES: usize = 4 << 10;

/// The process that wrote the map, as its profile and the kernel know it.
#[derive(Clone, Debug)]
pub struct JitProcess {
    /// Its number here, if it still runs.
    pub running: Option<u32>,
    /// Its number in its own PID namespace, by which it names the file.
    pub own_pid: u32,
    /// Its user: nobody else but root may tell names.
    pub uid: u32,
    /// When it was first known to run; an older map is of an earlier process with this number.
    pub start: SystemTime,
    /// When it was last known to run; a map made later is of a later process. Not looked at while it runs.
    pub last: SystemTime,
}

/// Names by runtime address.
#[derive(Default)]
pub struct PerfMap {
    /// By start, without overlaps: end and name.
    functions: BTreeMap<u64, (u64, Arc<str>)>,
}

impl PerfMap {
    /// The map of this process. `Ok(None)`: it wrote none.
    pub fn of(process: &JitProcess) -> Result<Option<Self>, SymbolDefect> {
        let mut refusal = None;
        for path in places(process) {
            match read(&path, process) {
                Ok(None) => {}
                Ok(map) => return Ok(map),
                Err(reason) => refusal = Some(SymbolDefect::PerfMapRefused { path, reason }),
            }
        }
        refusal.map_or(Ok(None), Err)
    }

    /// From the content of a map. Of two functions at one address the later stands: runtimes use addresses again. Lines of
    /// another form are left out.
    pub fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for (start, end, name) in text.lines().filter_map(function).take(MAX_FUNCTIONS) {
            map.insert(start, end, name);
        }
        map
    }

    /// The function at a runtime address.
    pub fn find(&self, RuntimeAddress(address): RuntimeAddress) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    fn insert(&mut self, start: u64, end: u64, name: &str) {
        // Each function is removed at most once, so this takes no longer than all insertions together.
        while let Some((&old_start, &(old_end, _))) = self.functions.range(..end).next_back()
            && old_end > start
            && let Some((_, old)) = self.functions.remove(&old_start)
        {
            if old_end > end {
                self.functions.insert(end, (old_end, old.clone()));
            }
            if old_start < start {
                self.functions.insert(old_start, (start, old));
            }
        }
        self.functions.insert(start, (end, name.into()));
    }
}

/// Start, end and name.
fn function(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number(start)?, number(size)?);
    let end = start.checked_add(size).filter(|&end| end > start)?;
    let most = name.len().min(MAX_NAME_BYTES);
    let name = &name[..(0..=most).rev().find(|&at| name.is_char_boundary(at))?];
    (!name.is_empty()).then_some((start, end, name))
}

fn places(process: &JitProcess) -> Vec<PathBuf> {
    let own = format!("tmp/perf-{}.map", process.own_pid);
    match process.running {
        // In its own mount namespace, by its own number; else the runtime's host wrote it here.
        Some(pid) => vec![
            PathBuf::from(format!("/proc/{pid}/root/{own}")),
            PathBuf::from(format!("/tmp/perf-{pid}.map")),
        ],
        None => vec![Path::new("/").join(own)],
    }
}

/// The map, if there is one and it is this process's own; or why it is not used.
fn read(path: &Path, process: &JitProcess) -> Result<Option<PerfMap>, String> {
    // The directory is everybody's: somebody may have put a link or a FIFO there.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".into());
    }
    if metadata.uid() != process.uid && metadata.uid() != 0 {
        return Err(format!("it belongs to user {}, not to the program's", metadata.uid()));
    }
    if !is_of_its_life(&metadata, process) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    // The runtime may be in the middle of a line.
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    Ok(Some(PerfMap::parse(&String::from_utf8_lossy(&bytes[..whole]))))
}

/// Process numbers come again, and maps stay behind.
fn is_of_its_life(metadata: &Metadata, process: &JitProcess) -> bool {
    let is_old = metadata.modified().is_ok_and(|modified| modified < process.start);
    let is_later =
        process.running.is_none() && metadata.created().is_ok_and(|created| created > process.last);
    !is_old && !is_later
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, addresses: impl IntoIterator<Item = u64>) -> Vec<String> {
        let map = PerfMap::parse(text);
        addresses
            .into_iter()
            .map(|at| map.find(RuntimeAddress(at)).unwrap_or("-").to_owned())
            .collect()
    }

    #[test]
    fn maps_of_node_python_and_java_are_read() {
        let text = "7f0010 20 LazyCompile:*total /srv/app.js:3:15\n\
                    0x7f0040 0x10 py::handle request:/srv/app.py\n\
                    7F0060 8 Lcom/example/Main;::run\n";
        assert_eq!(
            names(text, [0x7f_0010, 0x7f_002f, 0x7f_0030, 0x7f_004f, 0x7f_0067]),
            [
                "LazyCompile:*total /srv/app.js:3:15",
                "LazyCompile:*total /srv/app.js:3:15",
                "-",
                "py::handle request:/srv/app.py",
                "Lcom/example/Main;::run"
            ]
        );
    }

    #[test]
    fn a_later_function_stands_where_an_earlier_one_was() {
        // The old one keeps what is left of it on both sides; whole old ones go.
        assert_eq!(
            names("10 10 a\n14 4 b\n", [0x10, 0x13, 0x14, 0x17, 0x18, 0x1f]),
            ["a", "a", "b", "b", "a", "a"]
        );
        assert_eq!(names("10 4 a\n14 4 b\n18 4 c\n12 8 d\n", 0x10..0x1c).join(""), "aaddddddddcc");
        assert_eq!(names("10 4 a\n10 4 b\n", [0x10, 0x13]), ["b", "b"]);
        assert_eq!(names("10 4 a\n0 40 b\n", [0x10, 0x3f]), ["b", "b"]);
    }

    #[test]
    fn it_agrees_with_a_table_of_every_address() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut table = vec!["-".to_owned(); 300];
        let mut text = String::new();
        for index in 0..400 {
            let (start, size) = (random(250), 1 + random(40));
            text += &format!("{start:x} {size:x} f{index}\n");
            table[start as usize..(start + size) as usize].fill(format!("f{index}"));
        }
        assert_eq!(names(&text, 0..300), table);
    }

    #[test]
    fn lines_of_another_form_name_nothing() {
        let text =
            "\n10\n10 4\n10 4 \nzz 4 a\n10 0 a\nffffffffffffffff 4 a\n-1 4 a\n 10 4 a\n20 4 b\n";
        assert_eq!(names(text, [0x10, 0xffff_ffff_ffff_ffff, 0x20]), ["-", "-", "b"]);
    }
}

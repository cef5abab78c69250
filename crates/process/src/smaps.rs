//! One reading of /proc/PID/smaps, by a worker if it is another user's, and the kernel's total beside it.

use crate::areas::{self, Area};
use crate::asked::AREAS;
use crate::{clock, stat, watched};
use ramson_apart::{Failure, proc};
use std::io::Result;

/// Times that smaps is read until it agrees with the total …
const MOST_READINGS: u32 = 4;
/// … unless that has taken so long already: a process may have very many areas.
const MOST_READING_NS: u64 = 1_000_000_000;

/// The areas of process `pid`, in the order of their addresses.
pub fn read_smaps(pid: u32) -> Result<Vec<Area>> {
    match watched::owner_of(pid)? {
        None => areas::parse_file(proc::open(&format!("{pid}/smaps"))?),
        Some(by) => {
            let areas = by.ask_for(AREAS, &pid);
            let areas: Vec<Area> = areas.map_err(|failure| watched::noted(pid, failure))?;
            Ok(Some(areas).filter(|areas| areas::are_possible(areas)).ok_or(Failure::BadAnswer)?)
        }
    }
}

/// The areas of a process, and what they must add up to.
pub struct Areas {
    /// In the order of their addresses.
    pub all: Vec<Area>,
    /// Resident bytes that the kernel counts: the sum of the areas, if that is settled.
    pub rss: u64,
    /// The sum lies between the kernel's total right before the reading and right after it.
    pub is_settled: bool,
}

/// Reads the areas between two totals, again while their sum lies outside of these: each area is counted at a moment of its own. `is_quick`:
/// reads them once, without totals.
pub fn read_areas(pid: u32, is_quick: bool) -> Result<Areas> {
    if is_quick {
        let all = read_smaps(pid)?;
        return Ok(Areas { rss: all.iter().map(|area| area.rss).sum(), all, is_settled: true });
    }
    let begin_ns = clock::thread_cpu_ns();
    let mut before = rollup(pid);
    let mut readings = 0;
    loop {
        readings += 1;
        let all = read_smaps(pid)?;
        let sum = all.iter().map(|area| area.rss).sum();
        let after = if before == Some(sum) { before } else { rollup(pid) };
        let Some((first, last)) = before.zip(after) else {
            return Ok(Areas { all, rss: sum, is_settled: true });
        };
        if (first.min(last)..=first.max(last)).contains(&sum) {
            return Ok(Areas { all, rss: sum, is_settled: true });
        }
        let has_taken_long = clock::thread_cpu_ns() - begin_ns > MOST_READING_NS;
        if readings == MOST_READINGS || has_taken_long {
            return Ok(Areas { all, rss: last, is_settled: false });
        }
        before = after;
    }
}

/// The kernel's total of process `pid`; `None` where it does not tell.
fn rollup(pid: u32) -> Option<u64> {
    watched::lines(pid, "smaps_rollup").ok()?.find_map(|line| stat::bytes(&line, "Rss"))
}

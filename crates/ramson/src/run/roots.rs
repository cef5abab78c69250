//! Notes the root directories of the program and its descendants while they run, as long as these are not ours.

use ramson_process::processes;
use ramson_source::note_root_of;
use std::collections::HashSet;

#[derive(Default)]
pub struct Roots {
    /// Processes whose profiles say it.
    noted: HashSet<u32>,
}

impl Roots {
    /// Descendants take a look at every process of the machine, the program alone some microseconds.
    pub fn look(&mut self, program: u32, with_descendants: bool) {
        let all = if with_descendants { processes::tree(program) } else { vec![program] };
        for pid in all {
            if !self.noted.contains(&pid) && note_root_of(pid) {
                self.noted.insert(pid);
            }
        }
    }
}

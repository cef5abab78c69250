//! Notes the root directories of the program and its descendants while they run, as long as these are not ours.

use ramson_process::processes;
use ramson_source::note_root_of;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Default)]
pub struct Roots {
    /// The profiles that say it.
    pub noted: BTreeSet<PathBuf>,
}

impl Roots {
    /// Descendants take a look at every process of the machine, the program alone some microseconds.
    pub fn look(&mut self, program: u32, with_descendants: bool) {
        let all = if with_descendants { processes::tree(program) } else { vec![program] };
        // Each time anew: after an exec it has another profile.
        self.noted.extend(all.into_iter().filter_map(note_root_of));
    }
}

//! What a look into a process's memory tells of its areas.

use crate::areas::Area;
use crate::padding::padding;
use crate::process_memory::ProcessMemory;
use crate::stacks::Stacks;
use crate::variables::ends_of_variables;

/// Facts seen in memory in addition to the allocator's statistics.
#[derive(Default)]
pub struct Sight {
    /// The threads' stacks.
    pub stacks: Stacks,
    /// Bytes of zeros in huge pages, by the starts of their areas, ascending.
    pub padding: Vec<(u64, u64)>,
    /// Ends of the variables that areas begin with, by the starts of these areas, ascending.
    pub variables: Vec<(u64, u64)>,
}

impl Sight {
    pub(crate) fn of(memory: &ProcessMemory, areas: &[Area]) -> Self {
        let padding = areas.iter().map(|area| (area.start, padding(memory, area)));
        Self {
            stacks: Stacks::of(memory, areas),
            padding: padding.filter(|&(_, bytes)| bytes > 0).collect(),
            variables: ends_of_variables(memory, areas),
        }
    }

    /// Bytes of zeros in the huge pages of an area.
    pub fn padding_of(&self, area: &Area) -> u64 {
        of_area(&self.padding, area).unwrap_or(0)
    }

    /// Returns the end of the variables that an area begins with; `None` if that end is not known.
    pub fn end_of_variables(&self, area: &Area) -> Option<u64> {
        of_area(&self.variables, area)
    }
}

fn of_area(all: &[(u64, u64)], area: &Area) -> Option<u64> {
    let found = all.binary_search_by_key(&area.start, |&(start, _)| start);
    found.ok().map(|index| all[index].1)
}

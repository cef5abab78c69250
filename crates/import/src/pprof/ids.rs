//! Identifiers, which may be any number, and what they become: indices.

use hashbrown::HashMap;

/// Identifiers in four bytes each. Those that do not fit, as where addresses are identifiers, get numbers in the order they
/// come.
#[derive(Default)]
pub struct Numbers {
    large: HashMap<u64, u32>,
}

/// The first of the numbers that are not the identifier itself.
const FIRST_LARGE: u32 = 1 << 31;

impl Numbers {
    /// `None` if there are too many.
    #[inline]
    pub fn of(&mut self, id: u64) -> Option<u32> {
        if id < FIRST_LARGE.into() {
            return Some(id as u32);
        }
        let next = u32::try_from(self.large.len()).ok()?.checked_add(FIRST_LARGE)?;
        Some(*self.large.entry(id).or_insert(next))
    }

    /// How many had to be given a number.
    pub fn len(&self) -> usize {
        self.large.len()
    }
}

/// From identifier to index. Most writers count from 1, so that there is nothing to look up.
pub enum Ids {
    /// How many.
    FromOne(usize),
    Any(HashMap<u64, usize>),
}

impl Ids {
    /// Indexes identifiers; of several that are the same, the last counts.
    pub fn new(ids: impl ExactSizeIterator<Item = u64> + Clone) -> Ids {
        match ids.len() {
            count if ids.clone().eq(1..=count as u64) => Ids::FromOne(count),
            _ => Ids::Any(ids.zip(0..).collect()),
        }
    }

    #[inline]
    pub fn index(&self, id: u64) -> Option<usize> {
        match self {
            Ids::FromOne(count) => {
                let index = usize::try_from(id).ok()?.wrapping_sub(1);
                (index < *count).then_some(index)
            }
            Ids::Any(map) => map.get(&id).copied(),
        }
    }

    /// Makes indices of all of them; false if one names nothing.
    pub fn replace(&self, ids: &mut [u32]) -> bool {
        if let Ids::FromOne(count) = self {
            let mut are_known = true;
            for id in ids {
                *id = id.wrapping_sub(1);
                are_known &= (*id as usize) < *count;
            }
            return are_known;
        }
        ids.iter_mut().all(|id| self.index((*id).into()).map(|index| *id = index as u32).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_identifiers_become_indices() {
        let cases: [&[u64]; 5] =
            [&[1, 2, 3], &[3, 1, 2], &[7, 1 << 20, 9], &[u64::MAX, 1, 1 << 31], &[1 << 40, 0, 5]];
        for ids in cases {
            let mut numbers = Numbers::default();
            // As they are met first in stacks.
            let mut stack: Vec<u32> = ids.iter().rev().map(|&id| numbers.of(id).unwrap()).collect();
            let of_locations: Vec<u32> = ids.iter().map(|&id| numbers.of(id).unwrap()).collect();
            let found = Ids::new(of_locations.iter().map(|&number| number.into()));
            assert!(found.replace(&mut stack));
            assert_eq!(stack, [2, 1, 0], "{ids:?}");
            let unknown = numbers.of(1 << 50).unwrap();
            assert!(!found.replace(&mut [of_locations[0], unknown]));
            assert!(!found.replace(&mut [4]));
        }
        assert!(!Ids::new(std::iter::empty()).replace(&mut [0]));
        assert!(Ids::new(std::iter::empty()).replace(&mut []));
    }
}

//! Stacks as sequences of small numbers, end to end in memory, and their lexicographic order. A group of stacks with a common
//! beginning is a node of a tree, so trees and sorted lists need no node and no text per stack.

use std::ops::Range;

/// Stacks of words, what a word stands for being the caller's business, and an order of them.
#[derive(Default)]
pub struct Stacks {
    words: Vec<u32>,
    ends: Vec<usize>,
    /// Indices of stacks; groups are ranges of it.
    order: Vec<u32>,
    /// Reused from split to split.
    keys: Vec<u64>,
}

/// Stacks that begin with the same words, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many words are the same.
    pub depth: usize,
    /// Positions in the order.
    range: Range<usize>,
}

impl Group {
    /// The same stacks, which have so many words in common.
    pub fn at_depth(&self, depth: usize) -> Group {
        Group { depth, range: self.range.clone() }
    }
}

impl Stacks {
    /// No stacks yet, with room for `stacks` of them with `words` words in all.
    pub fn with_capacity(stacks: usize, words: usize) -> Stacks {
        Stacks {
            words: Vec::with_capacity(words),
            ends: Vec::with_capacity(stacks),
            order: Vec::with_capacity(stacks),
            keys: Vec::new(),
        }
    }

    /// Adds a stack; its index is the number of those before it. No word is `u32::MAX`.
    pub fn push(&mut self, words: impl Iterator<Item = u32>) {
        // Several iterators in a row are fast only from the inside.
        words.for_each(|word| self.words.push(word));
        self.order.push(self.ends.len() as u32);
        self.ends.push(self.words.len());
    }

    /// The words of a stack.
    pub fn get(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.words[start..self.ends[index]]
    }

    /// The group of all stacks.
    pub fn all(&self) -> Group {
        Group { depth: 0, range: 0..self.order.len() }
    }

    /// The stacks of a group.
    pub fn members(&self, group: &Group) -> impl Iterator<Item = usize> {
        self.order[group.range.clone()].iter().map(|&index| index as usize)
    }

    /// The stack of a group with the lowest index.
    pub fn first(&self, group: &Group) -> usize {
        self.order[group.range.start] as usize
    }

    /// Whether a group is a single stack.
    pub fn is_one(&self, group: &Group) -> bool {
        group.range.len() == 1
    }

    /// With how many words all stacks of a group begin, its own included.
    pub fn common(&self, group: &Group) -> usize {
        let mut members = self.members(group);
        let Some(first) = members.next() else { return group.depth };
        let first = self.get(first);
        let mut common = first.len();
        for index in members {
            let words = self.get(index);
            let least = common.min(words.len());
            let same = first[group.depth..least].iter().zip(&words[group.depth..least]);
            common = group.depth + same.take_while(|(one, other)| one == other).count();
            if common == group.depth {
                break;
            }
        }
        common
    }

    /// Splits a group by the next word: appends a group for each, in the order of the words, and returns the stacks that
    /// have no next word.
    pub fn split(&mut self, group: &Group, groups: &mut Vec<Group>) -> Group {
        let Group { depth, range } = group.clone();
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        // The index in the lower half keeps equal words in the order of the stacks.
        keys.extend(self.order[range.clone()].iter().map(|&index| {
            let word = self.get(index as usize).get(depth);
            word.map_or(0, |&word| u64::from(word) + 1) << 32 | u64::from(index)
        }));
        keys.sort_unstable();
        for (place, &key) in self.order[range.clone()].iter_mut().zip(&keys) {
            *place = key as u32;
        }
        let mut start = range.start;
        let mut ended = Group { depth, range: start..start };
        for equal in keys.chunk_by(|one, other| one >> 32 == other >> 32) {
            let range = start..start + equal.len();
            start = range.end;
            match equal[0] >> 32 {
                0 => ended.range = range,
                _ => groups.push(Group { depth: depth + 1, range }),
            }
        }
        self.keys = keys;
        ended
    }

    /// All stacks in lexicographic order, equal ones as one group.
    pub fn sorted(&mut self) -> Vec<Group> {
        let mut sorted = Vec::new();
        let mut pending = vec![self.all()];
        while let Some(group) = pending.pop() {
            if group.range.len() == 1 {
                sorted.push(group);
                continue;
            }
            let before = pending.len();
            let ended = self.split(&group, &mut pending);
            pending[before..].reverse();
            if !ended.range.is_empty() {
                sorted.push(ended);
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(of: &[&[u32]]) -> Stacks {
        let mut stacks = Stacks::with_capacity(of.len(), 0);
        of.iter().for_each(|words| stacks.push(words.iter().copied()));
        stacks
    }

    #[test]
    fn equal_stacks_stay_together() {
        let of: [&[u32]; 8] =
            [&[2, 1], &[1, 3, 0], &[], &[1, 3], &[2, 1], &[1], &[0, 9, 9], &[1, 3, 0]];
        let mut stacks = stacks(&of);
        let sorted: Vec<Vec<usize>> =
            stacks.sorted().iter().map(|group| stacks.members(group).collect()).collect();
        assert_eq!(
            sorted,
            [vec![2], vec![6], vec![5], vec![3], vec![1, 7], vec![0, 4]],
            "indices of equal stacks in their order"
        );
    }

    #[test]
    fn groups_split_by_next_word() {
        let mut stacks = stacks(&[&[1, 2, 3], &[1, 2, 4], &[1], &[5, 6], &[1, 2, 3]]);
        let all = stacks.all();
        let mut groups = Vec::new();
        let ended = stacks.split(&all, &mut groups);
        assert_eq!(stacks.members(&ended).count(), 0);
        assert_eq!(groups.len(), 2);
        assert_eq!(stacks.members(&groups[0]).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!(stacks.members(&groups[1]).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn no_stack_is_no_group() {
        assert_eq!(stacks(&[]).sorted(), []);
    }
}

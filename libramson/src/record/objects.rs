//! The loaded objects that walks meet, as the mappings of the profile.

use super::file::{self, ProfileFile};
use super::profile::Profile;
use crate::walk::{self, NewMapping};
use core::sync::atomic::Ordering::*;
use ramson_format::{BEGUN, COMMITTED, EPOCH_OPEN, Health, Mapping, RegionKind, mapping_check};

impl NewMapping for Profile {
    fn add(&self, facts: &walk::MappingFacts) -> u32 {
        self.add_mapping(facts, self.epoch_of_new_mapping(facts)).unwrap_or_else(|| {
            self.file.count(Health::DroppedMappings, 1);
            u32::MAX
        })
    }

    fn replaced(&self, index: u32, start: u64) {
        let epoch = self.file.header().epoch.fetch_add(1, AcqRel) + 1;
        if let Some(mapping) = self.file.entry::<Mapping>(RegionKind::Mappings, index as u64)
            && mapping.start.load(Relaxed) == start
        {
            // Once: whoever comes second may be late, and another object be there since.
            let _ = mapping.epoch_to.compare_exchange(EPOCH_OPEN, epoch, Release, Relaxed);
        }
    }
}

impl Profile {
    /// Copies a mapping of the profile `from`, or of one that is here already, that it ended.
    pub fn take_over_mapping(&self, mapping: &Mapping, from: &ProfileFile) {
        let start = mapping.start.load(Relaxed);
        let epoch_from = mapping.epoch_from.load(Relaxed);
        let is_it = |own: &&Mapping| {
            own.start.load(Relaxed) == start && own.epoch_from.load(Relaxed) == epoch_from
        };
        if !self.mappings().any(|own| is_it(&own)) {
            let path_offset = mapping.path_offset.load(Relaxed) as u64;
            let path_bytes = mapping.path_bytes.load(Relaxed) as usize;
            let path = from.slice::<u8>(RegionKind::Strings, path_offset, path_bytes);
            let build_id = mapping.build_id.each_ref().map(|word| word.load(Relaxed).to_le_bytes());
            let build_id_bytes = mapping.build_id_bytes.load(Relaxed) as usize;
            let facts = walk::MappingFacts {
                start,
                end: mapping.end.load(Relaxed),
                bias: mapping.bias.load(Relaxed),
                path: path.unwrap_or_default(),
                build_id: build_id.as_flattened().get(..build_id_bytes).unwrap_or_default(),
            };
            if self.add_mapping(&facts, epoch_from).is_none() {
                self.count(Health::DroppedMappings, 1);
            }
        }
        let epoch_to = mapping.epoch_to.load(Acquire);
        if epoch_to != EPOCH_OPEN
            && let Some(own) = self.mappings().find(is_it)
        {
            self.file.header().epoch.fetch_max(epoch_to, AcqRel);
            let _ = own.epoch_to.compare_exchange(EPOCH_OPEN, epoch_to, Release, Relaxed);
        }
    }

    /// Those that are there.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        let count = self.file.header().mapping_count.load(Acquire) as usize;
        let all: Option<&[Mapping]> = self.file.slice(RegionKind::Mappings, 0, count);
        let is_there = |mapping: &&Mapping| mapping.commit.load(Acquire) == COMMITTED;
        all.unwrap_or_default().iter().filter(is_there)
    }

    fn add_mapping(&self, facts: &walk::MappingFacts, epoch_from: u32) -> Option<u32> {
        let header = self.file.header();
        // The string first: a reader that finds the mapping then knows of it too. Without room for it, no path.
        let (path_bytes, path_offset) = match facts.path {
            [] => {
                let length = header.exe_bytes.load(Relaxed) as usize;
                (length, self.file.add_string(length, file::executable()))
            }
            path => (path.len(), self.file.add_string(path.len(), path.iter().copied())),
        };
        let path_bytes = path_offset.map_or(0, |_| path_bytes as u32);
        let path_offset = path_offset.unwrap_or(0);
        let index = self.file.reserve(RegionKind::Mappings, &header.mapping_count, 1)?;
        let mapping: &Mapping = self.file.entry(RegionKind::Mappings, index)?;
        mapping.commit.store(BEGUN, Relaxed);
        let mut build_id = [[0u8; 8]; 4];
        build_id
            .as_flattened_mut()
            .iter_mut()
            .zip(facts.build_id)
            .for_each(|(to, &byte)| *to = byte);
        let build_id @ [a, b, c, d] = build_id.map(u64::from_le_bytes);
        let build_id_bytes = facts.build_id.len().min(32) as u64;
        let path_word = path_offset as u64 | (path_bytes as u64) << 32;
        let epoch = epoch_from as u64;
        let walk::MappingFacts { start, end, bias, .. } = *facts;
        let check =
            mapping_check(&[start, end, 0, bias, epoch, path_word, build_id_bytes, a, b, c, d]);
        mapping.start.store(start, Relaxed);
        mapping.end.store(end, Relaxed);
        mapping.file_offset.store(0, Relaxed);
        mapping.bias.store(bias, Relaxed);
        mapping.epoch_from.store(epoch_from, Relaxed);
        mapping.epoch_to.store(EPOCH_OPEN, Relaxed);
        mapping.path_offset.store(path_offset, Relaxed);
        mapping.path_bytes.store(path_bytes, Relaxed);
        mapping.build_id_bytes.store(build_id_bytes as u32, Relaxed);
        mapping.build_id.iter().zip(build_id).for_each(|(to, word)| to.store(word, Relaxed));
        mapping.check.store(check, Relaxed);
        mapping.commit.store(COMMITTED, Release);
        Some(index as u32)
    }

    /// An object at an address where another one was counts from now on; any other one counts from the start.
    fn epoch_of_new_mapping(&self, facts: &walk::MappingFacts) -> u32 {
        let had_another = self.mappings().any(|other| {
            other.start.load(Relaxed) < facts.end && other.end.load(Relaxed) > facts.start
        });
        if had_another { self.file.header().epoch.load(Acquire) } else { 0 }
    }
}

//! Where in its file a mapping of another tool's profile begins.

use object::read::ReadCache;
use object::{Object, ObjectSegment};
use ramson_profile::{Mapping, Profile};
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Asks the binaries how their segments lie, for mappings whose locations have no names yet. Foreign formats tell where a file
/// was mapped, but not from which address in it. A copy of the binary in `sysroot` is asked rather than what is here.
pub fn find_biases(profile: &mut Profile, sysroot: Option<&Path>) {
    let unnamed = profile.locations.iter().filter(|location| location.lines.is_empty());
    let asked: HashSet<usize> = unnamed.filter_map(|location| location.mapping).collect();
    for index in asked {
        let mapping = &mut profile.mappings[index];
        let copy = sysroot.map(|root| root.join(mapping.path.trim_start_matches('/')));
        let paths = copy.into_iter().chain([PathBuf::from(&mapping.path)]);
        if let Some(bias) = paths.into_iter().find_map(|path| bias_of(mapping, &path)) {
            mapping.bias = bias;
        }
    }
}

fn bias_of(mapping: &Mapping, path: &Path) -> Option<u64> {
    // A path in a foreign file may name anything; only regular files are opened.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let cache = ReadCache::new(File::open(path).ok().filter(|_| is_file)?);
    let binary = object::File::parse(&cache).ok()?;
    let segments = binary.segments().map(|segment| (segment.address(), segment.file_range()));
    let page = |offset: u64| offset & !0xfff;
    segments
        .filter(|&(_, (offset, bytes))| {
            page(offset) <= mapping.file_offset && mapping.file_offset < offset + bytes
        })
        .map(|(address, (offset, _))| {
            let mapped = address.wrapping_sub(offset).wrapping_add(mapping.file_offset);
            mapping.start.wrapping_sub(mapped)
        })
        .last()
}

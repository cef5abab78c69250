//! Biases of the mappings in another tool's profile: the addresses at which their files begin.

use ramson_paths::Owner;
use ramson_profile::{Location, Mapping, Profile};
use ramson_symbols::{address_of_offset, address_of_offset_in};
use std::collections::HashSet;
use std::path::{Path, absolute};

/// Asks the binaries how their segments lie, for mappings whose locations have no names yet. Foreign formats tell where a file
/// was mapped, but not from which address in it. A copy of the binary in `sysroot` is asked rather than what is here, where the profile's
/// owner named it.
pub fn find_biases(profile: &mut Profile, sysroot: Option<&Path>, owner: Owner) {
    let unnamed = profile.locations.iter().filter(|location| location.lines.is_empty());
    let asked: HashSet<usize> = unnamed.filter_map(|location| location.mapping).collect();
    for index in asked {
        let mapping = &mut profile.mappings[index];
        let path = Path::new(&mapping.path);
        let offset = mapping.file_offset;
        let copy = sysroot.and_then(|root| address_of_offset_in(root, path, offset));
        let of_here = || address_of_offset(&absolute(path).ok()?, offset, owner);
        if let Some(mapped) = copy.or_else(of_here) {
            mapping.bias = mapping.start.wrapping_sub(mapped);
        }
    }
}

/// Takes nameless addresses for those of `binary`, as they are in that file: those outside every mapping, and those whose mapping has no
/// place in a file system, as in Seastar's texts.
pub fn place_in(profile: &mut Profile, binary: &Path) {
    let path = absolute(binary).unwrap_or_else(|_| binary.to_owned());
    let path = path.to_string_lossy().into_owned();
    let is_program = |it: &&mut Mapping| it.end == u64::MAX && it.path.starts_with('[');
    profile.mappings.iter_mut().filter(is_program).for_each(|it| it.path.clone_from(&path));
    let index = profile.mappings.len();
    let outside = |it: &&mut Location| it.mapping.is_none() && it.lines.is_empty();
    let mut outside: Vec<&mut Location> = profile.locations.iter_mut().filter(outside).collect();
    if outside.is_empty() {
        return;
    }
    outside.iter_mut().for_each(|it| it.mapping = Some(index));
    profile.mappings.push(Mapping {
        start: 0,
        end: u64::MAX,
        file_offset: 0,
        bias: 0,
        path,
        build_id: String::new(),
        ..Mapping::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::LookupAddress;
    use std::fs::{canonicalize, metadata};

    #[test]
    fn foreign_profiles_open_stored_files_only() {
        let own = canonicalize("/proc/self/exe").unwrap();
        assert!(metadata(&own).unwrap().is_file());
        let paths = [own.to_str().unwrap(), "/proc/self/exe", "/proc/kmsg", "/dev/zero"];
        let mapping = |path: &str| Mapping {
            start: 1 << 40,
            end: 2 << 40,
            file_offset: 0,
            bias: 0,
            path: path.into(),
            build_id: String::new(),
            ..Mapping::default()
        };
        let location = |index| Location {
            mapping: Some(index),
            address: LookupAddress(1 << 40),
            offset: None,
            lines: Vec::new(),
        };
        let mut profile = Profile {
            mappings: paths.map(mapping).to_vec(),
            locations: (0..paths.len()).map(location).collect(),
            ..Profile::default()
        };
        find_biases(&mut profile, None, Owner::of_user(0));
        let biases: Vec<u64> = profile.mappings.iter().map(|mapping| mapping.bias).collect();
        assert_eq!(biases, [1 << 40, 0, 0, 0]);
    }
}

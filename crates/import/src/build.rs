//! Puts a profile together from names or addresses, one sample per distinct stack.

use crate::input::{Input, Stop};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use ramson_profile::{
    Estimate, Function, Line, Location, LookupAddress, Profile, ReturnAddress, StackSample,
};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Bytes that the allocator adds to a block, about; also those of the table entry that finds a thing again.
pub const OVERHEAD_BYTES: usize = 24;
/// Bytes that a report's tables take for a location or a function, about: they are charged with the profile.
pub const TABLE_BYTES: usize = 128;

/// A profile in the making.
#[derive(Default)]
pub struct Builder {
    pub profile: Profile,
    by_name: HashMap<Arc<str>, u32>,
    by_address: HashMap<ReturnAddress, u32>,
    stacks: HashTable<usize>,
    hashing: DefaultHashBuilder,
}

impl Builder {
    /// The location that stands for a function of which only the name is known.
    #[inline]
    pub fn location_named(&mut self, input: &mut Input, name: &str) -> Result<u32, Stop> {
        if let Some(&location) = self.by_name.get(name) {
            return Ok(location);
        }
        let fixed = size_of::<Function>() + size_of::<Location>() + size_of::<Line>();
        input.charge(fixed + name.len() + 3 * OVERHEAD_BYTES + 2 * TABLE_BYTES)?;
        let name: Arc<str> = name.into();
        let function = Function { name: name.clone(), system_name: name.clone(), file: "".into() };
        self.profile.functions.push(function);
        let lines = vec![Line { function: self.profile.functions.len() - 1, line: 0 }];
        self.profile.locations.push(Location {
            mapping: None,
            address: LookupAddress(0),
            lines,
            offset: None,
        });
        let location = self.profile.locations.len() as u32 - 1;
        self.by_name.insert(name, location);
        Ok(location)
    }

    /// The location of a return address, without a name yet.
    pub fn location_of_return(
        &mut self,
        input: &mut Input,
        address: ReturnAddress,
    ) -> Result<u32, Stop> {
        if let Some(&location) = self.by_address.get(&address) {
            return Ok(location);
        }
        input.charge(size_of::<Location>() + 2 * OVERHEAD_BYTES + 2 * TABLE_BYTES)?;
        let location =
            Location { mapping: None, address: address.lookup(), lines: vec![], offset: None };
        self.profile.locations.push(location);
        let location = self.profile.locations.len() as u32 - 1;
        self.by_address.insert(address, location);
        Ok(location)
    }

    /// Begins again with the samples; locations stay.
    pub fn clear_samples(&mut self) {
        self.profile.samples.clear();
        self.stacks.clear();
    }

    /// Adds to the sample of this stack.
    pub fn add(
        &mut self,
        input: &mut Input,
        stack: &[u32],
        values: [Estimate; 4],
    ) -> Result<(), Stop> {
        let samples = &mut self.profile.samples;
        let hash = self.hashing.hash_one(stack);
        let is_it = |&index: &usize| samples[index].locations == stack;
        if let Some(&index) = self.stacks.find(hash, is_it) {
            for (sum, value) in samples[index].values.iter_mut().zip(values) {
                *sum += value;
            }
            return Ok(());
        }
        input.charge(sample_bytes(stack.len()))?;
        samples.push(StackSample { locations: stack.to_vec(), values, ..StackSample::default() });
        let hash_of = |&index: &usize| self.hashing.hash_one(samples[index].locations.as_slice());
        self.stacks.insert_unique(hash, samples.len() - 1, hash_of);
        Ok(())
    }
}

/// Bytes that a sample with a stack of this depth takes.
pub fn sample_bytes(depth: usize) -> usize {
    size_of::<StackSample>() + depth * size_of::<u32>() + OVERHEAD_BYTES
}

/// A value that the format does not have.
pub const UNKNOWN: Estimate = Estimate::new(f64::NAN, f64::NAN);

//! Locations of formats that name the binary of each frame, or write addresses as they are in that file.

use crate::build::{Builder, OVERHEAD_BYTES, TABLE_BYTES};
use crate::input::{Input, Stop};
use hashbrown::HashMap;
use ramson_profile::{Function, Line, Location, LookupAddress, Mapping};
use std::sync::Arc;

/// A profile in the making, and the locations in it.
#[derive(Default)]
pub struct Places {
    pub builder: Builder,
    known: HashMap<(Box<str>, u64, Box<str>), u32>,
    objects: HashMap<String, usize>,
}

impl Places {
    /// The location of a frame in this binary: of a file address, or if that is 0, of a function's name. An empty binary is not known.
    pub fn location(
        &mut self,
        input: &mut Input,
        object: &str,
        address: u64,
        name: &str,
    ) -> Result<u32, Stop> {
        let key = (object.into(), address, name.into());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let fixed = size_of::<Function>() + size_of::<Location>() + size_of::<Line>();
        let texts = 2 * name.len() + 2 * object.len();
        input.charge(fixed + texts + 4 * OVERHEAD_BYTES + 2 * TABLE_BYTES)?;
        let profile = &mut self.builder.profile;
        let mapping = (!object.is_empty()).then(|| {
            *self.objects.entry_ref(object).or_insert_with(|| {
                // All addresses of the file: they are not those of a process.
                profile.mappings.push(Mapping {
                    start: 0,
                    end: u64::MAX,
                    file_offset: 0,
                    bias: 0,
                    path: object.to_owned(),
                    build_id: String::new(),
                    ..Mapping::default()
                });
                profile.mappings.len() - 1
            })
        });
        let mut lines = Vec::new();
        if !name.is_empty() {
            let name: Arc<str> = name.into();
            profile.functions.push(Function {
                name: name.clone(),
                system_name: name,
                file: "".into(),
            });
            lines.push(Line { function: profile.functions.len() - 1, line: 0 });
        }
        let address = LookupAddress(address);
        profile.locations.push(Location { mapping, address, lines, offset: None });
        let location = profile.locations.len() as u32 - 1;
        self.known.insert(key, location);
        Ok(location)
    }
}

//! Names that a symbolized text carries before the profile: `--- symbol`, `binary=PATH`, lines `0xADDRESS NAME`, `---`. NAME
//! contains inlined functions, outermost first, with `--` between them. Addresses are return addresses − 1; jeprof and pprof
//! leave the leaf's as it is.

use crate::build::{OVERHEAD_BYTES, TABLE_BYTES};
use crate::input::{Input, Stop};
use crate::maps::hex;
use hashbrown::HashMap;
use ramson_profile::{Function, Line, Profile};
use std::sync::Arc;

/// The first line of the table.
pub const MARKER: &str = "--- symbol";

/// The table.
#[derive(Default)]
pub struct Symbols {
    binary: String,
    names: HashMap<u64, Box<str>>,
}

impl Symbols {
    /// Reads the table after its marker, up to the line that ends it.
    pub fn read(&mut self, input: &mut Input) -> Result<(), Stop> {
        while let Some(line) = input.line() {
            let line = String::from_utf8_lossy(line).into_owned();
            if line.starts_with("---") {
                break;
            }
            if let Some(binary) = line.strip_prefix("binary=") {
                binary.trim().clone_into(&mut self.binary);
            } else if let Some((address, name)) = line.trim_end().split_once([' ', '\t']) {
                let Some(address) = hex(address) else {
                    input.bad_lines += 1;
                    continue;
                };
                let name = name.trim_start();
                input.charge(size_of::<(u64, Box<str>)>() + name.len() + OVERHEAD_BYTES)?;
                // Without a name, jeprof writes the address.
                if !name.starts_with("0x") && name != "??" {
                    self.names.insert(address, name.into());
                }
            }
        }
        Ok(())
    }

    /// Gives names to the locations that the table has.
    pub fn name(&self, input: &mut Input, profile: &mut Profile) -> Result<(), Stop> {
        profile.command = self.binary.rsplit('/').next().unwrap_or_default().to_owned();
        let mut functions = HashMap::new();
        for location in &mut profile.locations {
            let address = location.address.0;
            let name =
                self.names.get(&address).or_else(|| self.names.get(&address.wrapping_add(1)));
            let Some(name) = name else { continue };
            for name in frames(name).into_iter().rev() {
                input.charge(size_of::<Line>())?;
                let function = match functions.get(name) {
                    Some(&known) => known,
                    None => {
                        input.charge(size_of::<Function>() + name.len() + TABLE_BYTES)?;
                        let text: Arc<str> = name.into();
                        let system_name = text.clone();
                        profile.functions.push(Function {
                            name: text,
                            system_name,
                            file: "".into(),
                        });
                        functions.insert(name, profile.functions.len() - 1);
                        profile.functions.len() - 1
                    }
                };
                location.lines.push(Line { function, line: 0 });
            }
        }
        Ok(())
    }
}

/// The functions of a name, outermost first. `operator--` is one of them.
fn frames(name: &str) -> Vec<&str> {
    let mut frames = Vec::new();
    let mut start = 0;
    let mut searched = 0;
    while let Some(found) = name[searched..].find("--") {
        let at = searched + found;
        searched = at + 2;
        if !name[..at].ends_with("operator") {
            frames.push(&name[start..at]);
            start = searched;
        }
    }
    frames.push(&name[start..]);
    frames.retain_mut(|name| {
        *name = without_address(name);
        !name.is_empty()
    });
    frames
}

/// The name without the start of its function, which google-pprof appends: `main<00000000000011b3>`.
fn without_address(name: &str) -> &str {
    let inner = name.strip_suffix('>').and_then(|name| name.rsplit_once('<'));
    let is_address =
        |text: &str| text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match inner {
        Some((name, address)) if is_address(address) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_inlined_functions() {
        assert_eq!(frames("main"), ["main"]);
        assert_eq!(frames("a::load--a::push--grow"), ["a::load", "a::push", "grow"]);
        assert_eq!(frames("It::operator--(int)--next"), ["It::operator--(int)", "next"]);
        assert_eq!(frames("main--"), ["main"]);
        assert!(frames("").is_empty());
        assert_eq!(frames("main<00000000000011b3>--a::List<int>"), ["main", "a::List<int>"]);
    }
}

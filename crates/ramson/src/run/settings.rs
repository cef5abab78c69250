//! Settings that libramson gets: those that the flags ask for, and those in our environment. A program with one that libramson would
//! not take runs without a profile.

use crate::flags::{RunFlags, Switch};
use ramson_format::settings::{Expected, PREFIX, setting};
use ramson_process::program::Obstacle;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Why no program can be recorded with these variables, if so: the first whose value does not parse.
pub fn obstacle(mut variables: impl Iterator<Item = (OsString, OsString)>) -> Option<Obstacle> {
    variables.find_map(|(name, value)| {
        let suffix = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
        let Expected(expected) = setting(suffix, value.as_encoded_bytes())?.err()?;
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let remedy = format!("Correct {name}, or unset it");
        Some(Obstacle::new(format!("{name}={value} must be {expected}"), remedy))
    })
}

/// Whether allocators inside the executable are recorded, too.
pub fn is_inside(flags: &RunFlags) -> bool {
    match flags.inside {
        Some(asked) => asked == Switch::On,
        None => std::env::var_os("RAMSON_INSIDE").is_none_or(|value| value == Switch::On.value()),
    }
}

/// Sets what the flags ask for.
pub fn configure(command: &mut Command, flags: &RunFlags, output: Option<&Path>) {
    let number = |number: u64| number.to_string().into();
    let inside = if is_inside(flags) { Switch::On } else { Switch::Off };
    let settings: [(_, Option<OsString>); 6] = [
        ("RAMSON_INTERVAL", Some(number(flags.interval))),
        ("RAMSON_MAX_FILE", flags.max_file.map(number)),
        ("RAMSON_FREES", flags.recent_frees.map(number)),
        ("RAMSON_INSIDE", Some(inside.value().into())),
        ("RAMSON_MAX_OVERHEAD", flags.max_overhead.as_ref().map(Into::into)),
        ("RAMSON_OUTPUT", output.map(Into::into)),
    ];
    command.envs(settings.into_iter().filter_map(|(name, value)| Some((name, value?))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_value_names_accepted_ones() {
        let said = |variables: &[(&str, &str)]| {
            let obstacle =
                obstacle(variables.iter().map(|&(name, value)| (name.into(), value.into())));
            obstacle.map(|obstacle| obstacle.finding)
        };
        assert_eq!(
            said(&[("PATH", "yes"), ("RAMSON_KEEP", "yes")]).as_deref(),
            Some("RAMSON_KEEP=yes must be 0 or 1")
        );
        assert_eq!(
            said(&[("RAMSON_SECCOMP", "12abc")]).as_deref(),
            Some("RAMSON_SECCOMP=12abc must be a number")
        );
        assert_eq!(said(&[("RAMSON_KEEP", "1"), ("RAMSON_LIBRARY", "x")]), None);
    }
}

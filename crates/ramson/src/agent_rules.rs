//! The agent's rules: running processes that it attaches to.

use crate::attach::{library_bytes, usual_overhead};
use crate::output::remark;
use ramson_control::{Attached, Options};
use ramson_fleet::Rule;
use ramson_process::stat::Stat;
use ramson_source::{Target, matching_targets};
use std::collections::HashMap;
use std::env;
use std::os::unix::ffi::OsStrExt;

/// A process and the name that it has: another one after an exec.
type Program = (u32, u64, String);

/// Who has been attached to.
#[derive(Default)]
pub struct Rules {
    /// Programs that match, and whether they have had their try.
    known: HashMap<Program, bool>,
}

impl Rules {
    /// Attaches to what matches a rule, has no profile, and was there at the call before: a process that has just begun may exec, or end at once.
    /// Each is tried once.
    pub fn apply(&mut self, rules: &[Rule]) {
        let mut known = HashMap::new();
        for rule in rules {
            let targets = matching_targets(|text| rule.pattern.is_match(text));
            for target in targets.found {
                let Some(stat) = Stat::of(target.pid) else { continue };
                let program = (target.pid, stat.start_ticks, target.name.clone());
                if known.contains_key(&program) {
                    continue;
                }
                let had_its_try = match self.known.get(&program) {
                    None => false,
                    Some(true) => true,
                    Some(false) => {
                        if target.profile.is_none() {
                            attach(&target, rule);
                        }
                        true
                    }
                };
                known.insert(program, had_its_try);
            }
        }
        self.known = known;
    }
}

fn attach(target: &Target, rule: &Rule) {
    let directory = env::var_os("RAMSON_DIR");
    let attached = library_bytes().and_then(|library| {
        let options = Options {
            interval_bytes: rule.interval,
            max_overhead_ppm: usual_overhead(rule.interval),
            duration: None,
            directory: directory.as_ref().map(|directory| directory.as_bytes()),
            library: &library,
            inside: rule.inside,
        };
        ramson_control::attach(target, &options)
    });
    match attached {
        Ok(Attached { was_recorded: true, .. }) => {}
        Ok(Attached { pid, name, .. }) => {
            remark(format_args!("{name} (pid {pid}): recorded from now on"))
        }
        Err(failure) => remark(format_args!("{failure}. It is not tried again")),
    }
}

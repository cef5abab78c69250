//! Whether a process still runs the program that was looked at: it may start another one at any moment, with other rights.

use crate::Problem;
use std::{fs, str};

/// Fields of /proc/PID/stat, counted behind the name: where the program's code begins and ends, and its stack begins.
const PLACES: std::ops::Range<usize> = 23..26;

/// State that the kernel set up when it started the program. Another program has other random places in it, and one that its user has no rights to
/// says so (AT_SECURE). No file is asked, because its file system may belong to the process's user.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub auxiliary: Vec<u8>,
    places: Vec<String>,
}

impl Identity {
    /// `directory` is a process's or a thread's.
    pub fn of(directory: &str) -> Result<Self, Problem> {
        let auxiliary = fs::read(format!("{directory}/auxv"))?;
        let stat = fs::read(format!("{directory}/stat"))?;
        // The name before the last parenthesis may be any bytes.
        let rest = stat.rsplit(|&byte| byte == b')').next().unwrap_or_default();
        let fields: Vec<&str> =
            str::from_utf8(rest).unwrap_or_default().split_whitespace().collect();
        let places: Vec<String> =
            fields.iter().skip(PLACES.start).take(PLACES.len()).map(|&it| it.to_owned()).collect();
        // Whoever may not trace it is told 1.
        let has_program = !auxiliary.is_empty() && places.first().is_some_and(|code| code != "0");
        if has_program {
            Ok(Self { auxiliary, places })
        } else if is_exiting(&fields) {
            Err(Problem::Gone)
        } else {
            // A process that lives has none for a moment while the kernel starts another program.
            Err(Problem::Changed)
        }
    }
}

/// Whether the fields of a process's or a thread's stat, from its state on, say that it exits or has ended.
fn is_exiting(fields: &[&str]) -> bool {
    const FLAGS: usize = 6;
    const PF_EXITING: u64 = 4;
    let flags = fields.get(FLAGS).and_then(|flags| flags.parse::<u64>().ok());
    matches!(fields.first(), None | Some(&("Z" | "X")))
        || flags.is_none_or(|it| it & PF_EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Candidate;
    use crate::{Call, Called, Code, Process, Purpose, Step};
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    /// Borrows the only thread of a process for a call of address 0.
    fn borrow(process: &Process, pid: u32) -> Result<Called, Problem> {
        let code = Code { pop_rdi: 0, raise: 0, restorer: 0, errno_offset_at: None, malloc: None };
        let call = Call {
            steps: &[Step::new(0, &[])],
            code: &code,
            suspends_seccomp: false,
            purpose: Purpose::Allocator,
            are_locks_seen: false,
        };
        let mut is_safe = || -> Result<(), String> { panic!("it is borrowed") };
        let candidate = Candidate { tid: pid as i32, runs: false, may_be_parent: true };
        process.attempt(candidate, &call, &mut is_safe, &mut Vec::new())
    }

    #[test]
    fn exec_stops_writing_to_process() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo 1; read line; exec sh -c 'echo 2; read line; echo unharmed'"]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut input = child.stdin.take().unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "1");
        let process = Process::open(child.id()).unwrap();
        let identity = || Identity::of(&format!("/proc/{}", child.id())).unwrap();
        let (before, again) = (identity(), identity());
        assert_eq!(before, again);
        assert!(before.places.iter().all(|place| place.len() > 1) && before.places.len() == 3);
        assert!(process.is_same().is_ok());
        input.write_all(b"\n").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "2");
        assert_ne!(before, identity());
        assert!(matches!(process.write(0, b"harm"), Err(Problem::Changed)));
        let borrowed = borrow(&process, child.id());
        assert!(matches!(borrowed, Err(Problem::Changed)), "{borrowed:?}");
        input.write_all(b"\n").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "unharmed");
        child.wait().unwrap();
    }
}

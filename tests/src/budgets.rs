//! Costs of a command: its peak of resident memory and its CPU time.

use crate::servers::{Outcome, clean, finish, python};
use std::process::Command;

/// A command that has ended.
#[derive(Debug)]
pub struct Cost {
    /// 128 + N where it was killed by signal N.
    pub status: i32,
    /// Peak of its resident memory.
    pub peak_bytes: u64,
    /// CPU time, user and system together.
    pub cpu_seconds: f64,
    /// Bytes that it wrote to standard output.
    pub output_bytes: u64,
    /// Its lines on standard error.
    pub remarks: Vec<String>,
}

/// Runs a command that may be a hog: at 2 GiB of address space or 20 s of CPU time the kernel ends it.
#[track_caller]
pub fn cost(command: &Command) -> Cost {
    const SCRIPT: &str = "import resource, subprocess, sys
def limit():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
ran = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=limit)
count = 0
while part := ran.stdout.read1(1 << 20):
    count += len(part)
status = ran.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status if status >= 0 else 128 - status, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime, count)";
    let mut measured = clean(python());
    measured.args(["-c", SCRIPT]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => measured.env(name, value),
            None => measured.env_remove(name),
        };
    }
    let Outcome { stdout, remarks, stderr, .. } = finish(&mut measured);
    let text = String::from_utf8(stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [status, peak, cpu_seconds, output] = numbers[..] else {
        panic!("{text:?} {stderr} {remarks:?}");
    };
    let peak_bytes = peak as u64;
    let output_bytes = output as u64;
    Cost { status: status as i32, peak_bytes, cpu_seconds, output_bytes, remarks }
}

//! The USDT probes: what their notes say, and what is true at them in a program.

use ramson_tests::servers::{Scratch, installed, wait_until};
use ramson_tests::tracing::{Stop, Traced};
use ramson_tests::{Run, library, not_here, preload, program, tool};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

/// A probe as its note describes it.
struct Probe {
    name: String,
    location: u64,
    semaphore: u64,
    arguments: String,
}

fn probes() -> Vec<Probe> {
    let notes = tool("readelf", &["-nW".as_ref(), library().as_os_str()]);
    let after = |text: &str, key: &str| {
        let rest = text.split_once(key).unwrap_or_else(|| panic!("no {key} in {text}")).1;
        rest.split([',', '\n']).next().expect("split gives one").trim().to_owned()
    };
    let number = |text: String| u64::from_str_radix(&text[2..], 16).expect("a hexadecimal number");
    let probe = |text: &str| Probe {
        name: after(text, "Name:"),
        location: number(after(text, "Location:")),
        semaphore: number(after(text, "Semaphore:")),
        arguments: after(text, "Arguments:"),
    };
    notes.split("Provider: otel_memory").skip(1).map(probe).collect()
}

#[test]
fn notes_describe_both_probes() {
    let probes = probes();
    let told: Vec<_> =
        probes.iter().map(|probe| (probe.name.as_str(), probe.arguments.as_str())).collect();
    assert_eq!(told, [("alloc", "8@%rdi 8@%rsi 8@%rdx"), ("free", "8@%rdi")]);
    assert!(probes[0].semaphore != probes[1].semaphore && probes[0].semaphore != 0);
}

/// Sections by name: address, offset.
fn section(name: &str) -> (u64, u64) {
    let sections = tool("readelf", &["-SW".as_ref(), library().as_os_str()]);
    let line = sections.lines().find_map(|line| line.split_once(&format!(" {name} ")));
    let words: Vec<_> = line.expect("the section").1.split_whitespace().collect();
    let number = |word: &str| u64::from_str_radix(word, 16).expect("a hexadecimal number");
    (number(words[1]), number(words[2]))
}

#[test]
fn probe_sections_suit_perf_and_kernel() {
    // perf takes the distance between address and offset of this section for that of the code.
    let distance = |name: &str| section(name).0.wrapping_sub(section(name).1);
    assert_eq!(distance(".stapsdt.base"), distance(".text"));
    // The kernel raises a semaphore in whatever maps its page of the file writable first.
    assert_eq!(section(".probes").1 % 4096, 0);
}

/// Address at which the library begins in process `pid`; `None` if it is not loaded yet.
fn base_of_library(pid: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let name = library().to_str().expect("a path in UTF-8");
    let line = maps.lines().find(|line| line.ends_with(name))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// Runs on to the next SIGUSR1; hands on the registers at each breakpoint on the way.
fn run_on(traced: &Traced, mut hit: impl FnMut(&libc::user_regs_struct)) {
    loop {
        traced.go_on();
        match traced.wait() {
            Stop::Signal(libc::SIGUSR1) => return,
            Stop::Signal(libc::SIGTRAP) => hit(&traced.registers()),
            Stop::Signal(libc::SIGSTOP) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Blocks that the program says it made: address and size.
fn made(child: &mut Child) -> Vec<(u64, u64)> {
    let mut output = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut output).expect("text");
    let block = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let address = u64::from_str_radix(&words[1][2..], 16).expect("an address");
        (address, words[2].parse().expect("a size"))
    };
    output.lines().map(block).collect()
}

#[test]
fn listener_sees_each_allocation_and_free() {
    let mut run = Run::new(program("frees.c")).arg("probes");
    run.command.stdin(Stdio::piped());
    let mut child = run.spawn();
    let pid = child.id();
    let traced = Traced::attach(pid);
    traced.wait();
    child.stdin.take().expect("piped").write_all(b"!").expect("it waits for that");
    run_on(&traced, |_| {});
    let base = base_of_library(pid).expect("loaded");
    let probes = probes();
    let memory = File::options().write(true).open(format!("/proc/{pid}/mem")).expect("ours");
    let write = |address: u64, bytes: &[u8]| {
        memory.write_all_at(bytes, base + address).expect("it is mapped");
    };
    // A breakpoint in the place of the nop.
    probes.iter().for_each(|probe| write(probe.location, &[0xcc]));
    run_on(&traced, |_| panic!("a probe was reached that nobody listens to"));
    probes.iter().for_each(|probe| write(probe.semaphore, &1u16.to_le_bytes()));
    let mut seen = Vec::new();
    run_on(&traced, |registers| {
        let at = registers.rip - 1 - base;
        let probe = probes.iter().find(|probe| probe.location == at).expect("a probe");
        seen.push(match probe.name.as_str() {
            "alloc" => ("alloc", registers.rdi, registers.rsi, registers.rdx),
            _ => ("free", registers.rdi, 0, 0),
        });
    });
    probes.iter().for_each(|probe| write(probe.semaphore, &0u16.to_le_bytes()));
    traced.detach();
    let made = made(&mut child);
    assert!(child.wait().expect("it ends").success());
    let [blocks @ .., (old, 300), (new, 0x10_0000)] = &made[..] else { panic!("{made:?}") };
    // Everything is recorded, so each allocation stands for itself.
    let alloc = |(address, size): (u64, u64)| ("alloc", address, size, size);
    let free = |address: u64| ("free", address, 0, 0);
    let mut expected: Vec<_> =
        blocks.iter().flat_map(|&block| [alloc(block), free(block.0)]).collect();
    assert_eq!(expected.len(), 8);
    expected.extend([alloc((*old, 300)), free(*old), alloc((*new, 0x10_0000)), free(*new)]);
    assert_eq!(seen, expected);
}

/// bpftrace in a process group of its own, ended with the test.
fn bpftrace(arguments: &[&str]) -> Command {
    let mut command = Command::new(installed("bpftrace", "bpftrace"));
    command.env("LC_ALL", "C").args(arguments).stdin(Stdio::null());
    command
}

/// Each line is a kind of event, the address, and for allocations size and weight.
const SCRIPT: &str =
    "usdt:LIBRARY:otel_memory:alloc { printf(\"alloc %lu %lu %lu\\n\", arg0, arg1, arg2); }
usdt:LIBRARY:otel_memory:free { printf(\"free %lu 0 0\\n\", arg0); }";

#[test]
fn bpftrace_sees_each_allocation_and_free() {
    let trial = bpftrace(&["-e", "BEGIN { exit(); }"]).output().expect("it can be started");
    if !trial.status.success() {
        return not_here(&format!("bpftrace: {}", String::from_utf8_lossy(&trial.stderr)));
    }
    let scratch = Scratch::new();
    // The program ignores the signals that it raises for another listener, also after exec.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' USR1; exec \"$0\" probes"]).arg(program("frees.c"));
    preload(&mut command, "1").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh can be started");
    let pid = child.id();
    let wanted = fs::canonicalize(program("frees.c")).expect("it was built");
    let is_program = || fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == wanted);
    wait_until("the program has taken the shell's place", is_program);
    let log = scratch.path("log");
    let script = SCRIPT.replace("LIBRARY", library().to_str().expect("a path in UTF-8"));
    let mut command = bpftrace(&["-p", &pid.to_string(), "-o"]);
    let listener =
        command.arg(&log).args(["-e", &script]).spawn().expect("bpftrace can be started");
    let listener = RefCell::new(listener);
    let has_ended = || listener.borrow_mut().try_wait().expect("ours").is_some();
    let memory = File::open(format!("/proc/{pid}/mem")).expect("ours");
    let is_heard = |probe: &Probe| {
        let mut raised = [0; 2];
        let Some(base) = base_of_library(pid) else { return false };
        memory.read_exact_at(&mut raised, base + probe.semaphore).is_ok() && raised != [0; 2]
    };
    wait_until("bpftrace listens", || {
        assert!(!has_ended(), "bpftrace ended early");
        probes().iter().all(is_heard)
    });
    child.stdin.take().expect("piped").write_all(b"!").expect("it waits for that");
    let made = made(&mut child);
    assert!(child.wait().expect("it ends").success());
    wait_until("bpftrace ends with it", has_ended);
    // The listener hears events from before the second part, too; each event of the second part is certain to be heard.
    let log = fs::read_to_string(&log).expect("it has written");
    assert_eq!(made.len(), 6);
    for (address, size) in made {
        let alloc = format!("alloc {address} {size} {size}\n");
        assert!(log.contains(&alloc), "{alloc} in\n{log}");
        assert!(log.contains(&format!("free {address} 0 0\n")), "{address}: {log}");
    }
    let count = |kind: &str| log.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!((count("alloc"), count("free")), (12, 12), "{log}");
}

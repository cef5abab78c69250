//! A thread of the process is borrowed for calls of the allocator's function (crate `ramson-inject`).

use ramson_inject::{Call, Called, Code, Library, Problem, Process, Purpose, Seccomp, Step};
use ramson_process::allocators::Allocators;
use ramson_process::glibc::LibraryData;
use ramson_process::{Area, Binary, Content, ProcessMemory, identify, program, rights, stat, text};
use ramson_source::{Failure, Target, gone};
use std::fs;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// The end of messages where there is no other way.
pub const NOTHING: &str = "Nothing was done";
/// How long to look for each lock of an arena to be free once, before any thread is stopped …
const FIRST_LOCK_LIMIT: Duration = Duration::from_secs(2);
/// … and while the borrowed one is.
const LOCK_LIMIT: Duration = Duration::from_millis(20);

/// A process in which functions can be called.
pub struct Callee<'a> {
    pub target: &'a Target,
    pub areas: Vec<Area>,
    pub allocators: Allocators,
    pub memory: ProcessMemory,
    pub process: Arc<Process>,
    /// Whether filters of system calls are lifted meanwhile.
    pub suspends_seccomp: bool,
    code: Code,
}

impl<'a> Callee<'a> {
    /// Finds out whether they can, in a process that was opened before anything was learnt of it.
    pub fn open(
        target: &'a Target,
        process: Arc<Process>,
        areas: Vec<Area>,
        allocators: Allocators,
    ) -> Result<Self, Failure> {
        check(target)?;
        // Its files cannot be read either, if this may not.
        let memory =
            ProcessMemory::open(target.pid).map_err(|error| failure(target, error.into()))?;
        let libc = library(target, &areas, identify::is_libc).ok_or_else(|| {
            let (why, next) = without_libc(target, &areas);
            refused(target, why, &next)
        })?;
        let code = code_in(target, libc)?;
        Ok(Self { target, areas, allocators, memory, process, suspends_seccomp: false, code })
    }

    /// Has calls return through the C library whose data is there: the loader takes who calls dlopen(3) by that for one of its namespace.
    pub fn return_through(&mut self, data_at: u64) -> Result<(), Failure> {
        let is_it = |area: &Area| self.code_of(data_at).is_some_and(|code| ptr::eq(area, code));
        if let Some(libc) = library(self.target, &self.areas, is_it) {
            self.code = code_in(self.target, libc)?;
        }
        Ok(())
    }

    /// The code of the object whose data is at an address. Its file may be mapped elsewhere, too: by a program that reads it, or once more by
    /// the loader (dlmopen).
    pub fn code_of(&self, data_at: u64) -> Option<&Area> {
        let data = self.areas.iter().find(|area| area.contains(data_at))?;
        let is_its =
            |area: &&Area| (area.device, area.inode) == (data.device, data.inode) && is_code(area);
        self.areas.iter().take_while(|area| area.start <= data.start).filter(is_its).last()
    }

    /// Returns the address of the function of this name in the file that `is_it` chooses, if that file exports one.
    pub fn function(&self, name: &str, is_it: impl Fn(&Area) -> bool) -> Option<u64> {
        let (area, binary) = library(self.target, &self.areas, is_it)?;
        Library::new(&binary, area.start, area.offset)?.function(name)
    }

    /// Returns the addresses of the functions of these names, in their order, in the mapped file that `is_it` chooses.
    pub fn functions(
        &self,
        names: &[&str],
        is_it: impl Fn(&Area) -> bool,
    ) -> Option<Vec<Option<u64>>> {
        let (area, binary) = library(self.target, &self.areas, is_it)?;
        let library = Library::new(&binary, area.start, area.offset)?;
        Some(names.iter().map(|name| library.function(name)).collect())
    }

    /// Returns the address of the first of these functions of an allocator that is inside an object, where all of them are with one prefix.
    /// `is_it` chooses the object.
    pub fn function_inside(&self, names: &[&str], is_it: impl Fn(&Area) -> bool) -> Option<u64> {
        let (area, binary) = library(self.target, &self.areas, is_it)?;
        Library::new(&binary, area.start, area.offset)?.function_behind_prefix(names)
    }

    /// Makes calls of the allocator. If ramson sees all locks that the calls take, a thread that computes may be borrowed, too.
    pub fn call(
        &self,
        steps: &[Step],
        locks: Option<&LibraryData>,
        are_locks_seen: bool,
    ) -> Result<Called, Failure> {
        let are_free =
            |limit| locks.is_none_or(|locks| locks.are_locks_seen_free(&self.memory, limit));
        if !are_free(FIRST_LOCK_LIMIT) {
            let why = "an arena of malloc stays locked (by a thread that died in malloc?)";
            return Err(refused(self.target, why, "A trim would wait for it forever"));
        }
        let mut is_safe =
            || are_free(LOCK_LIMIT).then_some(()).ok_or_else(|| "malloc is locked".to_owned());
        let call = Call {
            steps,
            code: &self.code,
            suspends_seccomp: self.suspends_seccomp,
            purpose: Purpose::Allocator,
            are_locks_seen,
        };
        ramson_inject::call(&self.process, &call, &mut is_safe)
            .map_err(|problem| failure(self.target, problem))
    }

    // Hazard, never seen: a thread begins to load a library in the microseconds between the check of the loader's locks and the call, and a
    // constructor of that library waits for the borrowed thread. The two threads wait for each other.
    //
    // Hazard, never seen: a thread forks while another one is borrowed for an attach or a detach, and the child, without exec, loads libraries,
    // or throws C++ exceptions (glibc before 2.35). The child waits for ever for the loader's lock, as it would if the program itself had been
    // loading a library.
    /// Makes calls that load a library, or are that library's own, on a thread that holds none of the loader's locks, nor of malloc's if they
    /// are seen.
    pub fn call_library(
        &self,
        steps: &[Step],
        locks: Option<&LibraryData>,
        is_loader_free: &dyn Fn(Duration) -> bool,
    ) -> Result<Called, Failure> {
        let are_free =
            |limit| locks.is_none_or(|locks| locks.are_locks_seen_free(&self.memory, limit));
        if !are_free(FIRST_LOCK_LIMIT) || !is_loader_free(FIRST_LOCK_LIMIT) {
            let why = "malloc or the loader stays locked (by a thread that died there, or that loads a library)";
            return Err(refused(self.target, why, "Try again"));
        }
        let mut is_safe = || {
            if !is_loader_free(LOCK_LIMIT) {
                Err("the loader is locked".to_owned())
            } else if !are_free(LOCK_LIMIT) {
                Err("malloc is locked".to_owned())
            } else {
                Ok(())
            }
        };
        let call = Call {
            steps,
            code: &self.code,
            suspends_seccomp: false,
            purpose: Purpose::Library,
            are_locks_seen: locks.is_some(),
        };
        ramson_inject::call(&self.process, &call, &mut is_safe).map_err(|problem| match problem {
            Problem::NoThread(why) => {
                let why = why.map_or(String::new(), |why| format!(" ({why})"));
                let why = format!("no thread is in a safe state for a call{why}");
                refused(self.target, &why, "Try again, or restart it under \"ramson run\"")
            }
            Problem::Seccomp(Seccomp::Refused(name)) => {
                let why =
                    format!("its seccomp filter might kill it for {name}, which libramson.so needs");
                refused(self.target, &why, "Restart it under \"ramson run\"")
            }
            Problem::Seccomp(Seccomp::Unreadable(error)) if rights::is_administrator() => {
                let why = format!(
                    "it has a seccomp filter that ramson cannot read, so loading libramson.so might kill it: {error}"
                );
                refused(self.target, &why, "Restart it under \"ramson run\"")
            }
            other => failure(self.target, other),
        })
    }
}

/// Works on a process that is opened before anything is learnt of it. If the work fails because the process has ended or started another
/// program meanwhile, the failure says that, and no consequence of it.
pub fn with_process<T>(
    target: &Target,
    work: impl FnOnce(Arc<Process>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let process = open(target)?;
    work(Arc::clone(&process)).map_err(|consequence| match process.is_same() {
        Ok(()) => consequence,
        Err(problem) => failure(target, problem),
    })
}

/// A process, as it is before anything is learnt of it.
pub fn open(target: &Target) -> Result<Arc<Process>, Failure> {
    Process::open(target.pid).map(Arc::new).map_err(|problem| failure(target, problem))
}

/// Returns the mapped code of a library, and its file. If there are several, returns the one that is mapped last: it came with the program, because
/// the loader maps later ones (dlmopen) below.
pub fn library<'a>(
    target: &Target,
    areas: &'a [Area],
    is_it: impl Fn(&Area) -> bool,
) -> Option<(&'a Area, Content)> {
    let area = areas.iter().rfind(|area| is_code(area) && is_it(area))?;
    Some((area, Binary::mapped(target.pid, area)?.here()?))
}

fn is_code(area: &Area) -> bool {
    area.permissions.contains(&b'x')
}

fn code_in(target: &Target, (area, binary): (&Area, Content)) -> Result<Code, Failure> {
    let libc = Library::new(&binary, area.start, area.offset);
    libc.and_then(|libc| libc.code())
        .ok_or_else(|| refused(target, "ramson does not know its C library", NOTHING))
}

/// Reads again, up to ten times in all, because a busy heap may spoil a reading.
pub fn patiently<T, E>(mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    const MOST_TRIES: u32 = 10;
    for _ in 1..MOST_TRIES {
        match read() {
            Ok(read) => return Ok(read),
            Err(_) => sleep(Duration::from_millis(2)),
        }
    }
    read()
}

/// Fails if an act on the process is impossible or unsafe, as far as /proc tells.
fn check(target: &Target) -> Result<(), Failure> {
    let status = text::read(format!("/proc/{}/status", target.pid)).map_err(|_| gone(target))?;
    let field = |name: &str| stat::line(&status, name);
    let number = |name: &str| field(name).and_then(|value| value.parse::<i32>().ok()).unwrap_or(0);
    let tracer = number("TracerPid");
    if let Ok(tracer @ 1..) = u32::try_from(tracer) {
        return Err(traced(target, tracer));
    }
    if field("State").is_some_and(|state| state.starts_with(['T', 't'])) {
        return Err(refused(target, "it is stopped", "Continue it first (kill -CONT)"));
    }
    if field("x86_Thread_features").is_some_and(|features| features.contains("shstk")) {
        let why = "it has a shadow stack, which refuses calls from outside";
        return Err(refused(target, why, NOTHING));
    }
    if program::is_32_bit(target.pid) {
        let next = "ramson can make calls only in 64-bit programs";
        return Err(refused(target, "a 32-bit program", next));
    }
    if ramson_inject::share_memory(number("Pid"), number("PPid")) {
        let why = "it shares its memory with its parent (vfork)";
        return Err(refused(target, why, "Wait until it has started its program"));
    }
    Ok(())
}

fn without_libc(target: &Target, areas: &[Area]) -> (&'static str, String) {
    let obstacle = program::obstacle_of_running(target.pid);
    if obstacle.as_ref().is_some_and(|it| it.finding == program::STATIC_GO) {
        let next = format!("\"ramson report {}\" shows Go's own heap profile", target.pid);
        return ("a Go program without C", next);
    }
    let why = if areas.iter().any(|area| area.path.contains("musl")) {
        "linked with musl: ramson makes calls only in programs with glibc"
    } else if obstacle.is_some() {
        "statically linked, so its allocator's functions cannot be found"
    } else {
        "no C library is mapped in it"
    };
    (why, format!("\"ramson explain {}\" explains its RSS from outside", target.pid))
}

/// Returns the failure of a call that was not made, in one line.
pub fn failure(target: &Target, problem: Problem) -> Failure {
    let refused = |why: &str, next: &str| refused(target, why, next);
    match problem {
        Problem::Denied(error) => denied(target, &error),
        Problem::Seccomp(why) => forbidden(target, &why),
        Problem::NoThread(why) => refused(
            &format!(
                "no thread is in a safe state for a call{}",
                why.map_or(String::new(), |why| format!(" ({why})"))
            ),
            "Try again later, or start it with \"ramson run --trim-every 30s\", which keeps trying",
        ),
        Problem::Unfinished(tid) => refused(
            &format!(
                "thread {tid} is still in the call after {} s; it will finish without ramson",
                ramson_inject::CALL_LIMIT.as_secs()
            ),
            "Check later with \"ramson explain\"",
        ),
        Problem::Gone => gone(target),
        Problem::Changed => refused("it now runs another program (exec)", NOTHING),
        Problem::Failed(error) => refused(&error.to_string(), NOTHING),
    }
}

/// A filter of system calls might kill the process.
fn forbidden(target: &Target, why: &Seccomp) -> Failure {
    const ACCEPT: &str = "--suspend-seccomp lifts the filter for that time; if ramson is killed meanwhile, the process may die, too";
    let (finding, next) = match why {
        Seccomp::Strict => ("it is in seccomp's strict mode".into(), NOTHING),
        Seccomp::Unreadable(_) if !rights::is_administrator() => (
            "it has a seccomp filter that only root can read, so calling its allocator might kill it".into(),
            "Run it with sudo, outside of containers",
        ),
        Seccomp::Unreadable(error) => (
            format!("it has a seccomp filter that ramson cannot read, so calling its allocator might kill it: {error}"),
            ACCEPT,
        ),
        Seccomp::Refused(name) => (
            format!("its seccomp filter might kill it for {name}, which an external trim may need"),
            ACCEPT,
        ),
    };
    refused(target, &finding, next)
}

/// The kernel refuses the right to trace.
fn denied(target: &Target, error: &io::Error) -> Failure {
    // It came between the look at /proc and this.
    let mut threads =
        fs::read_dir(format!("/proc/{}/task", target.pid)).into_iter().flatten().flatten();
    let tracer = threads.find_map(|thread| {
        let status = text::read(thread.path().join("status")).ok()?;
        stat::line(&status, "TracerPid")?.parse().ok().filter(|&tracer| tracer != 0)
    });
    if let Some(tracer) = tracer {
        return traced(target, tracer);
    }
    refused(
        target,
        &format!("the kernel does not allow ramson to trace it{}: {error}", rights::scope()),
        &rights::next_step(target.pid),
    )
}

/// Another process traces it.
fn traced(target: &Target, tracer: u32) -> Failure {
    let name = text::read(format!("/proc/{tracer}/comm")).unwrap_or_default();
    if name.trim_end() == "ramson" {
        let why = format!("another ramson (process {tracer}) is working on it");
        return refused(target, &why, "Try again when that process has ended");
    }
    let why = format!("process {tracer} traces it already (a debugger, strace?)");
    refused(target, &why, "Detach the tracer, or wait until it ends")
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// In one line: who, why, what next.
pub fn refused(target: &Target, why: &str, next: &str) -> Failure {
    Failure::failed(format!("process {} ({}): {why}. {next}", target.pid, target.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_source::find_target;
    use std::process::{Child, Command, Stdio};

    /// Returns the message of a failure that is caused by what happens to the process before it.
    fn said_when(happens: impl FnOnce(&mut Child)) -> String {
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", "read line; exec cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let name = move || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        while name() != "sh\n" {}
        let target = find_target(&pid.to_string()).unwrap();
        let failed = with_process(&target, |_| {
            happens(&mut child);
            Err::<(), _>(refused(&target, "a consequence", NOTHING))
        });
        drop(child.stdin.take());
        child.kill().unwrap();
        child.wait().unwrap();
        failed.unwrap_err().to_string()
    }

    #[test]
    fn failure_names_end_or_exec() {
        let state = |child: &Child| fs::read_to_string(format!("/proc/{}/stat", child.id()));
        let ended = said_when(|child| {
            child.kill().unwrap();
            while !state(child).unwrap().contains(") Z ") {}
        });
        assert!(ended.contains("it ended while"), "{ended}");
        let reaped = said_when(|child| {
            child.kill().unwrap();
            child.wait().unwrap();
        });
        assert!(reaped.contains("it ended while"), "{reaped}");
        let changed = said_when(|child| {
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
            while !state(child).unwrap().contains("(cat)") {}
        });
        assert!(changed.contains("now runs another program"), "{changed}");
        assert!(said_when(|_| ()).contains("a consequence"));
    }
}

//! Code to walk through: frames.c and frames.cc in many builds, and machine code without unwind tables.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub type Visitor = unsafe extern "C" fn(*mut c_void);
pub type Way = unsafe extern "C" fn(*const Tour, u64, i32);
type Recurse = unsafe extern "C" fn(*const Tour, i32) -> i32;

/// struct tour of frames.c.
#[repr(C)]
pub struct Tour {
    pub visit: Visitor,
    pub argument: *mut c_void,
    pub ways: *const Way,
    pub way_count: u64,
}

/// Options of the builds in C.
const C_BUILDS: [&[&str]; 5] = [
    &["-O2", "-fomit-frame-pointer"],
    &["-O3", "-fomit-frame-pointer"],
    &["-O2", "-fno-omit-frame-pointer"],
    &["-O0"],
    &["-Os", "-fstack-protector-all"],
];
const CXX_BUILDS: [&[&str]; 2] = [&["-O2"], &["-O3", "-fno-omit-frame-pointer"]];

/// Builds that call each other, loaded for good.
pub struct Programs {
    ways: Vec<Way>,
    recurse: Recurse,
}

/// Frames that framehop, backtrace() and we can undo.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| Programs::build(&C_BUILDS, &CXX_BUILDS, &[]))
}

/// Also functions that align their stack, whose tables ask for a word that the function stored. framehop 0.16 does not read
/// it and takes the copy of the return address below for a frame of its own.
pub fn realigned_programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let vector = if is_x86_feature_detected!("avx2") { "-mavx2" } else { "-msse2" };
        Programs::build(&C_BUILDS, &CXX_BUILDS, &["-DREALIGNED", "-mstackrealign", vector])
    })
}

/// As most distributions build.
pub fn without_frame_pointers() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let options: &[&str] = &["-O2", "-fomit-frame-pointer"];
        Programs::build(&[options; 3], &[options], &[])
    })
}

impl Programs {
    fn build(c: &[&[&str]], cxx: &[&[&str]], more: &[&str]) -> Self {
        let open =
            |source, options: &&[&str]| Library::open(&build(source, &[options, more].concat()));
        let c: Vec<Library> = c.iter().map(|options| open("frames.c", options)).collect();
        let cxx = cxx.iter().map(|options| open("frames.cc", options));
        // SAFETY: frames.c defines it with this type.
        let recurse =
            unsafe { std::mem::transmute::<*mut c_void, Recurse>(c[0].symbol("recurse")) };
        let ways = c.iter().map(Library::way).chain(cxx.map(|library| library.way())).collect();
        Self { ways, recurse }
    }

    /// Calls `visit` from the stack that `seed` stands for.
    pub fn tour<F: FnMut()>(&self, seed: u64, depth: i32, visit: F) {
        let mut visit = visit;
        let tour = tour_of(&mut visit, &self.ways);
        let first = self.ways[seed as usize % self.ways.len()];
        // SAFETY: `way` is what it says; the tour outlives the call.
        unsafe { first(&tour, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), depth) }
    }

    pub fn recurse<F: FnMut()>(&self, depth: i32, visit: F) {
        let mut visit = visit;
        // SAFETY: as above.
        unsafe { (self.recurse)(&tour_of(&mut visit, &self.ways), depth) };
    }
}

/// A tour that calls `visit`.
pub fn tour_of<F: FnMut()>(visit: &mut F, ways: &[Way]) -> Tour {
    Tour {
        visit: call::<F>,
        argument: (&raw mut *visit).cast(),
        ways: ways.as_ptr(),
        way_count: ways.len() as u64,
    }
}

/// Calls the closure that `argument` points to.
pub unsafe extern "C" fn call<F: FnMut()>(argument: *mut c_void) {
    // SAFETY: the argument is the closure that was given along with this function.
    unsafe { (*argument.cast::<F>())() }
}

/// A shared library; unloaded by `close`, never by itself.
pub struct Library(*mut c_void);

impl Library {
    pub fn open(path: &Path) -> Self {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: loads a library of ours, which has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "cannot load {path:?}");
        Self(handle)
    }

    pub fn symbol(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null());
        symbol
    }

    pub fn way(&self) -> Way {
        // SAFETY: frames.c and frames.cc define it with this type.
        unsafe { std::mem::transmute::<*mut c_void, Way>(self.symbol("way")) }
    }

    pub fn close(self) {
        // SAFETY: nothing of it is in use: the caller has returned from it.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Compiles a source of this directory into a new shared library.
pub fn build(source: &str, options: &[&str]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let directory = directory();
    let target = directory.join(format!("{}.so", NUMBER.fetch_add(1, Relaxed)));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/walk/tests").join(source);
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([&target, &from])
        .args(options)
        .status()
        .expect("these tests need gcc and g++");
    assert!(status.success(), "{compiler} {options:?} {source}");
    target
}

/// A directory for this test process, next to the tests themselves. It stays until a later run finds it abandoned.
fn directory() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let test = std::env::current_exe().unwrap();
        let directory = test.parent().unwrap().join("ramson-walk-tests");
        std::fs::create_dir_all(&directory).unwrap();
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let own = directory.join(std::process::id().to_string());
        std::fs::create_dir_all(&own).unwrap();
        own
    };
    DIRECTORY.get_or_init(make).clone()
}

/// Machine code without unwind tables that calls its first argument with its second.
pub struct Jit(Way);

impl Jit {
    pub fn new(code: &[u8]) -> Self {
        // SAFETY: new memory of our own, large enough for the code, never unmapped.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let map_flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), 4096, protection, map_flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            std::ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len());
            Self(std::mem::transmute::<*mut c_void, Way>(memory))
        }
    }

    /// push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret
    pub fn with_frame_pointer() -> Self {
        Self::new(b"\x55\x48\x89\xe5\x48\x89\xf8\x48\x89\xf7\xff\xd0\x5d\xc3")
    }

    /// sub rsp, 24; mov rax, rdi; mov rdi, rsi; call rax; lea rsp, [rsp + 24]; ret
    pub fn without_frame_pointer() -> Self {
        Self::new(b"\x48\x83\xec\x18\x48\x89\xf8\x48\x89\xf7\xff\xd0\x48\x8d\x64\x24\x18\xc3")
    }

    /// sub rsp, 8; mov rax, rdi; mov rdi, rsi; call rax; add rsp, 8; ret
    pub fn trampoline() -> Self {
        Self::new(b"\x48\x83\xec\x08\x48\x89\xf8\x48\x89\xf7\xff\xd0\x48\x83\xc4\x08\xc3")
    }

    /// push rbp; mov rbp, rdx; sub rsp, 16; mov rax, rdi; mov rdi, rsi; call rax; add rsp, 16; pop rbp; ret
    pub fn with_garbage() -> Self {
        Self::new(
            b"\x55\x48\x89\xd5\x48\x83\xec\x10\x48\x89\xf8\x48\x89\xf7\xff\xd0\x48\x83\xc4\x10\x5d\xc3",
        )
    }

    pub fn address(&self) -> u64 {
        self.0 as usize as u64
    }

    /// Runs the code, which calls `visit`; `third` is its third argument.
    pub fn run<F: FnMut()>(&self, third: u64, mut visit: F) {
        type Code = unsafe extern "C" fn(Visitor, *mut c_void, u64);
        // SAFETY: the code above has this type.
        unsafe {
            let code = std::mem::transmute::<Way, Code>(self.0);
            code(call::<F>, (&raw mut visit).cast(), third);
        }
    }
}

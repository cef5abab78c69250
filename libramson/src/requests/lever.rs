//! The function that gives kept memory back: that of the allocator whose malloc the program really calls.

use crate::resolve::{self, LinkMap};
use crate::walk::Elf;
use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use ramson_format::Function;

type MallocTrim = extern "C" fn(usize) -> i32;
type Mallctl = extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> i32;
type ReleaseFreeMemory = extern "C" fn();
type ErrnoLocation = extern "C" fn() -> *mut i32;

/// Of all arenas: MALLCTL_ARENAS_ALL of jemalloc 5.
const PURGE: &CStr = c"arena.4096.purge";
/// What only the C library exports.
const LIBC: &CStr = c"gnu_get_libc_version";

enum Target {
    Glibc(MallocTrim),
    Jemalloc(Mallctl),
    Tcmalloc(ReleaseFreeMemory),
}

/// What can be called, and whose it is.
pub struct Lever {
    target: Target,
    errno: ErrnoLocation,
    /// Which defines malloc.
    pub allocator: &'static LinkMap,
    pub libc: &'static LinkMap,
    pub libc_data: (u64, u64),
    pub libc_code: (u64, u64),
}

impl Lever {
    /// `None` for an allocator that has no such function.
    pub fn find() -> Option<Self> {
        // As `bind` found them: these are objects from the start, which stay. The search ends there, before any that may go.
        let ours = resolve::own_dynamic();
        let (_, allocator) = resolve::find_next(c"malloc", ours)?;
        let (_, frees) = resolve::find_next(c"free", ours)?;
        let (_, libc) = resolve::find_next(LIBC, ours)?;
        let (errno, _) = resolve::find_next(c"__errno_location", ours)?;
        if !core::ptr::eq(allocator, frees) {
            return None;
        }
        let elf = Elf::at(libc.bias as u64)?;
        // SAFETY: errno.h: the C library's function of this name has this type; found in an object from the start, it stays.
        let errno = unsafe { transmute::<usize, ErrnoLocation>(errno) };
        let target = Target::of(allocator, core::ptr::eq(allocator, libc))?;
        Some(Self {
            target,
            errno,
            allocator,
            libc,
            libc_data: elf.data()?,
            libc_code: elf.code()?,
        })
    }

    pub fn is_glibc(&self) -> bool {
        matches!(self.target, Target::Glibc(_))
    }

    /// Calls it; errno stays as it is.
    pub fn call(&self) -> Function {
        let errno = (self.errno)();
        // SAFETY: this thread's errno, which lives as long as the thread and is only its own. No reference: the function below writes it.
        let before = unsafe { *errno };
        let function = match self.target {
            Target::Glibc(trim) => {
                trim(0);
                Function::MallocTrim
            }
            Target::Jemalloc(control) => {
                let none = core::ptr::null_mut();
                control(PURGE.as_ptr(), none, none.cast(), none, 0);
                Function::Mallctl
            }
            Target::Tcmalloc(release) => {
                release();
                Function::ReleaseFreeMemory
            }
        };
        // SAFETY: as above.
        unsafe { *errno = before };
        function
    }
}

impl Target {
    fn of(allocator: &LinkMap, is_libc: bool) -> Option<Self> {
        let find = |name| resolve::find_in(allocator, name);
        // SAFETY: the functions of these names have these types: malloc.h, jemalloc.h, malloc_extension_c.h.
        unsafe {
            if is_libc {
                return find(c"malloc_trim")
                    .map(|address| Self::Glibc(transmute::<usize, MallocTrim>(address)));
            }
            if let Some(address) = find(c"mallctl") {
                return Some(Self::Jemalloc(transmute::<usize, Mallctl>(address)));
            }
            let address = find(c"MallocExtension_ReleaseFreeMemory")?;
            Some(Self::Tcmalloc(transmute::<usize, ReleaseFreeMemory>(address)))
        }
    }
}

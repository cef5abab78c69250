//! Compares a stack according to ramson, framehop and the C library.

use crate::arch::{self, SIGNAL_TRAMPOLINE};
use crate::walk::frames::StackMemory;
use crate::walk::{Caller, End, MappingFacts, NewMapping, StackView, Walker, view_of};
use crate::{process, resolve, sys};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use ramson_format::{LookupAddress, MAX_DEPTH};
use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Mutex;

/// A sink that keeps what it is told.
#[derive(Default)]
pub struct Told {
    pub added: Mutex<Vec<(String, Range<u64>)>>,
    pub replaced: Mutex<Vec<u32>>,
}

impl NewMapping for Told {
    fn add(&self, mapping: &MappingFacts) -> u32 {
        let mut added = self.added.lock().unwrap();
        let path = String::from_utf8_lossy(mapping.path).into_owned();
        added.push((path, mapping.start..mapping.end));
        added.len() as u32 - 1
    }

    fn replaced(&self, index: u32, start: u64) {
        assert_eq!(self.added.lock().unwrap()[index as usize].1.start, start);
        self.replaced.lock().unwrap().push(index);
    }
}

/// Tells the walker which objects are there from the start, as the first allocation does in a program.
pub fn read_settings() {
    // The settings' reader takes AT_RANDOM's bytes as an aligned word, which builds with debug assertions do not accept.
    if !cfg!(debug_assertions) {
        process::read_config();
    }
}

pub fn new_walker() -> Box<Walker> {
    read_settings();
    // SAFETY: all zero is the initial state of a walker.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Walker>()).cast()) }
}

/// Registers of the function that calls this.
#[unsafe(naked)]
extern "C" fn capture(_to: &mut [u64; 3]) {
    std::arch::naked_asm!(
        "mov rax, [rsp]",
        "mov [rdi], rax",
        "lea rax, [rsp + 8]",
        "mov [rdi + 8], rax",
        "mov [rdi + 16], rbp",
        "ret",
    )
}

/// One stack according to each of them, as return addresses; after a signal trampoline comes an instruction's address.
#[derive(Debug)]
pub struct Stacks {
    pub ours: Vec<u64>,
    pub end: End,
    pub framehop: Vec<u64>,
    /// Empty where it was not asked for.
    pub glibc: Vec<u64>,
    pub is_foreign: bool,
}

impl Stacks {
    /// All three agree, and the walk came to the outermost frame.
    #[track_caller]
    pub fn assert_complete_and_equal(&self) {
        assert_eq!(self.ours, self.framehop);
        self.assert_complete_and_as_backtrace();
    }

    /// The same without framehop. The first addresses are two calls in one function.
    #[track_caller]
    pub fn assert_complete_and_as_backtrace(&self) {
        assert_eq!(self.ours[1..], self.glibc[1..]);
        assert_eq!(self.end, End::Outermost);
    }
}

pub fn is_trampoline(address: u64) -> bool {
    let mut bytes = [0; SIGNAL_TRAMPOLINE.len()];
    sys::read_own_memory(sys::process_id(), &[[address as usize, bytes.len()]], &mut bytes);
    bytes == SIGNAL_TRAMPOLINE
}

/// Lookup addresses as return addresses.
fn as_return_addresses(lookups: &[LookupAddress]) -> Vec<u64> {
    let mut after_trampoline = false;
    let convert = |&LookupAddress(lookup): &LookupAddress| {
        let address = if after_trampoline { lookup } else { lookup + 1 };
        after_trampoline = is_trampoline(address);
        address
    };
    lookups.iter().map(convert).collect()
}

unsafe extern "C" {
    pub fn backtrace(buffer: *mut *mut c_void, size: i32) -> i32;
}

pub fn view(caller: &Caller, copy: &mut [u8]) -> StackView {
    let thread = arch::thread();
    thread.tid.set(sys::thread_id());
    let main_high = resolve::initial_stack().map_or(0, |stack| stack as u64);
    view_of(thread, caller, sys::process_id(), main_high, copy)
}

/// The registers of the calling function. True as long as that function runs.
#[inline(always)]
pub fn caller_here() -> Caller {
    let mut registers = [0u64; 3];
    capture(&mut registers);
    let [return_address, stack_pointer, frame_pointer] = registers;
    Caller { lookup_address: LookupAddress(return_address - 1), stack_pointer, frame_pointer }
}

/// Walks the stack of the calling function. `glibc` says whether backtrace() is to be asked too.
#[inline(never)]
pub fn observe(walker: &Walker, sink: &Told, glibc: bool) -> Stacks {
    let caller = caller_here();
    let mut copy = vec![0; 32 << 10];
    let view = view(&caller, &mut copy);
    let mut frames = [LookupAddress(0); MAX_DEPTH];
    let walked = walker.walk(caller, &view, &mut frames, sink);
    let mut found = [std::ptr::null_mut(); MAX_DEPTH];
    // SAFETY: the buffer is as long as is said.
    let count = if glibc { unsafe { backtrace(found.as_mut_ptr(), MAX_DEPTH as i32) } } else { 0 };
    let mut framehop = vec![0; MAX_DEPTH];
    let depth = framehop_walk(&unwinder(), &mut CacheX86_64::new(), caller, &view, &mut framehop);
    framehop.truncate(depth);
    Stacks {
        ours: as_return_addresses(&frames[..walked.depth]),
        end: walked.end,
        framehop,
        glibc: found[..count as usize].iter().map(|&address| address as u64).collect(),
        is_foreign: view.is_foreign,
    }
}

/// framehop's return addresses; their number.
pub fn framehop_walk(
    unwinder: &UnwinderX86_64<&'static [u8]>,
    cache: &mut CacheX86_64,
    caller: Caller,
    view: &StackView,
    frames: &mut [u64],
) -> usize {
    let mut read_stack = |address| view.read(address).ok_or(());
    let mut address = caller.lookup_address.0 + 1;
    let mut registers = UnwindRegsX86_64::new(address, caller.stack_pointer, caller.frame_pointer);
    for (index, frame) in frames.iter_mut().enumerate() {
        *frame = address;
        let Some(from) = FrameAddress::from_return_address(address) else { return index };
        match unwinder.unwind_frame(from, &mut registers, cache, &mut read_stack) {
            Ok(Some(next)) if next != 0 => address = next,
            _ => return index + 1,
        }
    }
    frames.len()
}

/// A framehop unwinder that knows every object of this process.
pub fn unwinder() -> UnwinderX86_64<&'static [u8]> {
    let mut unwinder = UnwinderX86_64::new();
    // SAFETY: `add_object` takes what dl_iterate_phdr gives and the unwinder as its data.
    unsafe { libc::dl_iterate_phdr(Some(add_object), (&raw mut unwinder).cast()) };
    unwinder
}

unsafe extern "C" fn add_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    unwinder: *mut c_void,
) -> i32 {
    // SAFETY: the loader's facts about a loaded object; the data is the unwinder of `unwinder`.
    let (info, unwinder) =
        unsafe { (&*info, &mut *unwinder.cast::<UnwinderX86_64<&'static [u8]>>()) };
    // SAFETY: the loader keeps the headers while the object is loaded.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME) else {
        return 0;
    };
    let segment = loads()
        .find(|load| (load.p_vaddr..load.p_vaddr + load.p_filesz).contains(&header.p_vaddr))
        .unwrap();
    let segment_end = segment.p_vaddr + segment.p_filesz;
    let table = info.dlpi_addr + header.p_vaddr;
    // SAFETY: the version-1 header: encodings, then the PC-relative address of .eh_frame as every linker writes it.
    let (encoding, offset) =
        unsafe { (*(table as *const [u8; 4]), ((table + 4) as *const i32).read_unaligned()) };
    assert_eq!(encoding[..2], [1, 0x1b]);
    let frames = (header.p_vaddr + 4).wrapping_add_signed(offset as i64);
    let bytes = |range: &Range<u64>| -> &'static [u8] {
        // SAFETY: inside one loaded segment.
        unsafe {
            std::slice::from_raw_parts(
                (info.dlpi_addr + range.start) as *const u8,
                (range.end - range.start) as usize,
            )
        }
    };
    let header_range = header.p_vaddr..header.p_vaddr + header.p_memsz;
    let frames_range = frames..segment_end;
    let low = loads().map(|load| load.p_vaddr).min().unwrap() & !4095;
    let high = loads().map(|load| load.p_vaddr + load.p_memsz).max().unwrap();
    unwinder.add_module(Module::new(
        String::new(),
        info.dlpi_addr + low..info.dlpi_addr + high,
        info.dlpi_addr,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_hdr: Some(bytes(&header_range)),
            eh_frame_hdr_svma: Some(header_range),
            eh_frame: Some(bytes(&frames_range)),
            eh_frame_svma: Some(frames_range),
            ..Default::default()
        },
    ));
    0
}

//! Real stacks, walked while they are there.

use super::oracle::{Stacks, Told, is_trampoline, new_walker, observe};
use super::programs::{Library, build, programs, realigned_programs, tour_of};
use crate::walk::{End, Walker};
use ramson_format::MAX_DEPTH;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub fn observed_from(walker: &Walker, run: impl FnOnce(&mut dyn FnMut())) -> Stacks {
    let mut stacks = None;
    run(&mut || stacks = Some(observe(walker, &Told::default(), true)));
    stacks.expect("the visitor was not called")
}

#[test]
fn mixed_frames_agree_with_framehop() {
    let walker = new_walker();
    let programs = programs();
    let mut deepest = 0;
    for seed in 0..400 {
        let depth = seed as i32 % 12 + 1;
        let stacks = observed_from(&walker, |visit| programs.tour(seed, depth, visit));
        stacks.assert_complete_and_equal();
        assert!(stacks.ours.len() > depth as usize * 2);
        deepest = deepest.max(stacks.ours.len());
    }
    assert!(deepest > 40);
}

#[test]
fn aligned_stacks_agree_with_backtrace() {
    let walker = new_walker();
    let programs = realigned_programs();
    for seed in 0..400 {
        let depth = seed as i32 % 12 + 1;
        observed_from(&walker, |visit| programs.tour(seed, depth, visit))
            .assert_complete_and_as_backtrace();
    }
}

#[test]
fn new_threads_walk_to_first_frame() {
    let walker = new_walker();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let walker = &walker;
            scope.spawn(move || {
                for round in 0..50 {
                    let seed = seed * 1000 + round;
                    observed_from(walker, |visit| programs().tour(seed, 8, visit))
                        .assert_complete_and_equal();
                }
            });
        }
    });
}

/// Stacks that the first thread saw before main.
static BEFORE_MAIN: Mutex<Option<Stacks>> = Mutex::new(None);

#[used]
#[unsafe(link_section = ".init_array")]
static OBSERVE_BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn observe_before_main() {
        let stacks = observe(&new_walker(), &Told::default(), true);
        *BEFORE_MAIN.lock().unwrap() = Some(stacks);
    }
    observe_before_main
};

#[test]
fn first_thread_walks_to_entry() {
    let before_main = BEFORE_MAIN.lock().unwrap();
    let stacks = before_main.as_ref().unwrap();
    stacks.assert_complete_and_equal();
    assert!(!stacks.is_foreign);
}

#[test]
fn overdeep_stack_is_cut() {
    let walker = new_walker();
    let stacks = observed_from(&walker, |visit| programs().recurse(3 * MAX_DEPTH as i32, visit));
    assert_eq!((stacks.end, stacks.ours.len()), (End::Cut, MAX_DEPTH));
    assert_eq!(stacks.ours, stacks.framehop);
    // Far more pages than one system call asks about.
    let stacks = observed_from(&walker, |visit| programs().recurse(6000, visit));
    assert_eq!((stacks.end, stacks.is_foreign), (End::Cut, false));
}

/// Serializes the tests that install a handler, and gives the handler its walker.
static SIGNALS: Mutex<()> = Mutex::new(());

thread_local! {
    static IN_HANDLER: RefCell<Option<Stacks>> = const { RefCell::new(None) };
}

extern "C" fn handle(_: i32) {
    let stacks = observe(&new_walker(), &Told::default(), true);
    IN_HANDLER.with_borrow_mut(|slot| *slot = Some(stacks));
}

fn with_handler(options: i32, run: impl FnOnce()) -> Stacks {
    // SAFETY: the handler stays callable; the old action is put back.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = options;
        let mut old = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, &mut old), 0);
        run();
        libc::sigaction(libc::SIGUSR2, &old, std::ptr::null_mut());
    }
    IN_HANDLER.with_borrow_mut(Option::take).expect("the handler has run")
}

fn raise() {
    // SAFETY: the handler is installed; raise is always allowed.
    unsafe { libc::raise(libc::SIGUSR2) };
}

#[test]
fn walk_passes_signal_frames() {
    let _guard = SIGNALS.lock().unwrap();
    for seed in 0..30 {
        let stacks = with_handler(0, || programs().tour(seed, 6, raise));
        // framehop does not know signal frames.
        stacks.assert_complete_and_as_backtrace();
        assert!(stacks.ours.iter().any(|&address| is_trampoline(address)));
    }
}

#[test]
fn walk_ends_on_alternate_stack() {
    let _guard = SIGNALS.lock().unwrap();
    let mut memory = GuardedStack::new(16);
    let stack = libc::stack_t { ss_sp: memory.low().cast(), ss_flags: 0, ss_size: memory.bytes() };
    // SAFETY: the memory outlives its use; the old stack is put back.
    let stacks = unsafe {
        let mut old = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(&stack, &mut old), 0);
        let stacks = with_handler(libc::SA_ONSTACK, || programs().tour(3, 6, raise));
        libc::sigaltstack(&old, std::ptr::null_mut());
        stacks
    };
    assert!(stacks.is_foreign);
    let trampoline = stacks.ours.iter().position(|&address| is_trampoline(address)).unwrap();
    // The handler, the trampoline and the interrupted instruction; that one's stack is not in the view.
    assert_eq!(stacks.ours.len(), trampoline + 2);
    assert_eq!(stacks.ours[1..], stacks.glibc[1..trampoline + 2]);
    assert_eq!(stacks.end, End::Failed);
}

/// Pages between two that cannot be accessed.
pub struct GuardedStack {
    memory: *mut u8,
    pages: usize,
}

impl GuardedStack {
    pub fn new(pages: usize) -> Self {
        let map_flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let bytes = (pages + 2) * 4096;
        // SAFETY: new memory; its inner pages are made accessible.
        let memory = unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, map_flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(memory.add(4096), pages * 4096, access), 0);
            memory.cast()
        };
        Self { memory, pages }
    }

    pub fn low(&mut self) -> *mut u8 {
        // SAFETY: one page into the mapping.
        unsafe { self.memory.add(4096) }
    }

    pub fn bytes(&self) -> usize {
        self.pages * 4096
    }
}

impl Drop for GuardedStack {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { libc::munmap(self.memory.cast(), (self.pages + 2) * 4096) };
    }
}

thread_local! {
    static IN_COROUTINE: Cell<Option<*mut (dyn FnMut() + 'static)>> = const { Cell::new(None) };
}

extern "C" fn coroutine() {
    let run = IN_COROUTINE.take().expect("a function to run");
    // SAFETY: `on_new_stack` put it there and waits for it.
    unsafe { (*run)() }
}

/// Runs `run` as a coroutine on a stack of its own.
pub fn on_new_stack(pages: usize, run: &mut dyn FnMut()) {
    let mut stack = GuardedStack::new(pages);
    // SAFETY: the pointer is used before this function returns. getcontext and makecontext as their manual asks; the
    // coroutine ends by returning to `back`.
    unsafe {
        IN_COROUTINE.set(Some(std::mem::transmute::<&mut dyn FnMut(), *mut dyn FnMut()>(run)));
        let mut back: libc::ucontext_t = std::mem::zeroed();
        let mut context: libc::ucontext_t = std::mem::zeroed();
        assert_eq!(libc::getcontext(&mut context), 0);
        context.uc_stack.ss_sp = stack.low().cast();
        context.uc_stack.ss_size = stack.bytes();
        context.uc_link = &mut back;
        libc::makecontext(&mut context, coroutine, 0);
        assert_eq!(libc::swapcontext(&mut back, &context), 0);
    }
}

#[test]
fn coroutine_is_walked_on_copy() {
    let mut all = Vec::new();
    on_new_stack(64, &mut || {
        let walker = new_walker();
        let observe = |seed| observed_from(&walker, |visit| programs().tour(seed, 5, visit));
        all.extend((0..20).map(observe));
    });
    assert_eq!(all.len(), 20);
    for stacks in all {
        assert!(stacks.is_foreign);
        assert_eq!(stacks.ours, stacks.framehop);
        assert_eq!(stacks.ours[1..], stacks.glibc[1..]);
        // Below the first frame lies the C library's __start_context, whose tables do not say that it is the outermost.
        assert_eq!(stacks.end, End::Failed);
    }
    // The thread's own stack is still known.
    let own = observe(&new_walker(), &Told::default(), true);
    assert!(!own.is_foreign);
    own.assert_complete_and_equal();
}

#[test]
fn library_without_index_is_reported() {
    let options = ["-O1", "-fno-omit-frame-pointer", "-Wl,--no-eh-frame-hdr"];
    let path = build("frames.c", &options);
    let library = Library::open(&path);
    let walker = new_walker();
    let told = Told::default();
    let mut ended = None;
    let mut visit = || ended = Some(observe(&walker, &told, false));
    let ways = [library.way()];
    // SAFETY: `way` is what it says.
    unsafe { (ways[0])(&tour_of(&mut visit, &ways), 1, 3) };
    let stacks = ended.unwrap();
    assert_eq!(stacks.end, End::Outermost);
    assert_eq!(stacks.ours, stacks.framehop);
    let added = told.added.lock().unwrap();
    assert!(added.iter().any(|(name, _)| *name == *path.to_str().unwrap()));
}

#[test]
fn moved_program_headers_are_walked() {
    let path = build("frames.c", &["-O2", "-fomit-frame-pointer"]);
    let mut bytes = std::fs::read(&path).unwrap();
    let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize;
    let headers = bytes[64..64 + count * 56].to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let offset = bytes.len() as u64;
    bytes.extend(&headers);
    bytes[32..40].copy_from_slice(&offset.to_le_bytes());
    bytes[64..64 + count * 56].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let library = Library::open(&path);
    let walker = new_walker();
    let ways = [library.way()];
    for seed in 0..20 {
        let stacks = observed_from(&walker, |mut visit| {
            // SAFETY: `way` is what it says.
            unsafe { (ways[0])(&tour_of(&mut visit, &ways), seed << 32, 6) };
        });
        stacks.assert_complete_and_equal();
    }
}

#[test]
fn libraries_share_address_over_time() {
    let paths = [["-O2", "-fomit-frame-pointer"], ["-O0", "-fno-omit-frame-pointer"]]
        .map(|options| build("frames.c", &options));
    let walker = new_walker();
    let told = Told::default();
    let mut starts = std::collections::HashSet::new();
    // More often than there are slots for objects.
    for round in 0..1200 {
        let library = Library::open(&paths[round % 2]);
        let way = library.way();
        starts.insert(way as usize & !0xfff);
        let mut stacks = None;
        let mut visit = || stacks = Some(observe(&walker, &told, round % 16 < 2));
        // SAFETY: `way` is what it says.
        unsafe { way(&tour_of(&mut visit, &[way]), round as u64 * 7, 3) };
        let stacks = stacks.unwrap();
        assert_eq!(stacks.end, End::Outermost, "round {round}");
        assert_eq!(stacks.ours, stacks.framehop, "round {round}");
        if round % 16 < 2 {
            stacks.assert_complete_and_equal();
        }
        library.close();
    }
    assert!(starts.len() < 100, "the loader did not use addresses again");
    let replaced = told.replaced.lock().unwrap();
    assert!(replaced.len() > 1100);
    // Each was told once.
    assert_eq!(replaced.iter().collect::<std::collections::HashSet<_>>().len(), replaced.len());
}

#[test]
fn walks_survive_concurrent_loading() {
    let walker = new_walker();
    let told = Told::default();
    let is_over = AtomicBool::new(false);
    let path = build("frames.c", &["-O2"]);
    std::thread::scope(|scope| {
        let walk = |seed: u64| {
            let expected = observed_from(&walker, |visit| programs().tour(seed, 9, visit));
            while !is_over.load(Relaxed) {
                let again = observed_from(&walker, |visit| programs().tour(seed, 9, visit));
                assert_eq!(again.end, End::Outermost);
                assert_eq!(again.ours.len(), expected.ours.len());
            }
        };
        for seed in 0..2 {
            scope.spawn(move || walk(seed));
        }
        for round in 0..200 {
            let library = Library::open(&path);
            let way = library.way();
            let mut visit = || {
                let stacks = observe(&walker, &told, false);
                assert_eq!(stacks.end, End::Outermost);
            };
            // SAFETY: `way` is what it says.
            unsafe { way(&tour_of(&mut visit, &[way]), round, 3) };
            library.close();
        }
        is_over.store(true, Relaxed);
    });
}

/// The C library's threads, with a stack that the program supplied.
#[test]
fn thread_on_own_memory_is_walked() {
    extern "C" fn run(result: *mut c_void) -> *mut c_void {
        let walker = new_walker();
        let stacks = observed_from(&walker, |visit| programs().tour(11, 6, visit));
        // SAFETY: the creator's variable, which it reads after joining.
        unsafe { *result.cast::<Option<Stacks>>() = Some(stacks) };
        std::ptr::null_mut()
    }
    let mut stack = GuardedStack::new(256);
    let mut result: Option<Stacks> = None;
    // SAFETY: as pthread_create(3) asks.
    unsafe {
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        assert_eq!(
            libc::pthread_attr_setstack(&mut attributes, stack.low().cast(), stack.bytes()),
            0
        );
        let mut thread = std::mem::zeroed();
        let argument = (&raw mut result).cast();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, run, argument), 0);
        libc::pthread_join(thread, std::ptr::null_mut());
    }
    let stacks = result.unwrap();
    stacks.assert_complete_and_equal();
    assert!(!stacks.is_foreign);
}

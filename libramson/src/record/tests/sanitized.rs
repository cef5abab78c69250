//! Threads on one recorder, for ThreadSanitizer (`make sanitize`): started and joined by pthreads, which it knows, and with no
//! synchronization between them but the recorder's own. The standard library is not instrumented: its locks and channels are false alarms.

use super::*;

const THREADS: usize = 4;
const ROUNDS: u64 = 1500;
/// Blocks on their way from one thread to the next.
static HANDED_OVER: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

struct Work<'a> {
    recording: &'a Recording,
    thread: u64,
}

extern "C" fn work(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the test's own, which outlives its threads.
    let Work { recording, thread } = unsafe { &*argument.cast::<Work>() };
    for round in 0..ROUNDS {
        let address = 0x7e00_0000_0000 + (thread * ROUNDS + round) * 16;
        // Stacks that all threads meet, some at the same time.
        recording.record(address, 100, 0x1000 + round % 300);
        let slot = &HANDED_OVER[(round * 7 + thread) as usize % HANDED_OVER.len()];
        let other = slot.swap(address, Relaxed);
        if other != 0
            && let Some(claim) = recording.recorder.claim(other)
        {
            recording.recorder.complete(claim, other);
        }
    }
    core::ptr::null_mut()
}

#[test]
fn recorder_threads_do_not_race() {
    let recording = Recording::new(16 << 20);
    HANDED_OVER.iter().for_each(|slot| slot.store(0, Relaxed));
    let works: Vec<_> =
        (0..THREADS as u64).map(|thread| Work { recording: &recording, thread }).collect();
    let threads: Vec<libc::pthread_t> = works
        .iter()
        .map(|each| {
            let mut thread = 0;
            let argument = core::ptr::from_ref(each).cast_mut().cast();
            // SAFETY: `work` takes what it is given, and every thread is joined below.
            let result =
                unsafe { libc::pthread_create(&mut thread, core::ptr::null(), work, argument) };
            assert_eq!(result, 0);
            thread
        })
        .collect();
    for thread in threads {
        // SAFETY: started above, and joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, core::ptr::null_mut()) }, 0);
    }
    let waiting = HANDED_OVER.iter().filter(|slot| slot.load(Relaxed) != 0).count() as u64;
    assert_eq!(recording.health(Health::Samples), THREADS as u64 * ROUNDS);
    assert_eq!(recording.live().len() as u64, waiting);
}

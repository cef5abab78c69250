//! Requests from outside: a thread that has just taken a sample has the allocator give back what it keeps free.
//!
//! To the program it is as if it had called that function where it called malloc. It is done only where that harms nothing: see
//! `place` and `arenas`, and docs/decisions/0009. No address comes from the file, which others of the same user can write.

mod arenas;
mod lever;
mod place;

use crate::arch::Thread;
use crate::record::Recorder;
use crate::walk::Caller;
use crate::{counter, permission, sys};
use arenas::Arenas;
use core::sync::atomic::Ordering::*;
use lever::Lever;
use ramson_format::{Looks, MOST_PATIENCE_NS, Outcome, Reason, Request, Requests, request_check};

/// Threads that come by and cannot serve, before a request is refused: each such look costs microseconds.
const MOST_LOOKS: u32 = 10_000;
/// Signals that faults raise, by number: they stay as the program has them.
const FAULTS: [u32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// The words of a request that is whole.
#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    deadline_ns: u64,
}

impl Asked {
    /// `None` for one that is just being written, or that nobody wrote as a request.
    fn read(request: &Request) -> Option<Self> {
        // Pairs with the order in which whoever asks writes: the number last.
        let number = request.number.load(Acquire);
        let deadline_ns = request.deadline_ns.load(Relaxed);
        let is_whole = request.check.load(Relaxed) == request_check(number, deadline_ns);
        (number != 0 && is_whole).then_some(Self { number, deadline_ns })
    }

    fn is_open(self, now_ns: u64) -> bool {
        (1..=MOST_PATIENCE_NS).contains(&self.deadline_ns.wrapping_sub(now_ns))
    }
}

/// Something is asked, and `thread` has just taken a sample for `caller`.
#[cold]
#[inline(never)]
pub fn serve(recorder: &Recorder, thread: &Thread, caller: Caller) {
    let requests = recorder.requests();
    let Some(asked) = Asked::read(&requests.request) else { return };
    // A child that shares the file or the memory is not who is asked. Nor is a program that has confined itself: it makes no call.
    if sys::process_id() != recorder.pid() {
        return;
    }
    if !asked.is_open(recorder.precise_ns()) {
        return drop_request(requests, asked.number);
    }
    if requests.answer.taken.load(Relaxed) >= asked.number {
        return;
    }
    let Err(reason) = try_to_serve(recorder, thread, caller, asked) else { return };
    let looks = Looks::of(requests.answer.looks.load(Relaxed), asked.number);
    requests.answer.looks.store(looks.one_more(asked.number, reason), Relaxed);
    let is_final = matches!(reason, Reason::Allocator | Reason::Confined);
    if is_final || looks.count >= MOST_LOOKS {
        refuse(recorder, thread, asked, reason);
    }
}

fn refuse(recorder: &Recorder, thread: &Thread, asked: Asked, reason: Reason) {
    // One answer after the other.
    let leave = permission::hold(recorder.pid());
    if leave.is_some() && take(recorder.requests(), asked.number) {
        let outcome = Outcome::Refused(reason);
        answer(recorder.requests(), asked.number, outcome, thread.tid.get(), 0);
    }
}

/// Nobody will look at it again.
fn drop_request(requests: &Requests, number: u64) {
    let _ = requests.request.number.compare_exchange(number, 0, Relaxed, Relaxed);
}

/// Whether this thread and no other deals with the request. A thread that read an earlier one, and was not run for long, does not.
fn take(requests: &Requests, number: u64) -> bool {
    requests.answer.taken.fetch_max(number, SeqCst) < number
}

fn answer(requests: &Requests, number: u64, outcome: Outcome, tid: u32, held_ns: u64) {
    let answer = &requests.answer;
    answer.outcome.store(outcome.code(), Relaxed);
    answer.tid.store(tid, Relaxed);
    answer.held_ns.store(held_ns, Relaxed);
    answer.done.store(number, Release);
    drop_request(requests, number);
}

/// Calls the allocator's function here and now, if that is harmless and nobody else does.
fn try_to_serve(
    recorder: &Recorder,
    thread: &Thread,
    caller: Caller,
    asked: Asked,
) -> Result<(), Reason> {
    // The precise clock of a program that forbids reading the cycle counter would kill it.
    if !permission::is_unfiltered() || !counter::is_readable() {
        return Err(Reason::Confined);
    }
    let lever = Lever::find().ok_or(Reason::Allocator)?;
    place::check(recorder, thread, caller, &lever)?;
    // Another thread is at it, or the program has just confined itself, which the next look finds.
    let Some(leave) = permission::hold(recorder.pid()) else { return Ok(()) };
    // Whatever a handler did from here on would be done inside of the allocator.
    let faults = FAULTS.iter().fold(0, |signals, number| signals | 1u64 << (number - 1));
    let before = sys::block_signals(&leave, !faults).map_err(|_| Reason::Confined)?;
    let result = call(recorder, thread, &lever, asked);
    let _ = sys::set_blocked_signals(&leave, before);
    result
}

fn call(recorder: &Recorder, thread: &Thread, lever: &Lever, asked: Asked) -> Result<(), Reason> {
    if lever.is_glibc() {
        Arenas::find(lever.libc_data, recorder.pid()).ok_or(Reason::Arenas)?.are_seen_free()?;
    }
    let requests = recorder.requests();
    if !take(requests, asked.number) {
        return Ok(());
    }
    // Taken before the clock is read: whoever asks finds after the deadline that it is taken, or that it never will be.
    let begin_ns = recorder.precise_ns();
    let is_open = begin_ns < asked.deadline_ns;
    let outcome = if is_open { Outcome::Called(lever.call()) } else { Outcome::Expired };
    let held_ns = recorder.precise_ns().saturating_sub(begin_ns);
    answer(requests, asked.number, outcome, thread.tid.get(), held_ns);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, deadline_ns: u64, check: u64) -> Request {
        let request = Request::default();
        request.number.store(number, Relaxed);
        request.deadline_ns.store(deadline_ns, Relaxed);
        request.check.store(check, Relaxed);
        request
    }

    #[test]
    fn a_request_counts_if_it_is_whole_and_its_deadline_is_near_and_ahead() {
        const NOW_NS: u64 = 1 << 40;
        let read = |number: u64, deadline_ns: u64, check: u64| {
            Asked::read(&request(number, deadline_ns, check))
        };
        let is_open = |number, deadline_ns| {
            let asked = read(number, deadline_ns, request_check(number, deadline_ns)).unwrap();
            (asked.number, asked.deadline_ns) == (number, deadline_ns) && asked.is_open(NOW_NS)
        };
        assert!(is_open(1, NOW_NS + 1) && is_open(u64::MAX, NOW_NS + MOST_PATIENCE_NS));
        for deadline_ns in [0, 1, NOW_NS, NOW_NS - 1, NOW_NS + MOST_PATIENCE_NS + 1, u64::MAX] {
            assert!(!is_open(1, deadline_ns), "{deadline_ns}");
        }
        assert!(read(0, NOW_NS, request_check(0, NOW_NS)).is_none());
        let check = request_check(1, NOW_NS);
        for (number, deadline_ns, check) in [
            (2, NOW_NS, check),
            (1, NOW_NS + 1, check),
            (1, NOW_NS, check ^ 1 << 7),
            (1, NOW_NS, 0),
        ] {
            assert!(read(number, deadline_ns, check).is_none());
        }
    }

    #[test]
    fn a_request_is_taken_once_and_gone_when_it_is_answered() {
        let requests = Requests::default();
        requests.request.number.store(7, Relaxed);
        assert!(take(&requests, 7) && !take(&requests, 7));
        let outcome = Outcome::Refused(Reason::Locked);
        answer(&requests, 7, outcome, 12, 34);
        assert_eq!(requests.request.number.load(Relaxed), 0);
        assert_eq!(Outcome::of(requests.answer.outcome.load(Relaxed)), Some(outcome));
        assert_eq!(requests.answer.done.load(Relaxed), 7);
        // One that has come meanwhile stays, and whoever still has the earlier one in hand does not take it again.
        requests.request.number.store(8, Relaxed);
        drop_request(&requests, 7);
        assert_eq!(requests.request.number.load(Relaxed), 8);
        assert!(take(&requests, 8) && !take(&requests, 7));
    }
}

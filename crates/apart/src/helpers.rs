//! All helpers of this process, by the owners of what they read.

use crate::at_once::AT_ONCE;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::helper::{Helper, Outcome};
use crate::serve::{OPEN, Opened, READ, Role, own_bounds};
use crate::users::{ids_for, user_of};
use rustix::process::getuid;
use std::collections::HashMap;
use std::fs::File;
use std::mem::take;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that an owner's inputs may waste together before no more of them are read, as a multiple of one input's budget.
const MOST_WASTED: u32 = 2;
/// How long one input may keep its helper waiting at a time …
const MOST_IDLE: Duration = Duration::from_secs(3);
/// … those of one owner together …
const MOST_IDLE_OF_OWNER: Duration = Duration::from_secs(6);
/// … and those of all owners, before each may only for a moment.
const MOST_IDLE_OF_ALL: Duration = Duration::from_secs(9);
const LEAST_IDLE: Duration = Duration::from_millis(200);
/// Helpers of one owner that were ended, and still wait in the kernel, before there is no further one.
const MOST_LEFT: usize = 4;
/// Helpers that read for one owner at once: who asks for more waits.
const MOST_READERS: usize = AT_ONCE;
/// Helpers that act on one owner's processes at once: their acts come one after the other.
const MOST_ACTORS: usize = 1;

static HELPERS: OnceLock<Helpers> = OnceLock::new();

struct Helpers {
    /// Budget of every input, as the user wants it.
    wanted: Option<Budget>,
    by_owner: Mutex<HashMap<u32, Apart>>,
    /// Time in which the helpers of all owners together waited for their inputs.
    idle: Mutex<Spent>,
}

/// A request to a helper.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Which reader.
    pub kind: u8,
    /// The operation, in the encoding of that reader.
    pub body: &'a [u8],
    /// The files to read.
    pub files: &'a [BorrowedFd<'a>],
}

/// The helpers that read what belongs to one user.
#[derive(Clone)]
pub struct Apart(Arc<Shared>);

struct Shared {
    slot: Mutex<Slot>,
    /// One that was asked has answered, or ended.
    is_free: Condvar,
}

struct Slot {
    owner: u32,
    budget: Budget,
    /// Those that read …
    readers: Crew,
    /// … those that act …
    actors: Crew,
    /// … and those that open, and keep open what was not read yet, as far as they wait to be asked.
    openers: Vec<Helper>,
    /// Those that were ended and have not ended yet.
    left: Vec<Helper>,
    /// Processor time of what gave no answer.
    wasted: Spent,
    /// Time in which its helper waited for its inputs.
    idle: Spent,
}

/// Helpers for one kind of work.
struct Crew {
    /// Those that wait to be asked.
    idle: Vec<Helper>,
    /// How many are asked now …
    working: usize,
    /// … at most.
    most: usize,
}

/// Time that was spent since a moment, and counts for a while from then on.
#[derive(Default)]
struct Spent {
    time: Duration,
    since: Option<Instant>,
}

impl Spent {
    const COUNTS_FOR: Duration = Duration::from_secs(60);

    fn add(&mut self, time: Duration) {
        if time > Duration::ZERO {
            let begun = self.since.filter(|since| since.elapsed() <= Self::COUNTS_FOR);
            *self =
                Self { time: self.time() + time, since: begun.or_else(|| Some(Instant::now())) };
        }
    }

    fn time(&self) -> Duration {
        let counts = self.since.is_some_and(|since| since.elapsed() <= Self::COUNTS_FOR);
        if counts { self.time } else { Duration::ZERO }
    }
}

/// Who owns what comes over the network.
pub const NOBODY: u32 = 65534;

/// From now on, what others own is read apart. With `budget` also what this user owns, and each input may cost so much.
pub fn enable(budget: Option<Budget>) {
    let _ =
        HELPERS.set(Helpers { wanted: budget, by_owner: Mutex::default(), idle: Mutex::default() });
}

/// Ends the helpers that are not at work. If this process ends without this call, they pass to a process that may not expect
/// children, such as the first one of a container, and stay as zombies.
pub fn end_all() {
    let Some(helpers) = HELPERS.get() else { return };
    let all: Vec<Apart> = locked(&helpers.by_owner).values().cloned().collect();
    for apart in all {
        let mut slot = locked(&apart.0.slot);
        let Slot { readers, actors, openers, .. } = &mut *slot;
        let idle = [take(&mut readers.idle), take(&mut actors.idle), take(openers)];
        drop(slot);
        drop(idle);
    }
}

/// Whether what belongs to that user is root's or this user's own.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == getuid().as_raw()
}

/// Returns the budget of an input: the one that the user wants, or the default for an owner who is trusted or not.
pub fn bounds(is_trusted: bool) -> Budget {
    let wanted = HELPERS.get().and_then(|helpers| helpers.wanted).or_else(own_bounds);
    wanted.unwrap_or(if is_trusted { Budget::OWN } else { Budget::STRANGER })
}

/// Who reads what belongs to that user. `None`: this process does.
pub fn for_owner(owner: u32) -> Option<Apart> {
    let helpers = HELPERS.get()?;
    let is_trusted = is_trusted(owner);
    if is_trusted && helpers.wanted.is_none() {
        return None;
    }
    let budget = bounds(is_trusted);
    let mut by_owner = locked(&helpers.by_owner);
    Some(by_owner.entry(owner).or_insert_with(|| Apart::new(owner, budget)).clone())
}

/// The same of what belongs to the user by whose rights a process acts.
pub fn for_process(pid: u32) -> Option<Apart> {
    HELPERS.get().and_then(|_| for_owner(user_of(pid)?))
}

/// Returns the result of `act`, or fails if `act` waits too long for a process of others.
pub fn wait_for_process<T: Send + 'static>(
    pid: u32,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    match for_process(pid) {
        Some(by) => by.wait_for(act),
        None => Ok(act()),
    }
}

/// The role of one that keeps its rights.
fn acting() -> Role {
    Role::Acts(HELPERS.get().and_then(|helpers| helpers.wanted))
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Apart {
    fn new(owner: u32, budget: Budget) -> Self {
        let crew = |most| Crew { idle: Vec::new(), working: 0, most };
        let slot = Slot {
            owner,
            budget,
            readers: crew(MOST_READERS),
            actors: crew(MOST_ACTORS),
            openers: Vec::new(),
            left: Vec::new(),
            wasted: Spent::default(),
            idle: Spent::default(),
        };
        Self(Arc::new(Shared { slot: Mutex::new(slot), is_free: Condvar::new() }))
    }

    /// The user.
    pub fn owner(&self) -> u32 {
        locked(&self.0.slot).owner
    }

    /// Has it read, by a helper that is started if there is none. The answer may be anything: it is to be checked.
    pub fn ask(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        self.have(request, false)
    }

    /// Has it done, with the rights of this process, by a process that can be left alone with it. It goes on should this one end.
    pub fn act(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        self.have(request, true)
    }

    /// Has it opened, with the rights of this process, by a process that can be left alone with it: what waits for a file system may not be
    /// ended, and this process would end with it only.
    pub fn open(&self, body: &[u8]) -> Result<Opened, Failure> {
        let (most_idle, kept) = {
            let mut slot = locked(&self.0.slot);
            (slot.admit()?, slot.openers.pop())
        };
        let helper = kept.map_or_else(|| Helper::start(acting(), bounds(false)), Ok)?;
        let request = Request { kind: OPEN, body, files: &[] };
        let (answer, helper) = self.have_by(helper, &request, most_idle);
        locked(&self.0.slot).openers.extend(helper);
        answer
    }

    fn have(&self, request: &Request, acts: bool) -> Result<Vec<u8>, Failure> {
        let Shared { slot, is_free } = &*self.0;
        let is_taken = |slot: &mut Slot| slot.crew(acts).working >= slot.crew(acts).most;
        let waited = is_free.wait_while(locked(slot), is_taken);
        let mut waited = waited.unwrap_or_else(PoisonError::into_inner);
        let most_idle = waited.admit()?;
        waited.crew(acts).working += 1;
        let kept = waited.crew(acts).idle.pop().ok_or_else(|| (waited.role(acts), waited.budget));
        drop(waited);
        let helper = kept.or_else(|(role, budget)| Helper::start(role, budget));
        let (answer, helper) = match helper {
            Ok(helper) => self.have_by(helper, request, most_idle),
            Err(failure) => (Err(failure), None),
        };
        let mut slot = locked(slot);
        slot.crew(acts).idle.extend(helper);
        slot.crew(acts).working -= 1;
        is_free.notify_all();
        match answer? {
            (body, files) if files.is_empty() => Ok(body),
            _ => Err(Failure::BadAnswer),
        }
    }

    /// The helper comes back if it can be asked again.
    fn have_by(
        &self,
        mut helper: Helper,
        request: &Request,
        most_idle: Duration,
    ) -> (Result<Opened, Failure>, Option<Helper>) {
        let begin = Instant::now();
        let Outcome { answer, idle } =
            helper.ask(request.kind, request.body, request.files, most_idle);
        let has_ended = answer.is_err() && helper.end().is_some();
        let mut slot = locked(&self.0.slot);
        slot.was_idle(idle);
        match &answer {
            Ok(_) | Err(Failure::Stuck(_)) => {}
            Err(Failure::Time(used)) => slot.wasted.add(*used),
            Err(_) => slot.wasted.add(begin.elapsed()),
        }
        match answer {
            Ok(_) => return (answer, Some(helper)),
            Err(_) if !has_ended => slot.left.push(helper),
            Err(_) => {}
        }
        (answer, None)
    }

    /// Ends what `act` began, as far as it has not ended: the kernel lets go of what it traces.
    pub fn end_acting(&self) {
        let idle = take(&mut locked(&self.0.slot).actors.idle);
        let left = idle.into_iter().filter_map(|mut actor| actor.end().is_none().then_some(actor));
        let left: Vec<Helper> = left.collect();
        locked(&self.0.slot).left.extend(left);
    }

    /// The next bytes of an open file, as many as come at once. None at its end.
    pub fn read(&self, file: &File) -> Result<Vec<u8>, Failure> {
        self.ask(&Request { kind: READ, body: &[], files: &[file.as_fd()] })
    }

    /// Returns the result of `act`, or fails if `act` waits too long for a process or file of the owner; `act` then goes on waiting by itself. It
    /// must be such that it ends when this process does.
    pub fn wait_for<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let most = locked(&self.0.slot).most_idle()?;
        let (says, hears) = channel();
        let started = |error: std::io::Error| Failure::NotStarted(error.to_string());
        let act = move || says.send(act()).unwrap_or_default();
        thread::Builder::new().spawn(act).map_err(started)?;
        hears.recv_timeout(most).map_err(|_| {
            locked(&self.0.slot).was_idle(most);
            Failure::Stuck(most)
        })
    }
}

impl Slot {
    /// Says how long an input may keep its helper waiting, unless no more of them are read.
    fn admit(&mut self) -> Result<Duration, Failure> {
        let is_wasted = self.budget.cpu.is_some_and(|cpu| self.wasted.time() >= cpu * MOST_WASTED);
        self.left.retain_mut(|helper| !helper.has_ended());
        if is_wasted || self.left.len() >= MOST_LEFT {
            return Err(Failure::UsedUp);
        }
        self.most_idle()
    }

    fn crew(&mut self, acts: bool) -> &mut Crew {
        if acts { &mut self.actors } else { &mut self.readers }
    }

    fn role(&self, acts: bool) -> Role {
        if acts {
            return acting();
        }
        // Only root can become another user.
        let is_changed = getuid().is_root() && self.owner != 0;
        Role::Reads(is_changed.then(|| ids_for(self.owner)), self.budget.memory_bytes)
    }

    /// How long an input may keep its helper waiting now.
    fn most_idle(&self) -> Result<Duration, Failure> {
        let of_all = HELPERS.get().map_or(Duration::ZERO, |all| locked(&all.idle).time());
        match self.idle.time() {
            own if own >= MOST_IDLE_OF_OWNER => Err(Failure::UsedUp),
            _ => Ok(MOST_IDLE.min(MOST_IDLE_OF_ALL.saturating_sub(of_all)).max(LEAST_IDLE)),
        }
    }

    fn was_idle(&mut self, time: Duration) {
        self.idle.add(time);
        if let Some(all) = HELPERS.get() {
            locked(&all.idle).add(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_inputs_have_smaller_budgets() {
        const FOREIGN: u32 = 20_100;
        assert!(for_owner(FOREIGN).is_none());
        enable(None);
        let of_others = Budget { memory_bytes: 512 << 20, cpu: Some(Duration::from_secs(10)) };
        assert_eq!(bounds(false), of_others);
        assert_eq!(bounds(true), Budget { memory_bytes: 4 << 30, cpu: None });
        for owner in [FOREIGN, NOBODY] {
            assert_eq!(locked(&for_owner(owner).unwrap().0.slot).budget, of_others);
        }
        for owner in [0, getuid().as_raw()] {
            assert!(for_owner(owner).is_none());
        }
    }
}

//! All workers of this process, by the owners of what they read.

use crate::at_once::AT_ONCE;
use crate::budget::Budget;
use crate::failure::Failure;
use crate::owner::{Account, Owner, group_of_process, ids_for};
use crate::serve::{Role, RootDirectory, own_bounds};
use crate::worker::{Limits, Outcome, Worker};
use borsh::{BorshDeserialize, BorshSerialize};
use rustix::process::getuid;
use std::collections::HashMap;
use std::mem::take;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker may make no progress at a time …
const MOST_IDLE: Duration = Duration::from_secs(2);
/// … and all inputs of others may take in vain together, before each gets only a moment.
const MOST_IN_VAIN: Duration = Duration::from_secs(20);
const A_MOMENT: Duration = Duration::from_millis(200);
/// A command that goes on and on does not count an answer that took less, as it has bounds of its own for that …
const SLOW: Duration = Duration::from_secs(1);
/// … and allows so many times as much in a minute.
const GOING_ON: u32 = 3;
/// An act may take so long. It has bounds of its own, and waits for the process's own threads.
const MOST_ACT: Duration = Duration::from_secs(120);
/// Workers of one owner that were ended, and still wait in the kernel, before there is no further one.
const MOST_LEFT: usize = 4;
/// Workers that read for one owner at once: who asks for more waits.
const MOST_READERS: usize = AT_ONCE;
/// Workers that act on one owner's processes at once: their acts come one after the other.
const MOST_ACTORS: usize = 1;

static WORKERS: OnceLock<Workers> = OnceLock::new();

struct Workers {
    /// Budget of every input, as the user wants it.
    wanted: Option<Budget>,
    goes_on: bool,
    /// By the owner, and the root directory that a profile tells.
    by_owner: Mutex<HashMap<(Owner, RootDirectory), Apart>>,
    /// Time that inputs of others have taken.
    accounts: Mutex<HashMap<Account, Spent>>,
    /// The part of it that led to nothing.
    in_vain: Mutex<Spent>,
}

/// A request to a worker.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Which reader.
    pub kind: u8,
    /// The operation, in the encoding of that reader.
    pub body: &'a [u8],
    /// The files to read.
    pub files: &'a [BorrowedFd<'a>],
}

/// The workers that read what belongs to one user.
#[derive(Clone)]
pub struct Apart(Arc<Shared>);

struct Shared {
    slot: Mutex<Slot>,
    /// One that was asked has answered, or ended.
    is_free: Condvar,
}

struct Slot {
    owner: Owner,
    /// Where a worker reads …
    root: RootDirectory,
    /// … and as which group.
    group: Option<u32>,
    account: Account,
    budget: Budget,
    /// Those that read …
    readers: Crew,
    /// … and those that act.
    actors: Crew,
    /// Those that were ended and have not ended yet.
    left: Vec<Worker>,
}

/// Workers for one kind of work.
struct Crew {
    /// Those that wait to be asked.
    idle: Vec<Worker>,
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

/// From now on, what others own is read apart. With `budget` also what this user owns, and each input may cost so much. `goes_on`: this command
/// looks again and again, until it is ended.
pub fn enable(budget: Option<Budget>, goes_on: bool) {
    let _ = WORKERS.set(Workers {
        wanted: budget,
        goes_on,
        by_owner: Mutex::default(),
        accounts: Mutex::default(),
        in_vain: Mutex::default(),
    });
}

/// Ends the workers that are not at work. If this process ends without this call, they pass to a process that may not expect
/// children, such as the first one of a container, and stay as zombies.
pub fn end_all() {
    let Some(workers) = WORKERS.get() else { return };
    let all: Vec<Apart> = locked(&workers.by_owner).values().cloned().collect();
    all.iter().for_each(Apart::end_idle);
}

/// The same of those of a user, so that many users' workers do not take the memory. Others are started should there be more to read.
pub fn end_of_user(user: u32) {
    let Some(workers) = WORKERS.get() else { return };
    let by_owner = locked(&workers.by_owner);
    let its = by_owner.iter().filter(|((owner, _), _)| owner.user == user);
    let its: Vec<Apart> = its.map(|(_, apart)| apart.clone()).collect();
    drop(by_owner);
    its.iter().for_each(Apart::end_idle);
}

/// Returns the budget of an input: the one that the user wants, or the default for an owner who is trusted or not.
pub fn bounds(is_trusted: bool) -> Budget {
    let wanted = WORKERS.get().and_then(|workers| workers.wanted).or_else(own_bounds);
    wanted.unwrap_or(if is_trusted { Budget::OWN } else { Budget::STRANGER })
}

/// Who reads what belongs to that owner. `None`: this process does.
pub fn for_owner(owner: Owner) -> Option<Apart> {
    found(owner, RootDirectory::Own, || Account::of_files(owner.user))
}

/// The same of what belongs to the owner of a process.
pub fn for_process(pid: u32) -> Option<Apart> {
    WORKERS.get()?;
    let owner = Owner::of_process(pid)?;
    let apart = found(owner, RootDirectory::Own, || Account::of_process(pid, owner))?;
    // The process that was here before may have ended.
    locked(&apart.0.slot).see(pid);
    Some(apart)
}

/// The same in a root directory that a profile of this owner tells.
pub fn for_told_root(owner: Owner, path: &Path) -> Option<Apart> {
    let told = RootDirectory::Told(path.as_os_str().as_bytes().to_vec());
    found(owner, told, || Account::of_files(owner.user))
}

fn found(owner: Owner, root: RootDirectory, account: impl FnOnce() -> Account) -> Option<Apart> {
    let workers = WORKERS.get()?;
    let is_trusted = owner.is_trusted();
    if is_trusted && workers.wanted.is_none() {
        return None;
    }
    let mut by_owner = locked(&workers.by_owner);
    let new = || Apart::new(owner, root.clone(), account(), bounds(is_trusted));
    Some(by_owner.entry((owner, root.clone())).or_insert_with(new).clone())
}

/// The role of one that keeps its rights.
fn acting() -> Role {
    Role::Acts(WORKERS.get().and_then(|workers| workers.wanted))
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Apart {
    fn new(owner: Owner, root: RootDirectory, account: Account, budget: Budget) -> Self {
        let crew = |most| Crew { idle: Vec::new(), working: 0, most };
        let slot = Slot {
            owner,
            root,
            group: None,
            account,
            budget,
            readers: crew(MOST_READERS),
            actors: crew(MOST_ACTORS),
            left: Vec::new(),
        };
        Self(Arc::new(Shared { slot: Mutex::new(slot), is_free: Condvar::new() }))
    }

    fn end_idle(&self) {
        let mut slot = locked(&self.0.slot);
        let Slot { readers, actors, .. } = &mut *slot;
        let idle = [take(&mut readers.idle), take(&mut actors.idle)];
        drop(slot);
        drop(idle);
    }

    /// The owner.
    pub fn owner(&self) -> Owner {
        locked(&self.0.slot).owner
    }

    /// Has it read, by a worker that is started if there is none. The answer may be anything: it is to be checked.
    pub fn ask(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        self.have(request, false)
    }

    /// The same, with a question and an answer that borsh writes.
    pub fn ask_for<T: BorshDeserialize>(
        &self,
        kind: u8,
        question: &impl BorshSerialize,
    ) -> Result<T, Failure> {
        let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
        let answer = self.ask(&Request { kind, body: &body, files: &[] })?;
        borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
    }

    /// Has it done, with the rights of this process, by a process that can be left alone with it. It goes on should this one end.
    pub fn act(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        self.have(request, true)
    }

    fn have(&self, request: &Request, acts: bool) -> Result<Vec<u8>, Failure> {
        let Shared { slot, is_free } = &*self.0;
        let is_taken = |slot: &mut Slot| slot.crew(acts).working >= slot.crew(acts).most;
        let waited = is_free.wait_while(locked(slot), is_taken);
        let mut waited = waited.unwrap_or_else(PoisonError::into_inner);
        let admitted = waited.admit()?;
        let time = if acts { admitted.time.map(|_| MOST_ACT) } else { admitted.time };
        let most = Limits { time, ..admitted };
        waited.crew(acts).working += 1;
        let start = (waited.role(acts), waited.owner, waited.budget);
        let kept = waited.crew(acts).idle.pop().ok_or(start);
        drop(waited);
        let worker = kept.or_else(|(role, owner, budget)| Worker::start(&role, owner, budget));
        let (answer, worker) = match worker {
            Ok(worker) => self.have_by(worker, request, most, acts),
            Err(failure) => (Err(failure), None),
        };
        let mut slot = locked(slot);
        slot.crew(acts).idle.extend(worker);
        slot.crew(acts).working -= 1;
        is_free.notify_all();
        answer
    }

    /// The worker comes back if it can be asked again.
    fn have_by(
        &self,
        mut worker: Worker,
        request: &Request,
        most: Limits,
        acts: bool,
    ) -> (Result<Vec<u8>, Failure>, Option<Worker>) {
        let Outcome { answer, time } = worker.ask(request.kind, request.body, request.files, most);
        let has_ended = answer.is_err() && worker.end().is_some();
        let mut slot = locked(&self.0.slot);
        // An act may take its time, if it comes to an end.
        if answer.is_err() || !acts {
            slot.took(time, answer.is_err());
        }
        match answer {
            Ok(_) => return (answer, Some(worker)),
            Err(_) if !has_ended => slot.left.push(worker),
            Err(_) => {}
        }
        (answer, None)
    }

    /// Ends what `act` began, as far as it has not ended: the kernel lets go of what it traces.
    pub fn end_acting(&self) {
        let idle = take(&mut locked(&self.0.slot).actors.idle);
        let left = idle.into_iter().filter_map(|mut actor| actor.end().is_none().then_some(actor));
        let left: Vec<Worker> = left.collect();
        locked(&self.0.slot).left.extend(left);
    }
}

impl Slot {
    /// Says how long the next input may take, unless no more of them are read.
    fn admit(&mut self) -> Result<Limits, Failure> {
        self.left.retain_mut(|worker| !worker.has_ended());
        if self.left.len() >= MOST_LEFT {
            return Err(Failure::UsedUp);
        }
        let Some(workers) = WORKERS.get().filter(|_| !self.owner.is_trusted()) else {
            return Ok(Limits { time: self.budget.time, idle: MOST_IDLE });
        };
        let left_of_all = MOST_IN_VAIN.saturating_sub(locked(&workers.in_vain).time());
        let left_of_all = left_of_all.max(A_MOMENT);
        let spent =
            locked(&workers.accounts).get(&self.account).map_or(Duration::ZERO, Spent::time);
        let idle = MOST_IDLE.min(left_of_all);
        let Some(time) = self.budget.time else { return Ok(Limits { time: None, idle }) };
        let allowed = if workers.goes_on { time * GOING_ON } else { time };
        match allowed.saturating_sub(spent) {
            Duration::ZERO => Err(Failure::UsedUp),
            left => Ok(Limits { time: Some(left.min(time).min(left_of_all)), idle }),
        }
    }

    /// An input took so long.
    fn took(&self, time: Duration, in_vain: bool) {
        let Some(workers) = WORKERS.get().filter(|_| !self.owner.is_trusted()) else { return };
        if in_vain || time > SLOW || !workers.goes_on {
            locked(&workers.accounts).entry(self.account).or_default().add(time);
        }
        if in_vain {
            locked(&workers.in_vain).add(time);
        }
    }

    fn crew(&mut self, acts: bool) -> &mut Crew {
        if acts { &mut self.actors } else { &mut self.readers }
    }

    fn role(&self, acts: bool) -> Role {
        if acts {
            return acting();
        }
        // Only root can become another user.
        let is_changed = getuid().is_root() && self.owner != Owner::of_user(0);
        let ids = is_changed.then(|| ids_for(self.owner, self.group));
        Role::Reads { root: self.root.clone(), ids, memory_bytes: self.budget.memory_bytes }
    }

    /// A process of the owner tells where the root directory is, and a group that reads the owner's files.
    fn see(&mut self, pid: u32) {
        self.group = self.group.or_else(|| group_of_process(pid));
        if self.owner.is_elsewhere() {
            self.root = RootDirectory::OfProcess(pid, self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_inputs_have_smaller_budgets() {
        const FOREIGN: Owner = Owner::of_user(20_100);
        assert!(for_owner(FOREIGN).is_none());
        enable(None, false);
        let of_others = Budget { memory_bytes: 512 << 20, time: Some(Duration::from_secs(10)) };
        assert_eq!(bounds(false), of_others);
        assert_eq!(bounds(true), Budget { memory_bytes: 4 << 30, time: None });
        for owner in [FOREIGN, crate::NOBODY] {
            assert_eq!(locked(&for_owner(owner).unwrap().0.slot).budget, of_others);
        }
        for owner in [0, getuid().as_raw()] {
            assert!(for_owner(Owner::of_user(owner)).is_none());
        }
    }
}

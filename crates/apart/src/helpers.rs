//! All helpers of this process, one for each owner.

use crate::budget::Budget;
use crate::confine::Owner;
use crate::failure::Failure;
use crate::helper::Helper;
use crate::serve::own_bounds;
use crate::users::group_of;
use rustix::process::getuid;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What an owner's inputs may waste together, by what one of them may take, before no more of them are read …
const MOST_WASTED: u32 = 2;
/// … for so long.
const REFUSAL_LASTS: Duration = Duration::from_secs(60);

static HELPERS: OnceLock<Helpers> = OnceLock::new();

struct Helpers {
    /// Of every input, as the user wants it.
    wanted: Option<Budget>,
    by_owner: Mutex<HashMap<u32, Apart>>,
}

/// What is to be read apart.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Which reader.
    pub kind: u8,
    /// What to do.
    pub body: &'a [u8],
    /// What to read.
    pub files: &'a [BorrowedFd<'a>],
}

/// The helper that reads what belongs to one user.
#[derive(Clone)]
pub struct Apart(Arc<Mutex<Slot>>);

struct Slot {
    owner: u32,
    budget: Budget,
    helper: Option<Helper>,
    /// Processor time of what gave no answer, and when the latest did.
    wasted: Duration,
    last_waste: Option<Instant>,
}

/// Who owns what comes over the network.
pub const NOBODY: u32 = 65534;

/// From now on, what others own is read apart. With `budget` also what this user owns, and each input may cost so much.
pub fn enable(budget: Option<Budget>) {
    let _ = HELPERS.set(Helpers { wanted: budget, by_owner: Mutex::default() });
}

/// Whether what belongs to that user is root's or this user's own.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == getuid().as_raw()
}

/// What an input may cost.
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
    let mut by_owner = helpers.by_owner.lock().unwrap_or_else(PoisonError::into_inner);
    let budget = bounds(is_trusted);
    Some(by_owner.entry(owner).or_insert_with(|| Apart::new(owner, budget)).clone())
}

impl Apart {
    fn new(owner: u32, budget: Budget) -> Self {
        let (wasted, last_waste) = (Duration::ZERO, None);
        Self(Arc::new(Mutex::new(Slot { owner, budget, helper: None, wasted, last_waste })))
    }

    /// Has it read, by a helper that is started if there is none. The answer may be anything: it is to be checked.
    pub fn ask(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ask(request)
    }
}

impl Slot {
    fn ask(&mut self, request: &Request) -> Result<Vec<u8>, Failure> {
        if self.last_waste.is_some_and(|last| last.elapsed() > REFUSAL_LASTS) {
            self.wasted = Duration::ZERO;
        }
        if self.budget.cpu.is_some_and(|cpu| self.wasted >= cpu * MOST_WASTED) {
            return Err(Failure::UsedUp);
        }
        let mut helper = match self.helper.take() {
            Some(helper) => helper,
            None => Helper::start(self.new_owner(), self.budget)?,
        };
        let begin = Instant::now();
        let answer = helper.ask(request.kind, request.body, request.files);
        match &answer {
            Ok(_) => self.helper = Some(helper),
            Err(Failure::Time(used)) => self.waste(*used),
            Err(_) => self.waste(begin.elapsed()),
        }
        answer
    }

    fn waste(&mut self, time: Duration) {
        self.wasted += time;
        self.last_waste = Some(Instant::now());
    }

    /// Only root can become another user.
    fn new_owner(&self) -> Option<Owner> {
        let is_changed = getuid().is_root() && self.owner != 0;
        is_changed.then(|| Owner { user: self.owner, group: group_of(self.owner) })
    }
}

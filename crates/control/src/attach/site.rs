//! A process in which something is to be done, and what is known of it.

use super::bounded::Allowance;
use super::guest::Guest;
use super::library::{Caller, Stops};
use super::loader::Loader;
use super::object::Object;
use crate::outside::{Callee, milliseconds};
use ramson_inject::{Process, Step};
use ramson_process::allocators::Allocators;
use ramson_process::glibc::LibraryData;
use ramson_process::{ProcessMemory, identify, read_smaps};
use ramson_source::{Failure, Target, gone};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Open since `begin`.
pub struct Site<'a> {
    pub callee: Callee<'a>,
    pub loader: Loader,
    locks: Option<LibraryData>,
    pub allowance: Allowance,
    stops: Stops,
    pub begin: Instant,
}

impl<'a> Site<'a> {
    pub fn open(target: &'a Target, process: Arc<Process>) -> Result<Self, Failure> {
        let begin = Instant::now();
        let areas = read_smaps(target.pid).map_err(|_| gone(target))?;
        let allocators = Allocators::of(target.pid, &areas);
        let callee = Callee::open(target, process, areas, allocators)?;
        let loader = Loader::find(target, &callee.areas)?;
        // The loader allocates by the allocator that the program has.
        let is_glibc = callee.allocators.other.is_none();
        let version = callee.allocators.version.unwrap_or_default();
        let data = identify::data_of_libc(&callee.areas);
        let locks = is_glibc.then(|| LibraryData::read(&callee.memory, &data, version).ok());
        let locks = locks.flatten();
        let allowance = Allowance::of(target.pid);
        Ok(Self { callee, loader, locks, allowance, stops: Stops::default(), begin })
    }

    pub fn target(&self) -> &'a Target {
        self.callee.target
    }

    pub fn memory(&self) -> &ProcessMemory {
        &self.callee.memory
    }

    pub fn guest(&self) -> Result<(Option<Guest>, Vec<Object>), Failure> {
        let Self { callee, loader, allowance, .. } = self;
        Guest::of(callee.target, &callee.process, &callee.memory, allowance, loader)
    }

    /// Runs `work` with the means to make calls.
    pub fn calling<T>(
        &mut self,
        work: impl FnOnce(&Caller, &mut Stops) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let is_loader_free = |limit| self.loader.is_seen_free(&self.callee.memory, limit);
        let caller = Caller {
            callee: &self.callee,
            locks: self.locks.as_ref(),
            is_loader_free: &is_loader_free,
        };
        work(&caller, &mut self.stops)
    }

    /// Makes calls on one thread, while it is stopped once.
    pub fn call(&mut self, steps: &[Step]) -> Result<(), Failure> {
        self.calling(|caller, stops| caller.call(steps, stops))
    }

    /// Notes how long threads were stopped.
    pub fn stopped(&mut self, time: Duration) {
        self.stops.0.push(time);
    }

    pub fn stopped_ms(&self) -> Vec<f64> {
        self.stops.0.iter().map(|stop| milliseconds(*stop)).collect()
    }
}

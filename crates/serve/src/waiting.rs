//! Whether a connection waits for its client to ask something.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Since when a connection has waited; not while it is being answered.
#[derive(Clone)]
pub struct Waiting(Arc<Mutex<Option<Instant>>>);

impl Waiting {
    pub fn begin() -> Self {
        Self(Arc::new(Mutex::new(Some(Instant::now()))))
    }

    /// `None`: it is being answered.
    pub fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Being answered begins.
    pub fn interrupt(&self) -> Busy {
        self.set(None);
        Busy(self.clone())
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// A connection is being answered, as long as there is this.
pub struct Busy(Waiting);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
    }
}

//! Acts on processes of other users, in the process that does the work.

use crate::apart::{ASK, Order, Outcome, TRIM, WireFigures, WireTrimmed};
use crate::ask::ask_here;
use crate::trim::trim_here;
use ramson_apart::Handler;
use ramson_source::{Failure, Target};
use std::fs::File;

/// Trims processes and asks their allocators, as it is told to.
#[derive(Default)]
pub struct Actor;

impl Handler for Actor {
    fn kinds(&self) -> &'static [u8] {
        &[TRIM, ASK]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        let Order { pid, name, accepts, inside } = borsh::from_slice(body).ok()?;
        let target = Target { pid, name, profile: None };
        // It is ended when something failed.
        ramson_inject::will_end_soon();
        let answer = if kind == TRIM {
            borsh::to_vec(&outcome(trim_here(&target, accepts, inside).map(WireTrimmed::from)))
        } else {
            borsh::to_vec(&outcome(ask_here(&target, inside).map(WireFigures::from)))
        };
        answer.ok()
    }
}

fn outcome<T>(done: Result<T, Failure>) -> Outcome<T> {
    done.map_err(|failure| (failure.status(), failure.to_string()))
}

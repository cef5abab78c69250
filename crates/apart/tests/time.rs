//! Workers that compute for too long. A process of its own: what other tests keep waiting counts for all owners together.
//!
//! A worker is this very program: it runs the one test whose name has its argument in it.

use ramson_apart::{Apart, Budget, Failure, Handler, Owner, Request, for_owner, serve_if_asked};
use std::fs::File;
use std::hint::black_box;
use std::time::Duration;

const ECHO: u8 = 1;
const COMPUTE: u8 = 2;

const TIME: Duration = Duration::from_millis(300);

struct Test;

impl Handler for Test {
    fn kinds(&self) -> &'static [u8] {
        &[ECHO, COMPUTE]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        match kind {
            ECHO => Some(body.to_vec()),
            COMPUTE => {
                let mut number = 0_u64;
                while black_box(number) != u64::MAX {
                    number += 1;
                }
                None
            }
            _ => None,
        }
    }
}

#[test]
fn read_apart_runs_a_worker() {
    serve_if_asked(&mut [&mut Test], |_| ());
}

fn ask(apart: &Apart, kind: u8, body: &[u8]) -> Result<Vec<u8>, Failure> {
    apart.ask(&Request { kind, body, files: &[] })
}

#[test]
fn owner_is_refused_after_time_excess() {
    ramson_apart::enable(Some(Budget { memory_bytes: 64 << 20, time: Some(TIME) }), false);
    let worker = |owner| for_owner(Owner::of_user(owner)).expect("a worker");
    let apart = worker(20_003);
    assert_eq!(ask(&apart, ECHO, &[1]), Ok(vec![1]));
    // Time that the first one took is gone.
    let failure = ask(&apart, COMPUTE, &[]).unwrap_err();
    let is_rest = matches!(failure, Failure::Time(left) if TIME / 2 < left && left <= TIME);
    assert!(is_rest, "{failure:?}");
    assert_eq!(ask(&apart, ECHO, &[1]), Err(Failure::UsedUp));
    // Another owner's inputs are still read.
    assert_eq!(ask(&worker(20_004), ECHO, &[1]), Ok(vec![1]));
}

//! A leak that paused: growth that was one until it ended, a shorter time ago than it had lasted. Nobody can tell yet whether it goes on.

use crate::growth::Growth;
use crate::history::StackHistory;
use crate::lasting::ends_of_growth;
use crate::persistence::Persistence;
use crate::verdict::Settings;
use serde::Serialize;

/// The growth of a function that is no leak suspect now, and was one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Paused {
    /// Since when, in ns before the moment of the snapshot.
    pub ago_ns: u64,
    /// How fast it grew until then.
    pub growth: Growth,
}

impl Paused {
    /// The latest end of growth of a leak suspect. What was freed since counts as freed before.
    pub fn of(history: &StackHistory, settings: &Settings) -> Option<Self> {
        ends_of_growth(history).into_iter().find_map(|ago_ns| {
            let then = history.before(ago_ns);
            let seen = Persistence::of(&then, settings.min_age_ns)?;
            let growth = Growth::of_kept(&then, &seen, settings)?;
            (seen.shows_growth() && ago_ns <= seen.began_ns).then_some(Self { ago_ns, growth })
        })
    }
}

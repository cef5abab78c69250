//! Which stacks are suspects, and why: ages, survival, growth, and a verdict in words. The maths and its sources are in
//! docs/internals/leaks.md.
//!
//! `history` is what is known of one stack, `bursts` what of it came in one go, `survival` how long its memory lives, `persistence`
//! whether what grew old is ever freed, `lasting` since when what lasts has come, `standstill` a time in which nothing came, `growth`
//! how fast it becomes more, `paused` whether a leak has paused, `verdict` what follows, `limit` which leak would not show yet, `paths`
//! which call paths of a function leak together, `slope` how fast a figure of the whole process grows, `suppressions` which stacks the
//! reader knows already.
#![forbid(unsafe_code)]

mod bursts;
mod growth;
mod history;
mod lasting;
mod limit;
mod paths;
mod paused;
mod persistence;
mod slope;
mod standstill;
mod suppressions;
mod survival;
mod verdict;

pub use growth::{Growth, NS_PER_HOUR};
pub use history::{AgeBytes, Ages, LiveBlock, MeasuredChange, StackHistory};
pub use limit::DetectionLimit;
pub use paths::{Judged, judge_paths};
pub use paused::Paused;
pub use persistence::Persistence;
pub use slope::Slope;
pub use suppressions::{BadSuppression, Suppressions};
pub use survival::{Survival, SurvivalPoint};
pub use verdict::{Finding, Settings, Verdict, judge};

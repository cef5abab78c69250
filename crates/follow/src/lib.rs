//! Follows profiled processes as they come and go: `search` finds them, `followed` is one of them, of which a look is cheap and a whole
//! reading is not, and `pace` keeps all that is done again and again within its share of a core.
#![forbid(unsafe_code)]

mod followed;
mod pace;
mod search;

pub use followed::Followed;
pub use pace::{Pace, thread_cpu_time};
pub use search::{Identity, Scope, Search, WATCH_EVERY};

//! The fleet: what an agent finds in the processes of its host, minute by minute, as rows of a database.
#![forbid(unsafe_code)]

mod agent;
mod changes;
mod config;
mod labels;
mod layout;
mod names;
mod process;
mod questions;
mod queue;
mod rows;
mod server;
mod sizes;
mod state;
mod time;

pub use agent::{Agent, send};
pub use config::{Config, Rule};
pub use layout::SCHEMA_VERSION;
pub use questions::{Answer, Parameters, Question};
pub use queue::Queue;
pub use rows::{JsonLines, Keep, Rows};
pub use server::check;

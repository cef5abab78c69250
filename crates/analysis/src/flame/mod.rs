//! The call tree of a source for a picture of a given width: cut to what it can show, with what was merged.
//!
//! `graph` is what is kept of a source, `functions` how its frames are named; `answer` is what a client gets.

mod answer;
mod functions;
mod graph;

pub use answer::{Flame, Flat, Found, FunctionEntry, Merged, Nodes, Value};
pub use graph::{Graph, MOST_NODES};

use crate::naming::Names;
use crate::tint::Tint;
use ramson_profile::view::Walk;
use ramson_profile::{OwnFrames, Pattern, Profile, SampleType};

/// Which frames the tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// All.
    All,
    /// Without those of the standard libraries.
    NoStandard,
    /// Only the program's own, as tables have them.
    Own,
}

impl Shown {
    /// Takes the other frames out of all stacks. Returns whether there were any.
    pub fn fold(self, profile: &mut Profile) -> bool {
        match self {
            Self::All => false,
            Self::NoStandard => OwnFrames::of_standard_libraries().fold(profile),
            Self::Own => OwnFrames::default().fold(profile),
        }
    }
}

/// Which graph of a source.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// How its addresses are named.
    pub names: &'a Names,
    /// Sample type to count; `None`: the source's own first choice.
    pub sample_type: Option<SampleType>,
    /// Which frames it has.
    pub shown: Shown,
    /// Figure that colours them.
    pub tint: Option<Tint>,
}

/// A question about a graph.
pub struct Question<'a> {
    /// Which way the tree leads.
    pub walk: Walk,
    /// Keys of the frames from the start to the zoomed one.
    pub path: &'a [u32],
    /// Only stacks through the functions of this name: what they call, and what calls them.
    pub around: Option<&'a str>,
    /// Pattern to search for.
    pub search: Option<&'a Pattern>,
    /// Share of the zoomed frame's value, 0 to 1: narrower frames are merged.
    pub least_share: f64,
}

//! A line of the table: what it is of, what it is called from one moment to the next, and what it says.

use super::sums::Sums;
use ramson_profile::FrameName;
use std::sync::Arc;

/// What a row of the table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Functions, by their own allocations
    Own,
    /// Functions, with what they call
    Cum,
    /// Whole stacks
    Stacks,
    /// Allocating threads
    Threads,
}

impl View {
    pub const ALL: [View; 4] = [View::Own, View::Cum, View::Stacks, View::Threads];

    pub fn name(self) -> &'static str {
        match self {
            View::Own => "own",
            View::Cum => "cum",
            View::Stacks => "stacks",
            View::Threads => "threads",
        }
    }
}

/// Order of the rows; the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Live bytes
    Live,
    /// Growth since the mark
    Change,
    /// Allocations per second
    Rate,
    /// Mean age of the live bytes
    Age,
    /// Name
    Name,
}

impl Sort {
    pub const ALL: [Sort; 5] = [Sort::Live, Sort::Change, Sort::Rate, Sort::Age, Sort::Name];
}

/// What a row at the left edge is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    Function(FrameName),
    /// Lowest number of the stacks with the same frames.
    Stack(usize),
    Thread(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Callers,
    Callees,
}

/// Names a row from one moment to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub root: Root,
    pub way: Way,
    /// From the root on, which is not in it.
    pub path: Vec<FrameName>,
}

impl Key {
    pub fn root(root: Root) -> Self {
        Self { root, way: Way::Callers, path: Vec::new() }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// `None`: cannot be opened.
    pub key: Option<Key>,
    /// 0 at the left edge.
    pub depth: usize,
    pub way: Way,
    pub name: Arc<str>,
    /// Empty: unknown.
    pub file: Arc<str>,
    /// Where most of its live bytes come from; 0: unknown.
    pub line: u32,
    /// `None`: a frame of the stack above it.
    pub sums: Option<Sums>,
}

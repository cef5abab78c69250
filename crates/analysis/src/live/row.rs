//! A line of the table: what it is of, what it is called from one moment to the next, and what it says.

use super::sums::Sums;
use ramson_profile::FrameName;
use serde::Serialize;
use std::sync::Arc;

/// The kind of the table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Whole stacks
    Stacks,
    /// Functions, by what they allocate themselves
    Own,
    /// Functions, together with what they call
    Cum,
    /// Allocating threads
    Threads,
}

impl View {
    /// All of them, in the order of their keys.
    pub const ALL: [View; 4] = [View::Stacks, View::Own, View::Cum, View::Threads];

    /// Its name on the command line and in `--json`.
    pub fn name(self) -> &'static str {
        ["stacks", "functions", "total", "threads"][self as usize]
    }
}

/// Order of the rows; the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// All of them, in the order of their key.
    pub const ALL: [Sort; 5] = [Sort::Live, Sort::Change, Sort::Rate, Sort::Age, Sort::Name];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        ["live", "change", "rate", "age", "name"][self as usize]
    }
}

/// The object that a row at the left edge shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// A function with all its activations.
    Function(FrameName),
    /// Lowest number of the stacks with the same frames.
    Stack(usize),
    /// By its number.
    Thread(u32),
}

/// The direction of the rows that an opened row shows below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards main.
    #[default]
    Callers,
    /// Away from it.
    Callees,
}

/// Names a row from one moment to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// At the left edge.
    pub root: Root,
    /// Direction of the rows below it.
    pub direction: Direction,
    /// From the root on, which is not in it.
    pub path: Vec<FrameName>,
}

impl Key {
    /// Creates the key of a row at the left edge.
    pub fn root(root: Root) -> Self {
        Self { root, direction: Direction::Callers, path: Vec::new() }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// `None`: cannot be opened.
    #[serde(skip)]
    pub key: Option<Key>,
    /// 0 at the left edge.
    #[serde(skip)]
    pub depth: usize,
    /// Direction from the root to this row; without meaning at depth 0.
    #[serde(skip)]
    pub direction: Direction,
    /// Name of the function, stack or thread.
    pub name: Arc<str>,
    /// Empty: unknown.
    pub file: Arc<str>,
    /// Line that most of its live bytes come from; 0: unknown.
    pub line: u32,
    /// `None`: a frame of the stack above it.
    #[serde(flatten)]
    pub sums: Option<Sums>,
}

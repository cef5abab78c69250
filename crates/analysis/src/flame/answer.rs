//! The answer that a client gets of a graph.

use crate::tint::TintTotal;
use ramson_profile::{Estimate, FrameName, SampleType};
use serde::Serialize;

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Flame {
    /// Sample type that was counted.
    pub sample_type: SampleType,
    /// Unit of the values.
    pub unit: &'static str,
    /// When the profile was, in ns since 1970; 0: not known.
    pub time_unix_ns: u64,
    /// All stacks of the source: what shares are shares of.
    pub total: Value,
    /// Value of the stacks through the functions that were asked for; `null` if none were.
    pub around: Option<Value>,
    /// Functions that the nodes name by their place here.
    pub functions: Vec<FunctionEntry>,
    /// Binaries that the functions name by their place here.
    pub libraries: Vec<String>,
    /// The zoomed frame and those that lead to it, outermost first.
    pub path: Nodes,
    /// The tree below the zoomed frame.
    pub nodes: Nodes,
    /// Tree of the callers of the functions that were asked for.
    pub callers: Option<Nodes>,
    /// All frames that have no node of their own.
    pub merged: Merged,
    /// Result of the search.
    pub search: Option<Found>,
    /// Functions with what they allocate themselves in the zoomed stacks, the largest first.
    pub flat: Vec<Flat>,
    /// Figure that colours the frames, for all of them together.
    pub tint: Option<TintTotal>,
    /// Defects of the source.
    pub defects: Vec<String>,
}

/// A value with its objects.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Value {
    /// Value in the unit of the sample type.
    pub value: Estimate,
    /// How many allocations.
    pub objects: Estimate,
}

/// A function.
#[derive(Serialize, schemars::JsonSchema)]
pub struct FunctionEntry {
    /// Names it in `path`.
    pub key: u32,
    /// In full.
    #[serde(flatten)]
    pub name: FrameName,
    /// Without parameters and template arguments.
    pub short: String,
    /// Its binary's place among the libraries; `null`: none.
    pub library: Option<usize>,
    /// The program's own, by the rules for own frames.
    pub is_own: bool,
    /// The search matches it.
    pub is_match: bool,
}

/// Nodes of a tree in its order, a column for each of their figures.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Nodes {
    /// 0 for the first.
    pub depth: Vec<usize>,
    /// Place among the functions; `-1`: merged frames.
    pub function: Vec<i64>,
    /// Stacks that pass through here; `null`: not known.
    pub cum: Vec<Option<i64>>,
    /// Half of its 95% interval; `null`: not known.
    pub half_width_95: Vec<Option<i64>>,
    /// Stacks that end here.
    pub flat: Vec<Option<i64>>,
    /// How many allocations `cum` is.
    pub objects: Vec<Option<i64>>,
    /// How many frames are merged here; 0: it is a frame.
    pub merged: Vec<usize>,
    /// Figure that colours them, as `TintTotal::figure`; empty if none was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tint: Vec<Option<i64>>,
    /// Half of its 95% interval; empty where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tint_half_width_95: Vec<Option<i64>>,
}

/// Frames without nodes.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct Merged {
    /// How many.
    pub frames: usize,
    /// Sum of the values that pass through them.
    pub value: Estimate,
    /// Narrower ones were merged; of the zoomed frame.
    pub least_share: f64,
}

/// The result of a search.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Found {
    /// How many functions match.
    pub functions: usize,
    /// All stacks through one of them, each once.
    pub value: Estimate,
}

/// A function with what it allocates itself.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Flat {
    /// Its place among the functions.
    pub function: usize,
    /// How much.
    pub value: Estimate,
    /// How many allocations.
    pub objects: Estimate,
}

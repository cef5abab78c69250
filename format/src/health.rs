//! What a process counts about its own recording.

/// Indices of `Header::health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these counters")]
pub enum Health {
    Samples = 0,
    Frees,
    DroppedLive,
    DroppedStacks,
    DroppedWalks,
    DroppedMappings,
    CutWalks,
    FailedWalks,
    ForeignWalks,
    Healed,
    OwnBytes,
    GrowFailures,
    RulesCompiled,
    SlowCycles,
    FilterBytes,
    Extents,
    DroppedExtents,
    UnknownFreeStacks,
    DroppedFrees,
}

/// All health counters in order, with their names in FORMAT.md.
pub const HEALTH: [(Health, &str); 19] = [
    (Health::Samples, "samples"),
    (Health::Frees, "frees"),
    (Health::DroppedLive, "dropped_live"),
    (Health::DroppedStacks, "dropped_stacks"),
    (Health::DroppedWalks, "dropped_walks"),
    (Health::DroppedMappings, "dropped_mappings"),
    (Health::CutWalks, "cut_walks"),
    (Health::FailedWalks, "failed_walks"),
    (Health::ForeignWalks, "foreign_walks"),
    (Health::Healed, "healed"),
    (Health::OwnBytes, "own_bytes"),
    (Health::GrowFailures, "grow_failures"),
    (Health::RulesCompiled, "rules_compiled"),
    (Health::SlowCycles, "slow_cycles"),
    (Health::FilterBytes, "filter_bytes"),
    (Health::Extents, "extents"),
    (Health::DroppedExtents, "dropped_extents"),
    (Health::UnknownFreeStacks, "unknown_free_stacks"),
    (Health::DroppedFrees, "dropped_frees"),
];

//! Counters of a process about its own recording.

macro_rules! health {
    ($($counter:ident $name:literal,)+) => {
        /// Indices of `Header::health`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        #[expect(missing_docs, reason = "FORMAT.md is the one place that explains these counters")]
        pub enum Health {
            $($counter,)+
        }

        /// All health counters in order, with their names in FORMAT.md.
        pub const HEALTH: [(Health, &str); [$($name),+].len()] = [$((Health::$counter, $name)),+];
    };
}

health! {
    Samples "samples",
    Frees "frees",
    DroppedLive "dropped_live",
    DroppedStacks "dropped_stacks",
    DroppedWalks "dropped_walks",
    DroppedMappings "dropped_mappings",
    CutWalks "cut_walks",
    FailedWalks "failed_walks",
    ForeignWalks "foreign_walks",
    Healed "healed",
    OwnBytes "own_bytes",
    GrowFailures "grow_failures",
    RulesCompiled "rules_compiled",
    SlowCycles "slow_cycles",
    FilterBytes "filter_bytes",
    Extents "extents",
    DroppedExtents "dropped_extents",
    UnknownFreeStacks "unknown_free_stacks",
    DroppedFrees "dropped_frees",
    Children "children",
    ChildrenWithFile "children_with_file",
}

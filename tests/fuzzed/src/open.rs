//! What still breaks a reader.

/// Target and seed. They are not replayed, nor are mutations for a target that stands here; `replay --open SEED TARGET` tries one.
pub const OPEN: &[(&str, &str)] = &[
    ("profile_regions", "1-overlapping-regions"),
    ("profile_regions", "1-a-hole-of-4-GiB"),
    ("profile_regions", "2-1000-mappings-with-one-path-of-4-MiB"),
    ("profile_regions", "2-240000-mappings"),
    ("pprof_messages", "7-one-location-of-40000-lines-40000-times"),
    ("elf_sections", "6-65535-ends-of-one-long-name-at-one-address"),
    ("elf_sections", "6-overlapping-sections"),
    ("elf_sections", "6-a-linked-file-of-1-TiB"),
    ("elf_sections", "6-inlined-20000-deep"),
    ("elf_sections", "6-mini-debug-information-of-4-GiB"),
    ("history_views", "11-processes-without-end"),
];

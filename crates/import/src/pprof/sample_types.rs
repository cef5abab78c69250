//! Sample types of heap profiles by their names and units. The unit decides what is counted; the name has to agree.

use ramson_profile::{SampleType, SampleUnit};

/// Returns the heap sample type that a writer calls so, and the factor of its unit. `None`: it is not of a heap, or name and
/// unit contradict each other. Names are those of Go and ramson, of google/pprof's text readers, of tcmalloc, Node and heappy
/// (`objects`, `space`, `inuse_space`), Datadog (`heap-live-size`, `alloc-space`), .NET (`alloc_size`), async-profiler
/// (`allocations`, `live`; as Pyroscope converts its JFR files `alloc_in_new_tlab_bytes`) and Perfetto (`Unreleased malloc
/// size`; of heaps other than malloc's `Unreleased size`). Numbers of samples (`alloc-samples`) are not those of objects.
pub fn heap_type(name: &str, unit: &str) -> Option<(SampleType, f64)> {
    let name = name.to_lowercase().replace(['-', ' '], "_");
    let (stem, ending) = name.rsplit_once('_').unwrap_or(("", &name));
    let (stem, named_unit) = match ending {
        "objects" | "count" => (stem, Some(SampleUnit::Objects)),
        "space" | "size" | "bytes" => (stem, Some(SampleUnit::Bytes)),
        _ => (name.as_str(), None),
    };
    let is_live = match stem {
        "inuse" | "in_use" | "live" | "heap_live" | "unreleased" | "unreleased_malloc" => true,
        "heap" if named_unit.is_some() => true,
        "" if matches!(ending, "objects" | "space") => true,
        "total" | "total_malloc" | "total_allocation" if named_unit.is_some() => false,
        "alloc_in_new_tlab" | "alloc_outside_tlab" | "alloc_sample" if named_unit.is_some() => {
            false
        }
        "alloc" | "allocated" | "allocations" | "malloc" | "nativemem" => false,
        _ => return None,
    };
    let (unit, factor) = match unit.to_lowercase().as_str() {
        "" if stem == "allocations" => (SampleUnit::Objects, 1.0),
        "" => (named_unit.unwrap_or(SampleUnit::Bytes), 1.0),
        "count" | "object" | "objects" => (SampleUnit::Objects, 1.0),
        "b" | "byte" | "bytes" => (SampleUnit::Bytes, 1.0),
        "kb" | "kib" | "kilobyte" | "kilobytes" => (SampleUnit::Bytes, 1024.0),
        "mb" | "mib" | "megabyte" | "megabytes" => (SampleUnit::Bytes, 1_048_576.0),
        _ => return None,
    };
    if named_unit.is_some_and(|named| named != unit) {
        return None;
    }
    let of = match (is_live, unit) {
        (true, SampleUnit::Objects) => SampleType::InuseObjects,
        (true, SampleUnit::Bytes) => SampleType::InuseSpace,
        (false, SampleUnit::Objects) => SampleType::AllocObjects,
        (false, SampleUnit::Bytes) => SampleType::AllocSpace,
    };
    Some((of, factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use SampleType::{AllocObjects, AllocSpace, InuseObjects, InuseSpace};

    #[test]
    fn unit_and_name_tell_the_sample_type() {
        for (name, unit, of) in [
            ("inuse_space", "bytes", InuseSpace),
            ("space", "bytes", InuseSpace),
            ("objects", "count", InuseObjects),
            ("objects", "objects", InuseObjects),
            ("allocations", "count", AllocObjects),
            ("allocations", "bytes", AllocSpace),
            ("allocations", "", AllocObjects),
            ("allocated", "", AllocSpace),
            ("live", "", InuseSpace),
            ("live", "count", InuseObjects),
            ("malloc", "bytes", AllocSpace),
            ("heap-space", "bytes", InuseSpace),
            ("heap-live-size", "bytes", InuseSpace),
            ("heap-live-objects", "count", InuseObjects),
            ("alloc-space", "bytes", AllocSpace),
            ("alloc_size", "bytes", AllocSpace),
            ("alloc_in_new_tlab_bytes", "bytes", AllocSpace),
            ("alloc_sample_objects", "count", AllocObjects),
            ("Total malloc count", "count", AllocObjects),
            ("Unreleased malloc size", "bytes", InuseSpace),
            ("Total size", "bytes", AllocSpace),
            ("Unreleased count", "count", InuseObjects),
            ("Total allocation size", "bytes", AllocSpace),
        ] {
            assert_eq!(heap_type(name, unit), Some((of, 1.0)), "{name}/{unit}");
        }
        assert_eq!(heap_type("inuse_space", "kilobytes"), Some((InuseSpace, 1024.0)));
    }

    #[test]
    fn other_types_are_not_of_a_heap() {
        for (name, unit) in [
            ("cpu", "nanoseconds"),
            ("alloc-samples", "count"),
            ("free_space", "bytes"),
            ("heap", "bytes"),
            ("total", "count"),
            ("count", "count"),
            ("size", "bytes"),
            // The unit contradicts the name.
            ("inuse_space", "count"),
            ("inuse_objects", "bytes"),
            ("inuse_space", "nanoseconds"),
        ] {
            assert_eq!(heap_type(name, unit), None, "{name}/{unit}");
        }
    }
}

//! A profile as Go's text: `heap profile: n: bytes [N: bytes] @ heap/2T`, then a line for each sample, with its frames as comments.
//!
//! Readers weight what they find by 1/(1 − e^(−s̄/T)), s̄ being a line's mean size, which is why the numbers here are raw. They are the
//! sampled ones if all blocks of a line have one size and the interval never changed. Otherwise each is the integer whose weight comes
//! closest to the estimate.

use ramson_profile::{
    Estimate, FrameName, FrameTable, Mapping, Profile, STACKS_NOT_RECORDED, SampleType,
    StackSample, printable,
};
use std::io::{self, Write};

/// Objects and bytes, raw.
type Raw = (i64, i64);

/// Writes the document. Stacks are return addresses, leaf first; a stack that was not recorded has none.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let interval = profile.interval_bytes;
    let raw = |sample: &StackSample| {
        let of = |objects, space| raw(sample.value(objects), sample.value(space), interval);
        let live = of(SampleType::InuseObjects, SampleType::InuseSpace);
        (live, of(SampleType::AllocObjects, SampleType::AllocSpace))
    };
    let add = |sum: (Raw, Raw), of: (Raw, Raw)| {
        let each = |sum: Raw, of: Raw| (sum.0.saturating_add(of.0), sum.1.saturating_add(of.1));
        (each(sum.0, of.0), each(sum.1, of.1))
    };
    let ((live, live_bytes), (all, all_bytes)) =
        profile.samples.iter().map(raw).fold(((0, 0), (0, 0)), add);
    let doubled = interval.saturating_mul(2);
    writeln!(out, "heap profile: {live}: {live_bytes} [{all}: {all_bytes}] @ heap/{doubled}")?;
    let frames = FrameTable::new(profile);
    for sample in &profile.samples {
        let ((live, live_bytes), (all, all_bytes)) = raw(sample);
        write!(out, "{live}: {live_bytes} [{all}: {all_bytes}] @")?;
        for &location in &sample.locations {
            let call = profile.locations[location as usize].address;
            write!(out, " {:#x}", call.return_address().0)?;
        }
        writeln!(out)?;
        for &location in &sample.locations {
            let of = &profile.locations[location as usize];
            let address = of.address.0;
            // As in Go, for inlined frames that of the function that they are in.
            let offset = of.offset.map_or_else(String::new, |offset| format!("+{offset:#x}"));
            for at in frames.of_location(location as usize) {
                let name = frames.name(at.frame);
                let FrameName { name, file, .. } = name;
                writeln!(out, "#\t{address:#x}\t{name}{offset}\t{file}:{}", at.line)?;
            }
        }
        if sample.locations.is_empty() {
            writeln!(out, "#\t{STACKS_NOT_RECORDED}")?;
        }
    }
    write_mappings(profile, out)?;
    out.flush()
}

/// Writes where binaries were mapped, as /proc/PID/maps shows it.
fn write_mappings(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nMAPPED_LIBRARIES:")?;
    for mapping in &profile.mappings {
        let Mapping { start, end, file_offset, .. } = mapping;
        let path = printable(&mapping.path);
        writeln!(out, "{start:08x}-{end:08x} r-xp {file_offset:08x} 00:00 0 {path}")?;
    }
    Ok(())
}

/// Returns the raw counts that a reader scales to this weight.
fn raw(objects: Estimate, space: Estimate, interval_bytes: u64) -> Raw {
    let size = space.value / objects.value;
    if !size.is_finite() || size <= 0.0 {
        return (0, 0);
    }
    let probability = match interval_bytes {
        0 | 1 => 1.0,
        interval => -(-size / interval as f64).exp_m1(),
    };
    let count = (objects.value * probability).round();
    // A stack with objects has at least one that was sampled.
    let count = if count == 0.0 { objects.value.signum() } else { count };
    (count as i64, (count * size).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64) -> Estimate {
        Estimate::new(value, 0.0)
    }

    #[test]
    fn raw_values_invert_sampling_weight() {
        let interval = 524_288;
        for (size, samples) in [(64.0, 1.0), (4096.0, 7.0), (1e6, 3.0), (1e9, 2.0)] {
            let weight = 1.0 / -(-size / interval as f64).exp_m1();
            let (objects, bytes) = (samples * weight, samples * weight * size);
            let (count, total) = raw(estimate(objects), estimate(bytes), interval);
            assert_eq!((count, total), (samples as i64, (samples * size) as i64), "{size}");
        }
    }

    #[test]
    fn fully_recorded_values_stay() {
        assert_eq!(raw(estimate(3.0), estimate(48.0), 1), (3, 48));
        assert_eq!(raw(estimate(3.0), estimate(48.0), 0), (3, 48));
        assert_eq!(raw(estimate(0.0), estimate(0.0), 1024), (0, 0));
        assert_eq!(raw(estimate(f64::NAN), estimate(f64::NAN), 1024), (0, 0));
        assert_eq!(raw(estimate(1.0), estimate(16.0), 1 << 20), (1, 16));
    }
}

//! How long a snapshot is kept: a pure function of times.
//!
//! A history has levels, each coarser and kept longer than the one before. A snapshot is written to the finest. When the last of a
//! chain is older than its level is kept, the next level takes over what it is due (`thinning`), and the chain goes.

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Snapshots of one chain at most: what has to be read for one of them, and what goes at once.
pub const CHAIN_LENGTH: u32 = 160;
/// A chain ends when its bytes are this many times those of its first snapshot, which stands for itself.
const MOST_OF_FIRST: u64 = 7;
/// A chain with no more bytes is read in no time.
const LEAST_BYTES: u64 = 64 << 10;

/// How long a chain is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    snapshots: u32,
    first_bytes: u64,
    bytes: u64,
}

impl Length {
    /// One more snapshot of so many bytes.
    pub fn add(&mut self, bytes: u64) {
        if self.snapshots == 0 {
            self.first_bytes = bytes;
        }
        self.snapshots += 1;
        self.bytes += bytes;
    }

    /// Whether the next snapshot begins another chain.
    pub fn is_full(&self) -> bool {
        let most_bytes = (MOST_OF_FIRST * self.first_bytes).max(LEAST_BYTES);
        self.snapshots >= CHAIN_LENGTH || self.bytes > most_bytes
    }
}

/// One level. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// At most one snapshot in each such span, which are aligned to 1970.
    pub every_ns: u64,
    /// How long they are kept.
    pub keep_ns: u64,
}

/// The levels of a history, finest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(pub(crate) Vec<Level>);

impl Levels {
    /// Every `every_ns` for an hour, every minute for a day, every 10 minutes for `keep_ns`; a level that is not coarser than the one before
    /// is left out, and none keeps longer than `keep_ns`.
    pub fn new(every_ns: u64, keep_ns: u64) -> Self {
        let wanted = [(every_ns, HOUR), (MINUTE, DAY), (10 * MINUTE, u64::MAX)];
        let mut levels: Vec<Level> = Vec::new();
        for (every_ns, most_ns) in wanted {
            let keep_ns = most_ns.min(keep_ns);
            match levels.last_mut() {
                Some(last) if last.keep_ns >= keep_ns => {}
                Some(last) if last.every_ns >= every_ns => last.keep_ns = keep_ns,
                _ => levels.push(Level { every_ns, keep_ns }),
            }
        }
        Self(levels)
    }

    /// Whether a snapshot of this time belongs to a level whose last one is of `last_ns`. The finest level takes all; what `is_kept`
    /// (a mark, an exit, a peak), all levels do.
    pub fn is_due(&self, level: usize, last_ns: Option<u64>, time_ns: u64, is_kept: bool) -> bool {
        let every_ns = self.0[level].every_ns.max(1);
        level == 0
            || is_kept
            || last_ns.is_none_or(|last_ns| last_ns / every_ns != time_ns / every_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains of one level: times of their snapshots.
    #[derive(Default)]
    struct Store(Vec<Vec<Vec<u64>>>);

    impl Store {
        fn push(&mut self, levels: &Levels, level: usize, time_ns: u64, is_kept: bool) {
            self.0.resize(levels.0.len(), Vec::new());
            let chains = &mut self.0[level];
            let last = chains.last().and_then(|chain| chain.last()).copied();
            if levels.is_due(level, last, time_ns, is_kept) {
                match chains.last_mut() {
                    Some(chain) if chain.len() < CHAIN_LENGTH as usize => chain.push(time_ns),
                    _ => chains.push(vec![time_ns]),
                }
            }
        }

        fn take(&mut self, levels: &Levels, time_ns: u64, kept_ns: u64) {
            self.push(levels, 0, time_ns, time_ns == kept_ns);
            for level in 0..levels.0.len() {
                let before = time_ns.saturating_sub(levels.0[level].keep_ns);
                let is_expired =
                    |chain: &mut Vec<u64>| chain.last().is_none_or(|&last| last < before);
                let expired: Vec<u64> =
                    self.0[level].extract_if(.., is_expired).flatten().collect();
                for time_ns in expired.into_iter().filter(|_| level + 1 < levels.0.len()) {
                    self.push(levels, level + 1, time_ns, time_ns == kept_ns);
                }
            }
        }

        fn times(&self) -> Vec<u64> {
            let mut times: Vec<u64> = self.0.iter().flatten().flatten().copied().collect();
            times.sort_unstable();
            times.dedup();
            times
        }
    }

    #[test]
    fn ages_have_their_resolution() {
        let levels = Levels::new(10 * SECOND, 30 * DAY);
        let mut store = Store::default();
        let start = 1_700_000_003 * SECOND;
        let end = start + 32 * DAY;
        let marked = start + 5 * DAY + 7 * SECOND;
        for time in (start..=end).step_by(10 * SECOND as usize) {
            store.take(&levels, time, marked);
            if time < marked && marked < time + 10 * SECOND {
                store.take(&levels, marked, marked);
            }
        }
        let times = store.times();
        for (age, most) in [(HOUR, 10 * SECOND), (DAY, MINUTE), (30 * DAY, 10 * MINUTE)] {
            let within: Vec<u64> =
                times.iter().copied().filter(|&time| time >= end - age).collect();
            assert!(within[0] - (end - age) <= most, "{age}");
            assert!(within.windows(2).all(|pair| pair[1] - pair[0] <= most), "{age}");
        }
        assert!(times.contains(&marked));
        let chain = u64::from(CHAIN_LENGTH);
        let needed = (HOUR / 10 / SECOND + chain)
            + (DAY / MINUTE + chain)
            + (30 * DAY / 10 / MINUTE + chain);
        assert!(times.len() as u64 <= needed + 1, "{} > {needed}", times.len());
    }

    #[test]
    fn chain_ends_before_reading_is_slow() {
        let snapshots = |first: u64, rest: u64| {
            let mut length = Length::default();
            length.add(first);
            while !length.is_full() {
                length.add(rest);
            }
            length.snapshots
        };
        assert_eq!(snapshots(50_000, 100), CHAIN_LENGTH);
        assert_eq!(snapshots(50_000, 10_000), 32);
        assert_eq!(snapshots(100, 100), CHAIN_LENGTH);
    }

    #[test]
    fn finer_levels_are_omitted() {
        let shape = |every: u64, keep: u64| -> Vec<(u64, u64)> {
            let levels = Levels::new(every * SECOND, keep * SECOND);
            let seconds = |level: &Level| (level.every_ns / SECOND, level.keep_ns / SECOND);
            levels.0.iter().map(seconds).collect()
        };
        let day = 86_400;
        assert_eq!(shape(10, 30 * day), [(10, 3600), (60, day), (600, 30 * day)]);
        assert_eq!(shape(300, 30 * day), [(300, day), (600, 30 * day)]);
        assert_eq!(shape(3600, 30 * day), [(3600, 30 * day)]);
        assert_eq!(shape(10, 1800), [(10, 1800)]);
        assert_eq!(shape(10, 7200), [(10, 3600), (60, 7200)]);
    }

    #[test]
    fn clock_set_back_loses_nothing() {
        let levels = Levels::new(10 * SECOND, 30 * DAY);
        assert!(levels.is_due(2, Some(50 * MINUTE), 35 * MINUTE, false));
    }
}

//! Bursts: memory that a function allocates in one go, for example when it loads a table. They are set aside, lest they hide what the
//! function goes on to allocate.

use crate::history::StackHistory;

/// The time since the first sample, in parts of equal length.
const PARTS: usize = 16;
/// A burst is a part with so many times the samples that are usual in the younger half.
const BURST_TIMES: usize = 5;
/// With fewer samples since, it has not shown that it goes on.
pub(crate) const LEAST_SAMPLES: usize = 10;

impl StackHistory {
    /// The same with only the live samples since the last burst, as if the first of them had been the first of all. `None`
    /// without a burst, and unless allocation has gone on since.
    pub(crate) fn since_last_burst(&self) -> Option<Self> {
        let part_ns = self.observed_ns().div_ceil(PARTS as u64).max(1);
        let mut counts = [0; PARTS];
        for block in &self.live {
            let part = block.time_ns.saturating_sub(self.first_ns) / part_ns;
            counts[(part as usize).min(PARTS - 1)] += 1;
        }
        let mut young = counts[PARTS / 2..].to_vec();
        young.sort_unstable();
        let usual = young[young.len() / 2];
        let last = counts.iter().rposition(|&count| count > BURST_TIMES * usual)?;
        let first_ns = self.first_ns + part_ns * (last as u64 + 1);
        let since = self.changed(&|it| Self {
            first_ns: first_ns.max(it.first_ns),
            ..it.with(|block| block.time_ns >= first_ns)
        });
        (usual > 0 && since.live.len() >= LEAST_SAMPLES).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiveBlock;

    fn history(times_ns: impl Iterator<Item = u64>) -> StackHistory {
        let block = |time_ns| LiveBlock::new(time_ns, 1, 1.0);
        let live = times_ns.map(block).collect();
        StackHistory { first_ns: 100, now_ns: 1700, live, ..StackHistory::default() }
    }

    #[test]
    fn history_since_last_burst_is_left() {
        let steady = (100..1700).step_by(20);
        let bursts = steady.clone().chain([110; 500]).chain([720; 60]);
        let since = history(bursts).since_last_burst().unwrap();
        assert_eq!((since.first_ns, since.observed_ns(), since.live.len()), (800, 900, 45));
        assert_eq!(history(steady).since_last_burst(), None);
    }

    #[test]
    fn ended_bursts_have_no_later_part() {
        assert_eq!(history([110; 500].into_iter()).since_last_burst(), None);
        assert_eq!(history([110; 500].into_iter().chain([900])).since_last_burst(), None);
        let few = (950..1700).step_by(100);
        assert_eq!(history([110; 500].into_iter().chain(few)).since_last_burst(), None);
        assert_eq!(history([].into_iter()).since_last_burst(), None);
    }
}

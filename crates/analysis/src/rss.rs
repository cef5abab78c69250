//! The first line of every summary: what the kernel counts as resident, in terms that add up to it.

use crate::extents;
use ramson_process::allocators::Allocators;
use ramson_process::glibc::{Effort, MOST_WALKED_BYTES, Statistics};
use ramson_process::identify::AllocatorKind;
use ramson_process::rss::{self, Explained, Reading, Request};
use ramson_process::{Part, Term};
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_relative_error};
use ramson_reader::Snapshot;
use serde::{Serialize, Serializer};

/// The statistics of an allocator with more anonymous memory than this are left to `ramson doctor`: reading them takes some
/// 30 ms of CPU time for a GiB.
const MOST_ANONYMOUS_BYTES: u64 = 4 << 30;
/// Quantile of the normal distribution for 95 %.
const Z_95: f64 = 1.959_964;

/// A process's resident memory.
#[derive(Clone, Debug, Serialize)]
pub struct Rss {
    /// What the kernel counts: the sum of the terms.
    pub bytes: u64,
    /// Every term of `Term::ALL`, in its order.
    #[serde(serialize_with = "by_name")]
    terms: Vec<Estimate>,
    /// The terms are of the moment of `bytes`, and not read while these changed too fast.
    is_settled: bool,
    /// The live bytes are the allocator's own figure, and not the profile's estimate.
    #[serde(rename = "live_is_counted")]
    pub is_live_counted: bool,
    /// Whose memory the free bytes are: `malloc` (the C library's), or the name of another allocator.
    pub allocator: String,
    /// The parts, for those who look further.
    #[serde(skip)]
    pub explained: Explained,
}

impl Rss {
    /// Of a running process; `None` where the kernel does not let us look. `profile` is the profile's file, `allocators` are
    /// found if they are `None`.
    pub fn read(
        pid: u32,
        profile: &str,
        snapshot: &Snapshot,
        allocators: &mut Option<Allocators>,
    ) -> Option<Self> {
        let extents = extents::ranges(snapshot);
        let request = Request {
            effort: Effort::Survey(MOST_WALKED_BYTES),
            most_anonymous_bytes: MOST_ANONYMOUS_BYTES,
            profile: Some(profile),
            extents: &extents,
        };
        let reading = rss::read(pid, allocators, &request).ok()?;
        let live = extents::live_heap(snapshot);
        let Reading { explained, statistics, .. } = reading;
        Some(Self::of(explained, statistics.as_ref().ok(), Some(live), allocators.as_ref()))
    }

    /// From the classification of a process's memory. Where the allocator's statistics do not tell what is live, the
    /// profile's estimate does: it is taken out of the anonymous memory of which no more is known.
    pub fn of(
        mut explained: Explained,
        statistics: Option<&Statistics>,
        live: Option<Estimate>,
        allocators: Option<&Allocators>,
    ) -> Self {
        let is_live_counted = explained.part(Part::Live) != 0;
        let mut variance =
            statistics.map_or(0.0, |statistics| (statistics.half_width_95_bytes() / Z_95).powi(2));
        if let (Some(live), false) = (live, is_live_counted) {
            explained.move_from_anonymous(Part::Live, live.value.round() as i64);
            variance = live.variance;
        }
        // With statistics, what is free is glibc's, whatever else is linked.
        let other = allocators.filter(|_| statistics.is_none()).and_then(|it| it.other.as_ref());
        let other = other.map_or(AllocatorKind::InProgram, |&(kind, _)| kind);
        let of_term = |&(term, _): &(Term, &str)| {
            let is_estimated = match term {
                Term::Live => true,
                Term::Free => is_live_counted,
                Term::Other => !is_live_counted && live.is_some(),
                _ => false,
            };
            let variance = if is_estimated { variance } else { 0.0 };
            Estimate { value: explained.term(term) as f64, variance }
        };
        Self {
            bytes: explained.rss,
            is_settled: !explained.is_unsettled,
            terms: Term::ALL.iter().map(of_term).collect(),
            is_live_counted,
            allocator: match other {
                AllocatorKind::InProgram => "malloc".into(),
                other => format!("{other:?}").to_lowercase(),
            },
            explained,
        }
    }

    /// Of several processes: the sum of each term. Pages that they share count in each. `None`: of no process.
    pub fn sum(all: &[&Self]) -> Option<Self> {
        let first = all.first()?;
        let is_one_allocator = all.iter().all(|rss| rss.allocator == first.allocator);
        let of_term = |&(term, _): &(Term, &str)| all.iter().map(|rss| rss.term(term)).sum();
        Some(Self {
            bytes: all.iter().map(|rss| rss.bytes).sum(),
            is_settled: all.iter().all(|rss| rss.is_settled),
            terms: Term::ALL.iter().map(of_term).collect(),
            is_live_counted: all.iter().all(|rss| rss.is_live_counted),
            allocator: if is_one_allocator { first.allocator.clone() } else { "allocators".into() },
            explained: all.iter().map(|rss| &rss.explained).sum(),
        })
    }

    /// A term's bytes, with their interval where they are an estimate.
    pub fn term(&self, term: Term) -> Estimate {
        self.terms[term as usize]
    }

    /// `RSS 132 MiB = live 108 MiB (±13 %) + files 10.9 MiB + …`: the terms in their order, zeros left out.
    pub fn line(&self) -> String {
        let mut line = format!("RSS {}", format_bytes(self.bytes as f64));
        if self.explained.is_unsettled {
            line += " (by the kernel's total: it changes faster than its parts can be read)";
        }
        line += " =";
        let shown = Term::ALL.iter().map(|&(term, _)| (term, self.term(term)));
        for (index, (term, estimate)) in shown.filter(|(_, of)| of.value != 0.0).enumerate() {
            let sign = match (index, estimate.value < 0.0) {
                (_, true) => " −",
                (0, false) => "",
                (_, false) => " +",
            };
            let bytes = format_bytes(estimate.value.abs());
            line += &format!("{sign} {} {bytes}", self.word(term));
            if estimate.variance > 0.0 {
                line += &format!(" ({})", format_relative_error(estimate));
            }
        }
        line
    }

    /// What a term is called.
    pub fn word(&self, term: Term) -> String {
        match term {
            Term::Free => format!("free in {}", self.allocator),
            _ => Term::ALL[term as usize].1.replace('_', " "),
        }
    }
}

fn by_name<S: Serializer>(terms: &[Estimate], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Term::ALL.iter().map(|(_, name)| name).zip(terms))
}

/// Live bytes with their interval. Without a live sample there is no estimate.
pub fn live_text(live: Estimate) -> String {
    match live.value {
        0.0 => "0 B (no live samples)".into(),
        value => format!("{} ({})", format_bytes(value), format_relative_error(live)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_process::parse_smaps;
    use ramson_process::rss::{Known, explain};

    const MIB: f64 = 1048576.0;

    fn explained() -> Explained {
        const SMAPS: &str = "\
404000-804000 rw-p 00000000 00:00 0                                      [heap]
Rss:                3072 kB
7f0000000000-7f0000002000 r--p 00000000 08:01 4                          /srv/data.db
Rss:                1024 kB
";
        let known = Known {
            statistics: None,
            extents: &[],
            profile: None,
            is_stack: &|_| false,
            is_shmem: &|_| false,
            padding: &|_| 0,
            resident: &|_| None,
        };
        explain(&parse_smaps(SMAPS.as_bytes()), &known)
    }

    fn estimate(mib: f64, half_width_mib: f64) -> Estimate {
        Estimate { value: mib * MIB, variance: (half_width_mib * MIB / Z_95).powi(2) }
    }

    #[test]
    fn the_terms_add_up_to_rss_whatever_the_profile_estimates() {
        for live in [0.0, 2.0, 3.0, 5.0] {
            let rss = Rss::of(explained(), None, Some(estimate(live, 0.3)), None);
            let sum: f64 = Term::ALL.iter().map(|&(term, _)| rss.term(term).value).sum();
            assert_eq!(sum, 4.0 * MIB, "{live}");
        }
    }

    #[test]
    fn the_line_has_the_terms_in_their_order_and_leaves_zeros_out() {
        let rss = Rss::of(explained(), None, Some(estimate(2.0, 0.3)), None);
        assert_eq!(
            rss.line(),
            "RSS 4.00 MiB = live 2.00 MiB (±15 %) + files 1.00 MiB + other anonymous 1.00 MiB (±30 %)"
        );
        let rss = Rss::of(explained(), None, None, None);
        assert_eq!(rss.line(), "RSS 4.00 MiB = files 1.00 MiB + other anonymous 3.00 MiB");
    }

    #[test]
    fn the_terms_of_several_processes_add_up_with_their_variances() {
        let one = Rss::of(explained(), None, Some(estimate(2.0, 0.3)), None);
        let other = Rss::of(explained(), None, Some(estimate(1.0, 0.4)), None);
        let sum = Rss::sum(&[&one, &other]).unwrap();
        assert_eq!(sum.bytes, 8 << 20);
        let live = sum.term(Term::Live);
        assert_eq!(live.value, 3.0 * MIB);
        assert!((live.half_width_95() / (0.5 * MIB) - 1.0).abs() < 1e-6, "{live:?}");
        assert_eq!(sum.explained.rss, 8 << 20);
        assert!(Rss::sum(&[]).is_none());
    }

    #[test]
    fn an_object_has_every_term() {
        let rss = Rss::of(explained(), None, Some(estimate(2.0, 0.3)), None);
        let object = serde_json::to_value(&rss).unwrap();
        assert_eq!(object["bytes"], 4 << 20);
        assert_eq!(object["terms"]["live"]["value"], 2 << 20);
        assert_eq!(object["terms"]["kernel"]["value"], 0);
        assert_eq!(object["terms"].as_object().unwrap().len(), Term::ALL.len());
    }
}

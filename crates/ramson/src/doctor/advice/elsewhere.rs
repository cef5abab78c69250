//! What is not kept free: memory that lives, is mapped, or is a file's, and the padding of huge pages.

use super::{Advice, MAIN_SHARE, Saving, size};
use crate::doctor::examine::Finding;
use ramson_allocator::Part;
use ramson_profile::format::format_percent;

pub fn padding(finding: &Finding) -> Option<Advice> {
    let bytes = finding.explained.part(Part::Padding).max(0) as u64;
    (bytes > 0).then(|| Advice {
        cause: "thp",
        action:
            "no huge pages there: MADV_NOHUGEPAGE, prctl(PR_SET_THP_DISABLE), or \"madvise\" in \
                 /sys/kernel/mm/transparent_hugepage/enabled"
                .into(),
        evidence: format!(
            "{} in transparent huge pages, of which {} are zeros: most likely never touched",
            size(finding.explained.anonymous_huge),
            size(bytes)
        ),
        risk: "more page faults and more misses of the TLB",
        saving: Saving::Expected(bytes, 0.0),
    })
}

/// What most of RSS is, if it is one thing.
pub fn main_part(finding: &Finding) -> Option<Advice> {
    let explained = &finding.explained;
    let part = |part| explained.part(part).max(0) as u64;
    let is_main = |bytes: u64| bytes as f64 >= MAIN_SHARE * explained.rss as f64;
    let share = |bytes: u64| format_percent(bytes as f64, explained.rss as f64);
    let (live, mmaps) = (part(Part::Live) + part(Part::Metadata), part(Part::Anonymous));
    let files = part(Part::FilesPrivate) + part(Part::FilesShared);
    let pid = finding.pid;
    if is_main(live) {
        let next = if finding.live.is_some() {
            format!("ask whether it grows: ramson leaks {pid}")
        } else {
            "ask whether it grows: start it with \"ramson run\", then \"ramson leaks PID\"".into()
        };
        return Some(Advice {
            cause: "leaks",
            action: next,
            evidence: format!(
                "{} ({}) lives: the program has not freed it",
                size(live),
                share(live)
            ),
            risk: "none",
            saving: Saving::Unknown,
        });
    }
    if is_main(files) {
        return Some(Advice {
            cause: "files",
            action: "nothing to do: the kernel takes pages of files back when it needs memory"
                .into(),
            evidence: format!(
                "{} ({}) is files that the program mapped",
                size(files),
                share(files)
            ),
            risk: "none",
            saving: Saving::Unknown,
        });
    }
    (is_main(mmaps) && finding.books.is_ok()).then(|| Advice {
        cause: "mmaps",
        action: if finding.live.is_some() {
            format!("see who mapped it: ramson report {pid} --kind mmap")
        } else {
            "see who mapped it: start it with \"ramson run\", then \"ramson report PID --kind mmap\"".into()
        },
        evidence: format!(
            "{} ({}) was mapped by the program itself, not by malloc",
            size(mmaps),
            share(mmaps)
        ),
        risk: "none",
        saving: Saving::Unknown,
    })
}

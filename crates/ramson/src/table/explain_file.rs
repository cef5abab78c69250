//! What a file of glibc's `malloc_info` says, for people.

use super::{cut_all, pins, push_prose, size};
use ramson_analysis::explain::FileFinding;

pub fn text(finding: &FileFinding) -> String {
    let mut out = String::new();
    push_prose(&mut out, "", &finding.title());
    out.push('\n');
    pins::push_causes(&mut out, finding.causes.iter().map(|cause| cause.sentence.clone()));
    for defect in &finding.defects {
        push_prose(&mut out, "not complete: ", defect);
    }
    pins::push_advice(&mut out, finding.advice.iter().map(|advice| (String::new(), advice)), true);
    let sum = format!(
        "malloc {} = live {} + free in malloc {} + mapped one by one {}",
        size(finding.system_bytes),
        size(finding.live_bytes),
        size(finding.free_bytes),
        size(finding.mapped_bytes)
    );
    out.push('\n');
    push_prose(&mut out, "", &sum);
    cut_all(out.lines().map(str::to_owned))
}

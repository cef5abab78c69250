//! Explains what glibc's `malloc_info` wrote into a file, as far as the file goes: it tells neither RSS nor stacks.

use super::advice::{Advice, of_malloc_info};
use super::cause::Cause;
use super::words::{amount, size};
use ramson_profile::Estimate;
use ramson_profile::format::format_objects;
use ramson_source::MallocInfo;
use serde::Serialize;

/// Findings in such a file.
#[derive(Serialize, schemars::JsonSchema)]
pub struct FileFinding {
    /// The file.
    pub origin: String,
    /// Bytes that malloc took from the system: for its arenas, and for blocks that it mapped one by one.
    pub system_bytes: u64,
    /// How many arenas are in the file.
    pub arenas: u64,
    /// Free bytes in the arenas.
    pub free_bytes: u64,
    /// How many chunks these are in.
    pub free_chunks: u64,
    /// All other bytes of the arenas: live blocks, and what threads keep in their caches.
    pub live_bytes: u64,
    /// Bytes of blocks that malloc mapped one by one.
    pub mapped_bytes: u64,
    /// How many these are.
    pub mapped_blocks: u64,
    /// Causes of these bytes, the largest first.
    pub causes: Vec<Cause>,
    /// Advice, best first; never empty.
    pub advice: Vec<Advice>,
    /// Missing parts of the file.
    pub defects: Vec<String>,
}

impl FileFinding {
    /// Explains what was read from `origin`.
    pub fn of(origin: &str, info: &MallocInfo) -> Self {
        let sum = info.sum();
        let system_bytes = sum.system_bytes.saturating_add(info.mapped.bytes);
        let mut finding = Self {
            origin: origin.to_owned(),
            system_bytes,
            arenas: info.arenas.len() as u64,
            free_bytes: sum.free.bytes,
            free_chunks: sum.free.count,
            live_bytes: sum.system_bytes.saturating_sub(sum.free.bytes),
            mapped_bytes: info.mapped.bytes,
            mapped_blocks: info.mapped.count,
            causes: Vec::new(),
            advice: of_malloc_info(info, system_bytes),
            defects: Vec::new(),
        };
        let missing = "some arenas are missing: the file is truncated or incomplete";
        finding.defects.extend(info.is_cut().then(|| missing.to_owned()));
        let earlier = match info.earlier {
            0 => None,
            1 => Some("one earlier document was skipped: the last one is shown".into()),
            count => Some(format!("{count} earlier documents were skipped: the last one is shown")),
        };
        finding.defects.extend(earlier);
        let causes = [finding.free(info), finding.live(), finding.mapped()];
        finding.causes = causes.into_iter().filter(|cause| cause.bytes.value > 0.0).collect();
        finding.causes.sort_by(|a, b| b.bytes.value.total_cmp(&a.bytes.value));
        finding
    }

    fn free(&self, info: &MallocInfo) -> Cause {
        let bytes = Estimate::exact(self.free_bytes as f64);
        let sum = info.sum();
        let tops = info.arenas.iter().map(|arena| arena.top_bytes());
        let tops = tops.reduce(|sum, top| Some(sum?.saturating_add(top?))).flatten();
        let small = sum.sized.bytes - sum.large.bytes;
        let why = if tops.is_some_and(|tops| tops > self.free_bytes / 2) {
            "most of it is at the ends of the arenas"
        } else if small > self.free_bytes / 2 {
            "most of it is in chunks smaller than a page, which malloc cannot return"
        } else {
            "malloc keeps it for reuse"
        };
        let sentence = format!(
            "{} is free memory that the program gave back to malloc, in {} chunks; {why}. The file does not say how much of it is in RSS.",
            amount(bytes, self.system_bytes),
            format_objects(self.free_chunks as f64),
        );
        Cause { cause: "free", bytes, sentence }
    }

    fn live(&self) -> Cause {
        let bytes = Estimate::exact(self.live_bytes as f64);
        let sentence = format!(
            "{} is live or in per-thread caches, which malloc_info does not count separately. Whether it grows is not known without a profile.",
            amount(bytes, self.system_bytes),
        );
        Cause { cause: "live", bytes, sentence }
    }

    fn mapped(&self) -> Cause {
        let bytes = Estimate::exact(self.mapped_bytes as f64);
        let sentence = format!(
            "{} is live in large blocks that malloc mapped one by one ({}).",
            amount(bytes, self.system_bytes),
            format_objects(self.mapped_blocks as f64),
        );
        Cause { cause: "mapped", bytes, sentence }
    }

    /// `129 GiB taken from the system by malloc, in 96 arenas`.
    pub fn title(&self) -> String {
        let arenas = if self.arenas == 1 { "arena" } else { "arenas" };
        format!(
            "{} taken from the system by malloc: {} (glibc's malloc_info), {} {arenas}",
            size(self.system_bytes),
            self.origin,
            format_objects(self.arenas as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Needs;
    use ramson_source::malloc_info;
    use std::fmt::Write;
    use std::fs;

    /// Finding in a file with this content.
    fn finding(text: &str) -> FileFinding {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        FileFinding::of("info.xml", &malloc_info(file.path()).expect("it is malloc_info's"))
    }

    /// A published case of a search engine, in glibc's form: 96 arenas have 139,098,812,416 bytes from the system, of which
    /// 137,157,559,274 are free in 511,290 chunks.
    fn published() -> String {
        let part = |all: u64, index: u64| all / 96 + u64::from(index < all % 96);
        let mut xml = String::from("<malloc version=\"1\">\n");
        for index in 0..96 {
            let (free, chunks) = (part(137_157_559_274, index), part(511_290, index));
            let system = part(139_098_812_416, index);
            let sized = free - 132_000;
            let _ = write!(
                xml,
                "<heap nr=\"{index}\">\n<sizes>\n  <size from=\"524289\" to=\"67108833\" total=\"{sized}\" count=\"{}\"/>\n\
                 </sizes>\n<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"{chunks}\" size=\"{free}\"/>\n\
                 <system type=\"current\" size=\"{system}\"/>\n<system type=\"max\" size=\"{system}\"/>\n\
                 <aspace type=\"total\" size=\"{system}\"/>\n<aspace type=\"mprotect\" size=\"{system}\"/>\n</heap>\n",
                chunks - 1
            );
        }
        xml + "<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"511290\" size=\"137157559274\"/>\n\
            <total type=\"mmap\" count=\"0\" size=\"0\"/>\n<system type=\"current\" size=\"139098812416\"/>\n\
            <system type=\"max\" size=\"139098812416\"/>\n<aspace type=\"total\" size=\"139098812416\"/>\n\
            <aspace type=\"mprotect\" size=\"139098812416\"/>\n</malloc>\n"
    }

    #[test]
    fn published_figures_are_explained() {
        let found = finding(&published());
        assert_eq!((found.arenas, found.free_chunks), (96, 511_290));
        assert_eq!(found.free_bytes, 137_157_559_274);
        assert_eq!(found.live_bytes, 139_098_812_416 - 137_157_559_274);
        assert_eq!(found.defects, [""; 0]);
        assert_eq!(
            found.title(),
            "130 GiB taken from the system by malloc: info.xml (glibc's malloc_info), 96 arenas"
        );
        let sentences: Vec<&str> = found.causes.iter().map(|cause| &*cause.sentence).collect();
        assert_eq!(sentences.len(), 2);
        assert!(
            sentences[0].starts_with("128 GiB (98.6%) is free memory that the program gave back to malloc, in 511,290 chunks"),
            "{sentences:?}"
        );
        assert!(sentences[1].starts_with("1.81 GiB (1.40%) is live"), "{sentences:?}");
        let causes: Vec<&str> = found.advice.iter().map(|advice| advice.cause).collect();
        assert_eq!(causes, ["trim", "arena_max"]);
    }

    #[test]
    fn a_real_file_adds_up() {
        // Figures of glibc 2.36, for which mallinfo2 said: arena 29061120, fordblks 24447008, hblkhd 5263360. glibc counts each free chunk's flag
        // as a byte.
        let found = finding(include_str!("../../../../tests/golden/import/malloc_info.xml"));
        assert_eq!(found.arenas, 3);
        assert_eq!(found.system_bytes, 29_061_120 + 5_263_360);
        assert!(found.free_bytes - 24_447_008 <= found.free_chunks);
        assert_eq!(found.mapped_blocks, 5);
        let sum: f64 = found.causes.iter().map(|cause| cause.bytes.value).sum();
        assert_eq!(sum, found.system_bytes as f64);
        assert_eq!(found.defects, [""; 0]);
    }

    #[test]
    fn the_last_of_several_is_explained() {
        let earlier = published().replace("137157559274", "1");
        let found = finding(&format!("{earlier}12:00 a line of the log\n{}", published()));
        assert_eq!((found.arenas, found.free_bytes), (96, 137_157_559_274));
        assert_eq!(found.defects, ["one earlier document was skipped: the last one is shown"]);
    }

    #[test]
    fn a_part_of_a_file_says_so() {
        let whole = published();
        let cut = finding(&whole[..whole.len() / 2]);
        assert!(cut.arenas < 96 && cut.defects.len() == 1, "{:?}", cut.defects);
        // Only the sums, as people paste them.
        let start = whole.find("<heap").unwrap();
        let end = whole.rfind("</heap>").unwrap() + 8;
        let sums = finding(&format!("{}{}", &whole[..start], &whole[end..]));
        assert_eq!((sums.free_bytes, sums.defects.len()), (137_157_559_274, 1));
        assert!(sums.advice.iter().all(|advice| advice.needs == Needs::Command));
    }
}

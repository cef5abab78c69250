//! The comparison in a page that is one file: the table of `ramson diff`, and the call tree of either side, coloured by what changed.

use crate::flags::ExportFlags;
use crate::saved::{key, put, whole};
use ramson_analysis::comparison::compare_opened;
use ramson_analysis::flame::{Graph, Shown, Wanted};
use ramson_analysis::question::Question;
use ramson_analysis::tint::Tint;
use ramson_encode::html::Page;
use ramson_profile::SampleType;
use ramson_profile::format::format_objects;
use ramson_profile::view::Walk;
use ramson_source::{Failure, Members, Opened, open_all};

/// Sources to compare, and the flags of the command.
pub struct Comparing<'a> {
    pub flags: &'a ExportFlags,
    pub old: &'a mut Members,
    pub new: &'a mut Members,
}

impl Comparing<'_> {
    /// All documents.
    pub fn put(
        &mut self,
        page: &mut Page,
        first: SampleType,
        types: &[SampleType],
        most_rows: usize,
        least_share: f64,
    ) -> Result<(), Failure> {
        for &of in types {
            let put = self.put_type(page, of, of == first, (most_rows, least_share));
            // The earlier source may not have what is not shown first.
            if of == first {
                put?;
            }
        }
        Ok(())
    }

    fn put_type(
        &mut self,
        page: &mut Page,
        of: SampleType,
        is_first: bool,
        (most_rows, least_share): (usize, f64),
    ) -> Result<(), Failure> {
        let names = self.flags.source.names.names();
        let word = if is_first { "" } else { of.name() };
        let question = Question {
            names: names.clone(),
            sample_type: Some(of),
            // 0 would be all.
            rows: most_rows.max(1),
            ..Question::default()
        };
        self.read_again()?;
        let table = compare_opened(self.old, self.new, &question)?;
        let left_out = table.all_rows - table.table.rows.len();
        if is_first && left_out > 0 {
            let count = format_objects(left_out as f64);
            page.note += &format!("The comparison leaves out the {count} smallest changes. ");
        }
        put(page, &key("diff", &[("count", word), ("old", "saved")]), Some("diff"), &table)?;
        let tint = Some(Tint::Change);
        let wanted = Wanted { names: &names, sample_type: Some(of), shown: Shown::Own, tint };
        for (is_swapped, at, before) in [(false, "", "saved"), (true, "saved", "now")] {
            self.read_again()?;
            let (old, new) = if is_swapped {
                (&mut *self.new, &mut *self.old)
            } else {
                (&mut *self.old, &mut *self.new)
            };
            let graph = Graph::read(new, Some(old), &wanted)?;
            let flame = graph.flame(&whole(Walk::Callees, least_share), Some);
            put(
                page,
                &key("flame", &[("at", at), ("count", word), ("old", before)]),
                Some("flame"),
                &flame,
            )?;
        }
        Ok(())
    }

    /// Profiles of other tools are taken out when they are used.
    fn read_again(&mut self) -> Result<(), Failure> {
        let is_taken = |members: &Members| {
            members.opened.iter().any(|opened| matches!(opened, Opened::Foreign(_)))
        };
        if is_taken(self.new) {
            *self.new = open_all(&self.flags.source.sources)?;
        }
        if let Some(old) = self.flags.old.as_ref().filter(|_| is_taken(self.old)) {
            *self.old = open_all(&[old])?;
        }
        Ok(())
    }
}

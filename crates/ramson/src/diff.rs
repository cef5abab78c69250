//! `ramson diff`: what changed between two profiles, and whether that is more than chance.

use crate::flags::DiffFlags;
use crate::output::{gate, print, print_json};
use crate::table;
use ramson_analysis::comparison::compare;
use ramson_analysis::question::Question;
use ramson_profile::SampleUnit;
use ramson_profile::view::Sort;
use ramson_source::Failure;

pub fn diff(flags: &DiffFlags) -> Result<u8, Failure> {
    let comparison = compare(&flags.into())?;
    let counted = comparison.table.sample_type;
    let is_of_objects = counted.unit() == SampleUnit::Objects;
    if let Some(limit) = flags.fail_above.as_ref().filter(|of| of.is_of_bytes() && is_of_objects) {
        return Err(Failure::usage(format!(
            "--fail-above {}: {counted} counts objects. Give a number or a percentage",
            limit.text
        )));
    }
    if flags.json {
        print_json("diff", &comparison)?;
    } else {
        let has_all = flags.rows == 0 || flags.sort != Sort::Flat;
        print(&table::comparison::text(&comparison, has_all))?;
    }
    Ok(gate(flags.fail_above.as_ref().and_then(|limit| limit.finding(&comparison.table))))
}

impl From<&DiffFlags> for Question {
    fn from(flags: &DiffFlags) -> Self {
        Self {
            sources: vec![flags.old.clone(), flags.new.clone()],
            names: flags.names.names(),
            sample_type: flags.count,
            selection: flags.frames.selection(&flags.filters),
            sort: flags.sort,
            rows: flags.rows,
            drop_negative: flags.drop_negative,
            ..Self::default()
        }
    }
}

//! `ramson export`: a profile in another tool's format.

use crate::flags::{ExportFlags, Format};
use crate::output::{hint, remark};
use crate::output_file::write_file;
use ramson_analysis::named::{Detail, common_sample_type, defects, take_sum};
use ramson_encode::{collapsed, csv, firefox, heap_v2, html, json, pprof, speedscope, svg};
use ramson_source::{Failure, open_all};
use std::io::Write;
use std::path::Path;

pub fn export(flags: &ExportFlags) -> Result<(), Failure> {
    let mut members = open_all(&flags.source.sources)?;
    let sample_type = common_sample_type(&members.opened, flags.sample_index)?;
    let selection = flags.filters.selection();
    let is_labelled = matches!(flags.format, Format::Pprof) || selection.uses_labels();
    let detail = if is_labelled { Detail::Labels } else { Detail::Stacks };
    let mut named = take_sum(
        &mut members.opened,
        &flags.source.names.names(),
        detail,
        flags.kind.unwrap_or_default(),
    )?;
    for step in selection.apply(&mut named.profile, sample_type)?.unmatched {
        hint(&format!("{step} matches nothing"));
    }
    for opened in &members.opened {
        for defect in defects(opened) {
            remark(format_args!("{}: not whole: {defect}", opened.origin()));
        }
    }
    if members.unprofiled > 0 {
        let (count, sources) = (members.unprofiled, flags.source.sources.join(" "));
        let processes = if count == 1 { "process" } else { "processes" };
        remark(format_args!("{sources}: not whole: {count} {processes} without a profile"));
    }
    if matches!(flags.format, Format::HeapV2) && !heap_v2::has_addresses(&named.profile) {
        return Err(Failure::usage(format!(
            "{}: it has names without addresses, and heap_v2 has addresses only. Pass another --format",
            flags.source.sources.join(" ")
        )));
    }
    let write = |out: &mut dyn Write| match flags.format {
        Format::Pprof => pprof::write(&named.profile, out, sample_type),
        Format::Collapsed => collapsed::write(&named.profile, out, sample_type),
        Format::Speedscope => speedscope::write(&named.profile, out, sample_type),
        Format::Firefox => firefox::write(&named.profile, out, sample_type),
        Format::Svg => svg::write(&named.profile, out, sample_type),
        Format::Html => html::write(&named.profile, out, sample_type),
        Format::Json => json::write(&named.profile, out),
        Format::Csv => csv::write(&named.profile, out),
        Format::HeapV2 => heap_v2::write(&named.profile, out),
    };
    write_file(flags.output.as_deref().unwrap_or(Path::new("-")), flags.force, write)
}

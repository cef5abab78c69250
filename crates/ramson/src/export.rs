//! `ramson export`: a profile, or a history, in another tool's format.

use crate::flags::{ExportFlags, ExportView, Format};
use crate::output::{hint, remark};
use crate::output_file::{refuse_terminal, write_file};
use crate::saved::Saving;
use crate::timeline::series;
use ramson_analysis::calibration::calibrate_all;
use ramson_analysis::is_same_process;
use ramson_analysis::named::{Counting, Detail, common_sample_type, count, defects, take_sum};
use ramson_analysis::timeline::timeline;
use ramson_encode::series as over_time;
use ramson_encode::{collapsed, csv, html, json, openmetrics, pprof, speedscope, svg};
use ramson_process::clock::unix_ns;
use ramson_process::text;
use ramson_profile::format::format_local_time;
use ramson_profile::{Profile, SampleType};
use ramson_serve::metrics;
use ramson_source::{Failure, Members, Opened, open_all, open_recordings};
use std::io::{self, Write};
use std::path::Path;

pub fn export(flags: &ExportFlags) -> Result<(), Failure> {
    if flags.old.is_some() {
        refuse_old(flags)?;
    }
    match (flags.view, flags.format) {
        (ExportView::Timeline, _) => export_timeline(flags),
        (ExportView::Profile, Format::Openmetrics) => export_totals(flags),
        (ExportView::Profile, _) => export_profile(flags),
    }
}

fn output(flags: &ExportFlags) -> &Path {
    flags.output.as_deref().unwrap_or(Path::new("-"))
}

fn export_profile(flags: &ExportFlags) -> Result<(), Failure> {
    if matches!(flags.format, Format::Pprof) {
        refuse_terminal(output(flags), "pprof")?;
    }
    let mut members = open_all(&flags.source.sources)?;
    let sample_type = common_sample_type(&members.opened, flags.count)?;
    let selection = flags.filters.selection();
    let is_labelled = matches!(flags.format, Format::Pprof) || selection.uses_labels();
    let detail = if is_labelled { Detail::Labels } else { Detail::Stacks };
    let lacks: Vec<String> = members.opened.iter().flat_map(defects).collect();
    let rss = if matches!(flags.format, Format::Html) {
        let rss = calibrate_all(&mut members.opened).into_iter().next().flatten();
        if flags.old.is_some() {
            // Both sides of a comparison are counted in the same way.
            count(&mut members.opened, Counting::Usable);
        }
        rss
    } else {
        count(&mut members.opened, Counting::Requested);
        None
    };
    let mut named = take_sum(
        &mut members.opened,
        &flags.source.names.names(),
        detail,
        flags.kind.unwrap_or_default(),
    )?;
    for step in selection.apply(&mut named.profile, sample_type)?.unmatched {
        hint(&format!("{step} matches nothing"));
    }
    say_what_counts_twice(&members.opened);
    say_what_is_not_whole(flags, &members);
    if matches!(flags.format, Format::Html) {
        let title = title(&members, &named.profile);
        let old = flags.old.as_ref().map(|old| open_all(&[old])).transpose()?;
        let mut saving = Saving {
            flags,
            members: &mut members,
            old,
            rss,
            profile: &named.profile,
            sample_type,
            defects: lacks,
            missing_symbols: named.missing_symbols.iter().map(ToString::to_string).collect(),
        };
        let page = saving.page()?;
        let time_ns = match named.profile.time_unix_ns {
            0 => unix_ns(),
            known => known,
        };
        return write_file(output(flags), flags.force, |out| {
            html::write(out, &title, &page, time_ns)
        });
    }
    write_file(output(flags), flags.force, |out| {
        write(flags.format, &named.profile, sample_type, out)
    })
}

fn say_what_counts_twice(sources: &[Opened]) {
    for (index, source) in sources.iter().enumerate() {
        let is_again = |other: &&Opened| match (other, source) {
            (Opened::Recording(other), Opened::Recording(source)) => {
                is_same_process(&other.snapshot, &source.snapshot)
            }
            _ => false,
        };
        if let Some(other) = sources[..index].iter().find(is_again) {
            hint(&format!(
                "{} and {} are profiles of the same process: memory in both is counted twice",
                other.origin(),
                source.origin()
            ));
        }
    }
}

fn say_what_is_not_whole(flags: &ExportFlags, members: &Members) {
    for opened in &members.opened {
        for defect in defects(opened) {
            remark(format_args!("{}: not whole: {defect}", opened.origin()));
        }
    }
    if members.unprofiled > 0 {
        let count = members.unprofiled;
        let sources = flags.source.sources.join(" ");
        let processes = if count == 1 { "process" } else { "processes" };
        remark(format_args!("{sources}: incomplete: {count} {processes} without a profile"));
    }
}

fn write(format: Format, profile: &Profile, of: SampleType, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Pprof => pprof::write(profile, out, of),
        Format::Collapsed => collapsed::write(profile, out, of),
        Format::Speedscope => speedscope::write(profile, out, of),
        Format::Svg => svg::write(profile, out, of),
        Format::Json => json::write(profile, out),
        Format::Csv => csv::write(profile, out),
        Format::Html | Format::Openmetrics => unreachable!("these are more than a profile"),
    }
}

/// A comparison is of whole profiles, and only a page has it.
fn refuse_old(flags: &ExportFlags) -> Result<(), Failure> {
    let is_page = flags.format == Format::Html && flags.view == ExportView::Profile;
    if !is_page {
        return Err(Failure::usage(
            "--old: works only with -f html. Pass that, or run \"ramson diff\"",
        ));
    }
    if flags.source.sources.iter().chain(&flags.old).any(|source| source == "-") {
        return Err(Failure::usage(
            "-: standard input can be read only once. Save it to a file, and compare that",
        ));
    }
    if flags.filters.are_set() || flags.kind.is_some() {
        return Err(Failure::usage(
            "--old: cannot be combined with filters or --kind. Leave them out, or run \"ramson diff\" with them",
        ));
    }
    Ok(())
}

/// Title of a page, which may be read on another machine, years later.
fn title(members: &Members, profile: &Profile) -> String {
    let host = text::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = match members.opened.as_slice() {
        [Opened::Recording(recording)] => {
            format!("{} (pid {})", recording.name(), recording.pid())
        }
        [other] => other.origin().to_owned(),
        several => format!("{} profiles", several.len()),
    };
    let time = match profile.time_unix_ns {
        0 => String::new(),
        time_ns => format!(", {}", format_local_time(time_ns)),
    };
    format!("{name} on {}{time}", host.trim_end())
}

fn export_timeline(flags: &ExportFlags) -> Result<(), Failure> {
    refuse_filters(flags)?;
    let [source] = flags.source.sources.as_slice() else {
        return Err(Failure::usage("--view timeline: takes one process. Pass one SRC"));
    };
    let series = series(timeline(source, 0)?);
    match flags.format {
        Format::Svg => write_file(output(flags), flags.force, |out| over_time::svg(&series, out)),
        Format::Csv => write_file(output(flags), flags.force, |out| over_time::csv(&series, out)),
        Format::Openmetrics => {
            write_file(output(flags), flags.force, |out| openmetrics::write(&series, out))
        }
        _ => Err(Failure::usage(
            "--view timeline: cannot be written in this format. Pass -f svg, csv or openmetrics; \"ramson timeline --json\" prints JSON",
        )),
    }
}

/// Exports the totals of each process as the process is now, or at a moment of a history.
fn export_totals(flags: &ExportFlags) -> Result<(), Failure> {
    refuse_filters(flags)?;
    let (recordings, _) = open_recordings(&flags.source.sources)?;
    let all = metrics::read(recordings, &flags.source.names.names())?;
    write_file(output(flags), flags.force, |out| metrics::write(&all, out))
}

fn refuse_filters(flags: &ExportFlags) -> Result<(), Failure> {
    if flags.filters.are_set() || flags.kind.is_some() || flags.count.is_some() {
        return Err(Failure::usage(
            "filters, --kind and --count choose stacks, but this output has only totals. Leave them out",
        ));
    }
    Ok(())
}

//! The list of profiles as text.

use super::{Table, or_dash, size};
use ramson_analysis::end::Cause;
use ramson_analysis::listing::Listing;
use ramson_process::clock::unix_ns;
use ramson_profile::format::{format_bytes, format_duration, format_relative_error};

pub fn text(listing: &Listing) -> String {
    let mut out = String::new();
    let heads =
        "pid:>8|state:<10|cause:<13|live:>10|±:>8|RSS:>10|started:>8|ended:>8| name:<17|profile:<1";
    let mut table = Table::new(&mut out, heads);
    let ago = |time_ns| {
        let duration = format_duration(unix_ns().saturating_sub(time_ns));
        format!("-{duration}").replace(' ', "")
    };
    for entry in &listing.profiles {
        let live = (entry.live.value != 0.0).then(|| format_relative_error(entry.live));
        let cells = [
            entry.pid.to_string(),
            entry.state.clone(),
            if entry.cause == Cause::None { "–" } else { entry.cause.name() }.into(),
            format_bytes(entry.live.value),
            or_dash(live),
            or_dash(entry.rss.map(size)),
            ago(entry.start_unix_ns),
            or_dash(entry.end.as_ref().and_then(|end| end.time_unix_ns).map(ago)),
            format!(" {}", entry.name),
            entry.profile.clone(),
        ];
        // A program may call itself anything.
        table.row(cells.map(|cell| cell.replace(char::is_control, "\u{fffd}")));
    }
    out
}

//! `ramson report --json`.

use super::{MIN_TREE_SHARE, Whole, top};
use crate::assemble::Named;
use crate::cli::{ReportOptions, View};
use crate::failure::Failure;
use crate::frees;
use crate::own;
use crate::rss::Resident;
use crate::source::Opened;
use ramson_encode::{json, views};
use ramson_profile::{FrameTable, Profile, SampleType, view};
use serde_json::{Value, json as value};

/// The view as its own object.
pub fn view_object(
    options: &ReportOptions,
    opened: &Opened,
    profile: &Profile,
    sample_type: SampleType,
) -> Result<Value, Failure> {
    let out = &mut Vec::new();
    match &options.view {
        View::Top | View::Lines | View::Health => {
            let frames = FrameTable::new(profile);
            json::write_report(&top(options, profile, &frames, sample_type), out)
        }
        View::Tree => {
            views::write_tree(&view::tree(profile, sample_type, MIN_TREE_SHARE), "tree", out)
        }
        View::Callers => {
            views::write_tree(&view::callers(profile, sample_type, MIN_TREE_SHARE), "callers", out)
        }
        View::Peek(pattern) => views::write_peek(&view::peek(profile, sample_type, pattern), out),
        View::Sizes => views::write_sizes(&view::sizes(profile, sample_type), out),
        View::Threads => views::write_threads(&view::threads(profile, sample_type), out),
        View::Frees => match opened {
            Opened::Own(source) => return Ok(frees::object(source, profile, options.address)),
            Opened::Foreign(foreign) => return Err(foreign.no_frees()),
        },
    }?;
    serde_json::from_slice(out).map_err(|error| {
        Failure::failed(format!("the report is not valid JSON: {error}. Please report this"))
    })
}

/// A view's object with what every report says.
pub fn report_object(
    opened: &Opened,
    named: &Named,
    resident: Option<&Resident>,
    whole: &Whole,
    mut object: Value,
) -> Result<Value, Failure> {
    object["interval_bytes"] = value!(named.profile.interval_bytes);
    // Single blocks are not a part of anything.
    if object["kind"] != frees::KIND {
        object["whole"] = value!({
            "value": integer(whole.total.value.round()),
            "half_width_95": integer(whole.total.half_width_95().ceil()),
        });
    }
    object["defects"] = value!(opened.defects());
    object["missing_symbols"] =
        named.missing_symbols.iter().map(|defect| value!(defect.to_string())).collect();
    match opened {
        Opened::Own(source) => own::add_to(&mut object, source, resident),
        Opened::Foreign(foreign) => foreign.add_to(&mut object),
    }
    Ok(object)
}

/// `null` for what is unknown.
fn integer(value: f64) -> Option<i64> {
    (!value.is_nan()).then_some(value as i64)
}

//! A flame graph as SVG elements, root at the top. Horizontal positions are percentages, so that the picture follows its width while the
//! text keeps its size; each box is an `svg` element of its own, which clips its text.

use crate::markup::escape;
use ramson_profile::format::{format_objects, format_percent, format_relative_error, format_value};
use ramson_profile::view::{FlameBox, FlameGraph, FlameKind};
use std::fmt::Write;

/// Height of a level in pixels.
const LEVEL_HEIGHT: usize = 18;
/// A box that is narrower has no text; its title has it.
const LEAST_TEXT_SHARE: f64 = 0.012;
/// Levels that are drawn: below 200 deeper frames become one box. Bounds the height to 3,618 pixels.
pub const MOST_LEVELS: usize = 201;
/// The rest of a longer name is cut off, in pixels of text and in titles.
const MOST_LETTERS: usize = 200;
/// Longest name in a title.
const MOST_TITLE_LETTERS: usize = 1000;
/// Number of `.c…` classes in flame.css.
const COLOURS: u32 = 5;

/// How the boxes look, light and dark.
pub const STYLE: &str = include_str!("flame.css");

/// Height of the picture in pixels.
pub fn height(graph: &FlameGraph) -> usize {
    graph.levels * LEVEL_HEIGHT
}

/// Appends the heading: what is counted, how much of it there is, and what has no box of its own.
pub fn write_summary(out: &mut String, graph: &FlameGraph) {
    let of = graph.sample_type;
    let total = graph.boxes[0].cum;
    let value = format_value(total.value, of.unit());
    let _ = write!(out, "{of} {value} {}", format_relative_error(total));
    let (frames, cum) = graph.merged();
    if frames > 0 {
        let count = format_objects(frames as f64);
        let value = format_value(cum.value, of.unit());
        let _ = write!(out, "; grey: {count} merged frames, {value}");
    }
}

/// Appends the boxes, moved down by `top` pixels.
pub fn draw(out: &mut String, graph: &FlameGraph, top: usize) {
    for one in &graph.boxes {
        draw_box(out, graph, one, top);
    }
}

fn draw_box(out: &mut String, graph: &FlameGraph, one: &FlameBox, top: usize) {
    let y = top + one.level * LEVEL_HEIGHT;
    let left = 100.0 * one.left;
    let width = 100.0 * one.width;
    let (name, file, class) = match &one.kind {
        FlameKind::Whole => ("all", "", "c0".to_owned()),
        FlameKind::Frame(name) => (&*name.name, &*name.file, colour(&name.name)),
        FlameKind::Merged { label, .. } => (label.as_str(), "", "merged".to_owned()),
    };
    let _ = write!(
        out,
        "<svg x=\"{left:.4}%\" y=\"{y}\" width=\"{width:.4}%\" height=\"{LEVEL_HEIGHT}\"><g class=\"{class}\"><title>"
    );
    escape(out, name, MOST_TITLE_LETTERS);
    if !file.is_empty() {
        out.push('\n');
        escape(out, file, MOST_TITLE_LETTERS);
    }
    let unit = graph.sample_type.unit();
    let _ = write!(
        out,
        "\n{} ({}) {}",
        format_value(one.cum.value, unit),
        format_percent(one.cum.value, graph.magnitude),
        format_relative_error(one.cum)
    );
    if !one.flat.is_nothing() {
        let _ = write!(out, ", {} of it its own", format_value(one.flat.value, unit));
    }
    out.push_str("</title><rect width=\"100%\" height=\"100%\"/>");
    if one.width >= LEAST_TEXT_SHARE {
        out.push_str("<text x=\"4\" y=\"13\">");
        escape(out, name, MOST_LETTERS);
        if one.level == 0 {
            let _ = write!(out, ": {}", format_value(one.cum.value, unit));
        }
        out.push_str("</text>");
    }
    out.push_str("</g></svg>\n");
}

/// Equal names have equal colours, in every picture (FNV-1a).
fn colour(name: &str) -> String {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("c{}", name.bytes().fold(0x811c_9dc5, step) % COLOURS)
}

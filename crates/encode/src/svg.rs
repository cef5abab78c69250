//! A profile as a flame graph in one SVG file, readable without scripts: names as text, root at the top, bytes, share and interval in each
//! box's title, light and dark by the reader's setting. Equal profiles give equal files.
//!
//! Frames of less than `MIN_SHARE` of all are merged into one labelled box beside their siblings, and so are those beyond the
//! last level.

use crate::flame;
use crate::markup::escape;
use ramson_profile::view::{flame as lay_out, tree};
use ramson_profile::{Profile, SampleType};
use std::fmt::Write as _;
use std::io::{self, Write};

/// About a third of a pixel; narrower boxes cannot be seen.
const MIN_SHARE: f64 = 0.0002;
const WIDTH: usize = 1200;
const HEADING_HEIGHT: usize = 28;

/// Writes the document.
pub fn write(profile: &Profile, out: &mut dyn Write, sample_type: SampleType) -> io::Result<()> {
    let graph = lay_out(&tree(profile, sample_type, MIN_SHARE), flame::MOST_LEVELS);
    let height = HEADING_HEIGHT + flame::height(&graph);
    let mut text = String::new();
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\">\n<style>\n\
         svg:root {{ background: var(--page); }}\n{}</style>\n<text x=\"4\" y=\"18\">",
        flame::STYLE
    );
    if !profile.command.is_empty() {
        escape(&mut text, &profile.command, 100);
        text.push_str(": ");
    }
    flame::write_summary(&mut text, &graph);
    text.push_str("</text>\n");
    flame::draw(&mut text, &graph, HEADING_HEIGHT);
    text.push_str("</svg>\n");
    out.write_all(text.as_bytes())?;
    out.flush()
}

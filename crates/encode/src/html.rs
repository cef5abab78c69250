//! A profile as one HTML file that needs no network: the flame graph and the table of functions. Readable without scripts; with them the
//! table can be sorted and searched, and the flame graph zoomed. Nothing in it may load or run but its own style and script (a
//! Content-Security-Policy names both by hash).
//!
//! The file stays under `MOST_BYTES`: what is too narrow is merged into labelled boxes, what is too small into a last row of the table.

use crate::flame;
use crate::markup::escape;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ramson_profile::format::{format_objects, format_percent, format_relative_error, format_value};
use ramson_profile::view::{Row, Sort, TopTable, flame as lay_out, top, tree};
use ramson_profile::{Estimate, Profile, SampleType};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write};

const MOST_BYTES: usize = 5 << 20;
/// As in an SVG file, until it gets too large.
const MIN_SHARE: f64 = 0.0002;
const MOST_ROWS: usize = 4000;
const MOST_LETTERS: usize = 1000;
/// Of what is said of the profile: there may be many processes.
const MOST_LINES: usize = 100;

const STYLE: &str = include_str!("html.css");
const SCRIPT: &str = include_str!("html.js");

/// What a page says of itself: it may be read on another machine, years later.
pub struct About {
    /// The process, its machine and the time.
    pub title: String,
    /// Command line, RSS, how it was recorded.
    pub lines: Vec<String>,
}

/// Writes the document.
pub fn write(
    profile: &Profile,
    out: &mut dyn Write,
    sample_type: SampleType,
    about: &About,
) -> io::Result<()> {
    let table = top(profile, sample_type, Sort::Flat);
    let (mut min_share, mut most_rows) = (MIN_SHARE, MOST_ROWS);
    loop {
        let page = page(profile, about, &table, min_share, most_rows);
        if page.len() < MOST_BYTES || most_rows == 0 {
            out.write_all(page.as_bytes())?;
            return out.flush();
        }
        min_share *= 2.0;
        most_rows /= 2;
    }
}

fn page(
    profile: &Profile,
    about: &About,
    table: &TopTable,
    min_share: f64,
    most_rows: usize,
) -> String {
    let style = format!("{}{STYLE}", flame::STYLE);
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
         script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        hash(&style),
        hash(SCRIPT)
    );
    escape(&mut out, &about.title, MOST_LETTERS);
    let _ = write!(out, " – ramson</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>");
    escape(&mut out, &about.title, MOST_LETTERS);
    out.push_str("</h1>\n");
    for line in about.lines.iter().take(MOST_LINES) {
        out.push_str("<p class=\"about\">");
        escape(&mut out, line, MOST_LETTERS);
        out.push_str("</p>\n");
    }
    out.push_str("<p>");
    let graph = lay_out(&tree(profile, table.sample_type, min_share), flame::MOST_LEVELS);
    flame::write_summary(&mut out, &graph);
    out.push_str("</p>\n");
    out.push_str(
        "<p class=\"tools\" hidden><input type=\"search\" placeholder=\"search functions\" \
         aria-label=\"search functions\"> <output></output> <button type=\"button\">whole graph</button></p>\n",
    );
    let _ = writeln!(out, "<p class=\"legend\">{}</p>", legend(table.sample_type));
    let height = flame::height(&graph);
    let _ = writeln!(
        out,
        "<div class=\"graph\"><svg id=\"flame\" role=\"img\" aria-label=\"flame graph\" width=\"100%\" height=\"{height}\">"
    );
    flame::draw(&mut out, &graph, 0);
    out.push_str("</svg></div>\n");
    write_table(&mut out, table, most_rows);
    let _ = writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>");
    out
}

/// How to read the picture and the table.
fn legend(of: SampleType) -> String {
    let what = match of {
        SampleType::InuseSpace => "bytes that are live",
        SampleType::InuseObjects => "blocks that are live",
        SampleType::AllocSpace => "bytes that were allocated",
        SampleType::AllocObjects => "blocks that were allocated",
    };
    format!(
        "Each box is a function, and the boxes below it are the functions that it called. Its width is its share of {of}: {what} there. \
         Colours only tell boxes apart; grey boxes are many small ones merged. Click a box to zoom in, press Esc to zoom out. \
         flat: the function's own allocations; cum: also those of the functions that it called; \
         ±: the 95 % interval. In 95 of 100 cases the true value lies within it."
    )
}

fn write_table(out: &mut String, table: &TopTable, most_rows: usize) {
    out.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th>flat</th><th>flat %</th><th>±</th><th>cum</th><th>cum %</th>\
         <th>objects</th><th>function</th><th>place</th></tr></thead>\n<tbody>\n",
    );
    let (shown, rest) = table.rows.split_at(most_rows.min(table.rows.len()));
    for row in shown {
        write_row(out, table, row);
    }
    out.push_str("</tbody>\n");
    if !rest.is_empty() {
        let flat: Estimate = rest.iter().map(|row| row.flat).sum();
        let _ = writeln!(
            out,
            "<tfoot><tr><td colspan=\"8\">({} functions, the largest {} each: {} flat)</td></tr></tfoot>",
            format_objects(rest.len() as f64),
            format_value(rest[0].flat.value, table.sample_type.unit()),
            format_value(flat.value, table.sample_type.unit())
        );
    }
    out.push_str("</table></div>\n");
}

fn write_row(out: &mut String, table: &TopTable, row: &Row) {
    let unit = table.sample_type.unit();
    let number = |out: &mut String, value: f64, text: &str| {
        let _ = write!(out, "<td data-v=\"{}\">{text}</td>", value.round());
    };
    out.push_str("<tr>");
    number(out, row.flat.value, &format_value(row.flat.value, unit));
    number(out, row.flat.value, &format_percent(row.flat.value, table.magnitude));
    let shown = row.shown();
    let parts_per_million = 1e6 * shown.half_width_95() / shown.value.abs();
    number(out, parts_per_million, &format_relative_error(shown));
    number(out, row.cum.value, &format_value(row.cum.value, unit));
    number(out, row.cum.value, &format_percent(row.cum.value, table.magnitude));
    number(out, row.objects.value, &format_objects(row.objects.value));
    out.push_str("<td>");
    escape(out, &row.name, MOST_LETTERS);
    out.push_str("</td><td>");
    escape(out, &row.file, MOST_LETTERS);
    if row.line != 0 {
        let _ = write!(out, ":{}", row.line);
    }
    out.push_str("</td></tr>\n");
}

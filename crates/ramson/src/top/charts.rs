//! RSS, live and free bytes over the last minutes, in Braille: value above, range and time below.

use super::model::Model;
use super::table::{FAINT, STRONG};
use crate::table::cut;
use ramson_analysis::live::picture::Point;
use ramson_profile::format::{format_bytes, format_duration};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::canvas::{Canvas, Points};

/// Lines of text with each chart.
pub const TEXT_LINES: usize = 2;
/// Each has room for its value with its ±.
const LEAST_COLUMNS: usize = 24;
/// Spans of a chart, in seconds; the shortest that has all points is shown. Time runs from right to left, and never jumps in between.
const SPANS_S: [u64; 5] = [60, 120, 300, 600, 1200];
/// A chart shows at least this part of its largest value from bottom to top, so that noise stays small.
const LEAST_RANGE: f64 = 0.05;
/// Dots of a character.
const DOTS: (usize, usize) = (2, 4);

/// One line over time.
pub struct Series {
    /// Name and current value of the line, and a shorter form of both.
    pub label: [String; 2],
    /// Times and bytes.
    pub points: Vec<(u64, f64)>,
}

/// How many lines of dots there are on a screen of this height.
pub fn dot_lines(height: usize) -> usize {
    match height {
        ..18 => 0,
        18..30 => 2,
        30..44 => 4,
        _ => 6,
    }
}

/// Draws them into `area`, side by side.
pub fn draw(frame: &mut Frame, area: Rect, model: &Model, labels: &[[String; 2]; 3]) {
    let shown = (area.width as usize / LEAST_COLUMNS).clamp(1, labels.len());
    let span_ns = span_ns(model);
    for (index, series) in series(model, labels).into_iter().take(shown).enumerate() {
        let (start, end) = (index as u16, index as u16 + 1);
        let edge =
            |place: u16| area.x + (u32::from(area.width) * u32::from(place) / shown as u32) as u16;
        // A column stays empty between two of them.
        let gap = u16::from(index + 1 < shown);
        let x = edge(start);
        let place = Rect { x, width: (edge(end) - x).saturating_sub(gap), ..area };
        draw_one(frame, place, &series, span_ns);
    }
}

fn series(model: &Model, labels: &[[String; 2]; 3]) -> [Series; 3] {
    let points = |of: fn(&Point) -> Option<f64>| {
        let all = model.picture.history.iter();
        all.filter_map(|point| Some((point.at_ns, of(point)?))).collect()
    };
    let [rss, live, free] = labels.clone();
    [
        Series { label: rss, points: points(|point| point.rss.map(|bytes| bytes as f64)) },
        Series { label: live, points: points(|point| Some(point.live)) },
        Series { label: free, points: points(|point| point.free) },
    ]
}

fn span_ns(model: &Model) -> u64 {
    let history = &model.picture.history;
    let (first, last) = (history.front(), history.back());
    span_of(first.zip(last).map_or(0, |(first, last)| last.at_ns - first.at_ns))
}

/// The shortest span that has points of so long a time.
pub fn span_of(all_ns: u64) -> u64 {
    let spans = SPANS_S.map(|seconds| seconds * 1_000_000_000);
    spans.into_iter().find(|&span| span >= all_ns).unwrap_or(spans[SPANS_S.len() - 1])
}

/// Draws one.
pub fn draw_one(frame: &mut Frame, area: Rect, series: &Series, span_ns: u64) {
    let width = Some(area.width as usize);
    let line = |y: u16| Rect { y, height: 1, ..area };
    let [label, short] = &series.label;
    let fits = label.chars().count() <= area.width as usize;
    let label = cut(if fits { label } else { short }, width);
    frame.render_widget(Line::styled(label, STRONG), line(area.y));
    let Some((low, high)) = range(&series.points) else { return };
    let text = format!("{}, {}", range_text(low, high), format_duration(span_ns));
    let bottom = area.y + area.height.saturating_sub(1);
    frame.render_widget(Line::styled(cut(&text, width), FAINT), line(bottom));
    let dots =
        Rect { y: area.y + 1, height: area.height.saturating_sub(TEXT_LINES as u16), ..area };
    let (columns, levels) = (dots.width as usize * DOTS.0, dots.height as usize * DOTS.1);
    if columns < 2 || levels < 2 {
        return;
    }
    let points = filled(&columns_of(&series.points, span_ns, columns), levels);
    let canvas = Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, (columns - 1) as f64])
        .y_bounds([0.0, (levels - 1) as f64])
        .paint(|context| context.draw(&Points { coords: &points, color: Color::Reset }));
    frame.render_widget(canvas, dots);
}

/// `84.3 to 86.9 MiB`; with both units where they differ.
fn range_text(low: f64, high: f64) -> String {
    let (low, high) = (format_bytes(low), format_bytes(high));
    let units = (low.split_once(' '), high.split_once(' '));
    match units {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn range(points: &[(u64, f64)]) -> Option<(f64, f64)> {
    let values = points.iter().map(|&(_, value)| value);
    let low = values.clone().reduce(f64::min)?;
    Some((low, values.reduce(f64::max)?))
}

/// The value in each column of dots, the latest in the last one: the last that was read by then. `None`: before the first.
fn columns_of(points: &[(u64, f64)], span_ns: u64, columns: usize) -> Vec<Option<f64>> {
    let Some(&(last_ns, _)) = points.last() else { return vec![None; columns] };
    let ago = |column: usize| span_ns as f64 * (columns - 1 - column) as f64 / (columns - 1) as f64;
    let at = |column: usize| last_ns.saturating_sub(ago(column) as u64);
    let value = |column: usize| {
        let known = points.partition_point(|&(at_ns, _)| at_ns <= at(column));
        Some(points[known.checked_sub(1)?].1)
    };
    (0..columns).map(value).collect()
}

/// Every dot from the bottom up to the value.
fn filled(values: &[Option<f64>], levels: usize) -> Vec<(f64, f64)> {
    let known = values.iter().flatten().copied();
    let high = known.clone().fold(0.0, f64::max);
    let low = known.fold(high, f64::min).min(high * (1.0 - LEAST_RANGE));
    let level = |value: f64| match high - low {
        0.0 => 0,
        range => ((value - low) / range * (levels - 1) as f64).round() as usize,
    };
    let column = |(column, value): (usize, &Option<f64>)| {
        let top = value.map(level);
        (0..levels)
            .filter(move |&at| top.is_some_and(|top| at <= top))
            .map(move |at| (column as f64, at as f64))
    };
    values.iter().enumerate().flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn column_has_latest_known_value() {
        let points = [(100 * SECOND, 5.0), (130 * SECOND, 7.0)];
        let values = columns_of(&points, 60 * SECOND, 7);
        assert_eq!(values, [None, None, None, Some(5.0), Some(5.0), Some(5.0), Some(7.0)]);
        assert_eq!(columns_of(&[], 60 * SECOND, 2), [None, None]);
    }

    #[test]
    fn range_names_common_unit_once() {
        assert_eq!(range_text(88_395_162.0, 91_121_254.0), "84.3 to 86.9 MiB");
        assert_eq!(range_text(1000.0, 91_121_254.0), "1000 B to 86.9 MiB");
    }

    #[test]
    fn highest_dot_is_largest_value() {
        let tops = |values: &[f64]| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let dots = filled(&values, 11);
            let top = |column: usize| dots.iter().filter(|dot| dot.0 == column as f64).count() - 1;
            (0..values.len()).map(top).collect::<Vec<_>>()
        };
        assert_eq!(tops(&[0.0, 50.0, 100.0]), [0, 5, 10]);
        // 1% of noise is a fifth of the height.
        assert_eq!(tops(&[99.0, 100.0]), [8, 10]);
        assert_eq!(tops(&[0.0, 0.0]), [0, 0]);
    }
}

//! How a partition grows: its new rows as they were seen, on towards the limit at the same rate, and when it passes that.
//!
//! Numbers and our own words only.

use std::fmt::Write;

use askama::filters::Safe;

use super::Page;
use crate::{number, report::TableReport, rules::PartitionGrowth};

const WIDTH: f64 = 430.0;
/// From the top to the axis; the words of the limit stand above.
const BASE: f64 = 110.0;
const TOP: f64 = 22.0;
/// Below the axis for its labels.
const HEIGHT: f64 = 130.0;

impl<'a> Page<'a> {
    /// The partition of a table that a finding forecasts.
    pub(super) fn growth_on(&self, table: &TableReport) -> Option<&'a PartitionGrowth> {
        let mut findings = self.report.findings.iter().filter(|finding| {
            finding.table.as_ref() == Some(&table.table) && finding.keyspace.as_ref() == Some(&table.keyspace)
        });
        findings.find_map(|finding| finding.growth.as_ref())
    }
}

/// The line with its limit.
pub(super) fn line(growth: &PartitionGrowth) -> Safe<String> {
    let (Some(first), Some(last)) = (growth.points.first(), growth.points.last()) else {
        return Safe(String::new());
    };
    let axes = Axes::of(growth);
    let mut seen = format!("M{:.1} {:.1}", axes.x(0.0), axes.y(0.0));
    for point in &growth.points {
        let seconds = (point.at.as_millisecond() - first.at.as_millisecond()) as f64 / 1e3;
        let _ = write!(seen, "L{:.1} {:.1}", axes.x(seconds), axes.y(point.rows as f64));
    }
    let now = (axes.x(growth.seen_seconds()), axes.y(last.rows as f64));
    let limit = axes.y(growth.limit_rows as f64);
    let [soonest, latest] = growth.limit_after_seconds.map(|seconds| axes.x(seconds));
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        super::escaped(&described(growth))
    );
    if latest - soonest >= 1.0 {
        let _ = write!(
            svg,
            "<path class=\"gap\" d=\"M{:.1} {:.1}L{soonest:.1} {limit:.1}H{latest:.1}z\"/>",
            now.0, now.1
        );
    }
    let (end, rows) = axes.end(growth);
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M0 {BASE}.5H{WIDTH}\"/><path class=\"threshold\" d=\"M0 {limit:.1}H{WIDTH}\"/>\
         <text x=\"0\" y=\"{:.0}\">limit {}</text><path class=\"trend fewer\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>\
         <path class=\"trend\" d=\"{seen}\"/><path class=\"tick\" d=\"M{:.1} {BASE}v6\"/>",
        limit - 6.0,
        limit_in_words(growth),
        now.0,
        now.1,
        axes.x(end),
        axes.y(rows),
        now.0,
    );
    labels(&mut svg, growth, &axes);
    svg.push_str("</svg>");
    Safe(svg)
}

/// How long it was seen, and how long the axis is.
fn labels(svg: &mut String, growth: &PartitionGrowth, axes: &Axes) {
    let seen = format!("seen for {}", number::seconds(growth.seen_seconds()));
    let at = axes.x(growth.seen_seconds());
    let (x, anchor) = if at > WIDTH * 0.6 {
        (at, "end")
    } else {
        (at.min(WIDTH * 0.4), "start")
    };
    let end = number::seconds(in_days(axes.seconds));
    let _ = write!(
        svg,
        "<text x=\"{x:.0}\" y=\"{HEIGHT}\" text-anchor=\"{anchor}\">{seen}</text>"
    );
    if anchor == "start" {
        let _ = write!(
            svg,
            "<text x=\"{WIDTH}\" y=\"{HEIGHT}\" text-anchor=\"end\">{end}</text>"
        );
    }
}

/// Nobody counts the hours of days that are forecast.
fn in_days(seconds: f64) -> f64 {
    const DAY: f64 = 86_400.0;
    match seconds >= 2.0 * DAY {
        true => (seconds / DAY).round() * DAY,
        false => seconds,
    }
}

fn limit_in_words(growth: &PartitionGrowth) -> String {
    let rows = format!("{} rows", number::count(growth.limit_rows));
    match growth.limit_bytes {
        Some(bytes) => format!("{}, {rows}", number::bytes(bytes)),
        None => rows,
    }
}

fn described(growth: &PartitionGrowth) -> String {
    let rows = growth.points.last().map_or(0, |point| point.rows);
    format!(
        "partition {}: {} new rows in {}; at this rate {}; limit {}",
        growth.partition,
        number::count(rows),
        number::seconds(growth.seen_seconds()),
        growth.forecast,
        limit_in_words(growth),
    )
}

/// Time and rows, from zero to the end of what is forecast.
struct Axes {
    seconds: f64,
    rows: f64,
}

impl Axes {
    fn of(growth: &PartitionGrowth) -> Self {
        let seen = growth.seen_seconds();
        let [_, latest] = growth.limit_after_seconds;
        let seconds = growth.collects_for_seconds.unwrap_or(latest).max(seen).max(1.0);
        let mut axes = Self { seconds, rows: 1.0 };
        let (_, rows) = axes.end(growth);
        axes.rows = rows.max(growth.limit_rows as f64).max(1.0);
        axes
    }

    /// Where the forecast ends: where the partition does, or at its limit.
    fn end(&self, growth: &PartitionGrowth) -> (f64, f64) {
        let rows = growth.points.last().map_or(0.0, |point| point.rows as f64);
        let per_second = rows / growth.seen_seconds().max(1.0);
        let until_limit = growth.limit_rows as f64 / per_second.max(f64::MIN_POSITIVE);
        let end = growth
            .collects_for_seconds
            .unwrap_or(until_limit)
            .min(self.seconds);
        (end, (per_second * end).max(rows))
    }

    fn x(&self, seconds: f64) -> f64 {
        (seconds / self.seconds).clamp(0.0, 1.0) * WIDTH
    }

    fn y(&self, rows: f64) -> f64 {
        BASE - (rows / self.rows).clamp(0.0, 1.0) * (BASE - TOP)
    }
}

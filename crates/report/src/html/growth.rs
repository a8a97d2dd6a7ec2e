//! How a partition grows: its new rows as they were seen, on towards the limit at the same rate, and when it passes that.
//!
//! Numbers and our own words only.

use std::fmt::Write;

use askama::filters::Safe;

use super::ReportPage;
use crate::TableReport;
use cqlens_rules::PartitionGrowth;
use cqlens_window::number;

const WIDTH: f64 = 430.0;
/// From the top to the axis; the words of the limit stand above.
const BASE: f64 = 110.0;
const TOP: f64 = 22.0;
/// Below the axis for its labels.
const HEIGHT: f64 = 132.0;
const LABELS: f64 = 127.0;
/// A limit that is passed so far to the left has its words on the right.
const EARLY: f64 = WIDTH / 3.0;

impl<'a> ReportPage<'a> {
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
    let Some(first) = growth.points.first() else {
        return Safe(String::new());
    };
    let axes = Axes::of(growth);
    let mut seen = format!("M{:.1} {:.1}", axes.x(0.0), axes.y(0.0));
    for point in &growth.points {
        let seconds = (point.at.as_millisecond() - first.at.as_millisecond()) as f64 / 1e3;
        let _ = write!(seen, "L{:.1} {:.1}", axes.x(seconds), axes.y(point.rows as f64));
    }
    let limit = axes.y(growth.limit_rows as f64);
    // Where the line is not.
    let (x, anchor) = match axes.x(growth.limit_after_seconds[0]) {
        ..EARLY => (WIDTH, "to"),
        _ => (0.0, "from"),
    };
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{}\
         <path class=\"axis\" d=\"M0 {BASE}.5H{WIDTH}\"/><path class=\"threshold\" d=\"M0 {limit:.1}H{WIDTH}\"/>\
         <text class=\"{anchor}\" x=\"{x}\" y=\"{:.0}\">limit {}</text><path class=\"trend\" d=\"{seen}\"/>",
        super::escaped(&described(growth)),
        forecast(growth, &axes),
        limit - 6.0,
        limit_in_words(growth),
    );
    labels(&mut svg, growth, &axes);
    svg.push_str("</svg>");
    Safe(svg)
}

/// From the last point on: the same rate, and, where that is an estimate, from when to when the limit is passed. Nothing
/// where more was seen than is forecast.
fn forecast(growth: &PartitionGrowth, axes: &Axes) -> String {
    let rows = growth.points.last().map_or(0, |point| point.rows);
    let (x, y) = (axes.x(growth.seen_seconds()), axes.y(rows as f64));
    let (end, rows) = axes.end(growth);
    let (end, height) = (axes.x(end), axes.y(rows));
    let mut paths = String::new();
    if end <= x {
        return paths;
    }
    let limit = axes.y(growth.limit_rows as f64);
    let [soonest, latest] = growth.limit_after_seconds.map(|seconds| axes.x(seconds));
    if soonest > x && latest - soonest >= 1.0 {
        let _ = write!(
            paths,
            "<path class=\"gap\" d=\"M{x:.1} {y:.1}L{soonest:.1} {limit:.1}H{latest:.1}z\"/>"
        );
    }
    let _ = write!(
        paths,
        "<path class=\"trend fewer\" d=\"M{x:.1} {y:.1}L{end:.1} {height:.1}\"/><path class=\"tick\" d=\"M{x:.1} {BASE}v6\"/>"
    );
    paths
}

/// How long it was seen, and how long the axis is.
fn labels(svg: &mut String, growth: &PartitionGrowth, axes: &Axes) {
    let seen = format!("observed for {}", number::seconds(growth.seen_seconds()));
    let at = axes.x(growth.seen_seconds());
    let (x, anchor) = if at > WIDTH * 0.6 {
        (at, "to")
    } else {
        (at.min(WIDTH * 0.4), "from")
    };
    let end = number::seconds(in_days(axes.seconds));
    let _ = write!(
        svg,
        "<text class=\"{anchor}\" x=\"{x:.0}\" y=\"{LABELS}\">{seen}</text>"
    );
    if anchor == "from" {
        let _ = write!(
            svg,
            "<text class=\"to\" x=\"{WIDTH}\" y=\"{LABELS}\">{end}</text>"
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_rules::GrowthPoint;
    use jiff::Timestamp;

    /// A hundred rows an hour for ten hours, and a limit of as many.
    fn growth(limit_rows: u64, collects_for_seconds: Option<f64>) -> PartitionGrowth {
        let point = |hour: i64| GrowthPoint {
            at: Timestamp::from_second(hour * 3_600).unwrap(),
            rows: hour.unsigned_abs() * 100,
        };
        PartitionGrowth {
            partition: "#0000000000000007".to_owned(),
            points: (0..=10).map(point).collect(),
            row_bytes: 50,
            limit_rows,
            limit_bytes: None,
            limit_origin: "a book".to_owned(),
            limit_after_seconds: [limit_rows as f64 * 36.0; 2],
            collects_for_seconds,
            forecast: "4,000 rows in 30 h".to_owned(),
        }
    }

    #[test]
    fn what_was_seen_goes_on_to_the_limit() {
        let svg = line(&growth(4_000, None)).0;
        // Forty hours are 430 wide, of which ten were seen; 4,000 rows are at the top.
        assert!(svg.contains("L107.5 88.0\"/>"), "{svg}");
        assert!(
            svg.contains("<path class=\"trend fewer\" d=\"M107.5 88.0L430.0 22.0\"/>"),
            "{svg}"
        );
        assert!(
            svg.contains("<path class=\"threshold\" d=\"M0 22.0H430\"/>"),
            "{svg}"
        );
        assert!(svg.contains("limit 4,000 rows</text>"), "{svg}");
        assert!(
            svg.contains(">observed for 10 h</text>") && svg.contains(">1 day 16 h</text>"),
            "{svg}"
        );
        assert!(!svg.contains("class=\"gap\""), "a count is no estimate: {svg}");
        let mut estimate = growth(4_000, None);
        estimate.limit_after_seconds = [120_000.0, 180_000.0];
        assert!(line(&estimate).0.contains("class=\"gap\""));
    }

    #[test]
    fn a_partition_that_ends_has_the_limit_below_its_end() {
        let svg = line(&growth(1_200, Some(86_400.0))).0;
        assert!(svg.contains("L430.0 22.0\"/>"), "2,400 rows in a day: {svg}");
        assert!(
            svg.contains("<path class=\"threshold\" d=\"M0 66.0H430\"/>"),
            "{svg}"
        );
        // It went on for longer than its key says, and nothing is left to forecast.
        let svg = line(&growth(500, Some(18_000.0))).0;
        assert!(
            !svg.contains("trend fewer") && svg.contains("class=\"trend\""),
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

//! How traffic changed: strips on one axis of time for the cluster, sparklines for problems and tables.
//!
//! Where nobody watched, the line breaks over grey: it is never drawn as zero.

use std::fmt::Write;

use askama::filters::Safe;

use super::{Page, escaped, statement};
use crate::{
    number,
    report::{ProblemReport, TableReport, TimelinePoint, TimelineReport, VersionSeen},
    window::PatternId,
};
use jiff::Timestamp;

/// What a picture takes up, in its own units; the page stretches it.
const WIDTH: f64 = 336.0;
const STRIP: f64 = 56.0;
const SPARKLINE: f64 = 20.0;

/// Versions that are marked in the strips; the latest of more.
const MOST_MARKS: usize = 8;

/// A point of which less was watched gives no rate.
const LEAST_WATCHED: f64 = 0.05;

/// A quantity over time.
pub(super) struct Strip {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The top of the axis.
    pub(super) most: String,
    pub(super) svg: Safe<String>,
}

/// A version with its place on the axis, in percent.
pub(super) struct Mark<'a> {
    pub(super) version: &'a VersionSeen,
    pub(super) left: String,
    /// Whether its name stands left of it, since there is no room on the right.
    pub(super) is_late: bool,
}

/// What a point says; none where it does not.
type Quantity = fn(&TimelinePoint) -> Option<f64>;

/// How a value is written.
type Shown = fn(f64) -> String;

fn rate(point: &TimelinePoint) -> Option<f64> {
    (point.observed_seconds > 0.0).then(|| point.requests() as f64 / point.observed_seconds)
}

fn latency(point: &TimelinePoint) -> Option<f64> {
    point.highest_latency_p99_us.map(|latency| latency as f64)
}

fn tombstones(point: &TimelinePoint) -> Option<f64> {
    point.highest_tombstones_p99.map(|tombstones| tombstones as f64)
}

fn partitions(point: &TimelinePoint) -> Option<f64> {
    point.partitions_per_read
}

fn shown_latency(micros: f64) -> String {
    number::micros(number::rounded(micros))
}

impl<'a> Page<'a> {
    /// What changes over time, what it is counted in, and how it is written.
    pub(super) fn strips(&self, timeline: &TimelineReport) -> Vec<Strip> {
        let all: [(&str, &str, Quantity, Shown); 4] = [
            ("Requests", "reads and writes", rate, number::rate),
            ("Latency", "highest p99", latency, shown_latency),
            ("Partitions", "per read, mean", partitions, number::decimal),
            ("Tombstones", "per read, highest p99", tombstones, number::decimal),
        ];
        let axis = Axis::of(timeline);
        let strips = all.into_iter().filter_map(|(name, unit, quantity, shown)| {
            let is_told = name != "Latency" || self.has_times();
            let drawn = is_told.then(|| axis.line(&timeline.points, quantity)).flatten()?;
            let label = format!("{name}, {unit}: {}", drawn.range(shown));
            Some(Strip {
                name,
                unit,
                most: shown(drawn.most),
                svg: Safe(axis.strip(timeline, &drawn, &label)),
            })
        });
        strips.collect()
    }

    /// Versions that appeared, by when they did.
    pub(super) fn marks(&self, timeline: &'a TimelineReport) -> Vec<Mark<'a>> {
        let axis = Axis::of(timeline);
        let first = timeline.new_versions.len().saturating_sub(MOST_MARKS);
        let marks = timeline.new_versions.iter().skip(first);
        marks
            .map(|version| {
                let left = axis.at(version.first_seen) / WIDTH * 100.0;
                Mark {
                    version,
                    left: format!("{left:.1}"),
                    is_late: left > 60.0,
                }
            })
            .collect()
    }

    /// A link to a statement that is new, by its beginning.
    pub(super) fn new_statement(&self, id: PatternId) -> Safe<String> {
        let pattern = self.index.pattern(id);
        let short = pattern.map(|pattern| statement::short(&pattern.cql));
        self.pattern_link(id, short.as_deref().unwrap_or_default())
    }

    /// How long a point is.
    pub(super) fn point_length(&self, timeline: &TimelineReport) -> String {
        number::seconds(timeline.point_seconds as f64)
    }

    /// The times that the axis begins and ends with.
    pub(super) fn axis_ends(&self, timeline: &TimelineReport) -> [String; 2] {
        let axis = Axis::of(timeline);
        let shown = |second: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "seconds of a time")]
            let time = Timestamp::from_second(second as i64).unwrap_or_default();
            time.strftime("%a %-d %b, %H:%M").to_string()
        };
        [shown(axis.start), shown(axis.start + axis.seconds)]
    }

    /// A problem's tombstones, where it is of them, or else its rate; nothing where its statements have no timeline.
    pub(super) fn problem_over_time(&self, problem: &ProblemReport) -> Safe<String> {
        let Some(timeline) = &self.report.timeline else {
            return Safe(String::new());
        };
        let pattern = self.index.findings_of(problem).into_iter().find_map(|finding| {
            let of_finding = |id| timeline.patterns.iter().find(|one| one.pattern == id);
            finding.patterns.iter().find_map(|id| of_finding(*id))
        });
        let Some(pattern) = pattern else {
            return Safe(String::new());
        };
        let of_tombstones = problem
            .rules
            .iter()
            .any(|rule| matches!(*rule, "tombstone-heavy-read" | "queue-pattern"));
        sparkline(timeline, &pattern.points, of_tombstones)
    }

    /// A table's rate; nothing where it has no timeline.
    pub(super) fn table_over_time(&self, table: &TableReport) -> Option<Safe<String>> {
        let timeline = self.report.timeline.as_ref()?;
        let mut tables = timeline.tables.iter();
        let one = tables.find(|one| one.table == table.table && one.keyspace == table.keyspace)?;
        Some(sparkline(timeline, &one.points, false))
    }
}

/// Seconds from the first point's beginning to the last one's end.
struct Axis {
    start: f64,
    seconds: f64,
    point: f64,
}

/// A line and its range.
struct Line {
    path: String,
    least: f64,
    most: f64,
}

impl Line {
    fn range(&self, shown: Shown) -> String {
        match (shown(self.least), shown(self.most)) {
            (least, most) if least == most => format!("always {most}"),
            (least, most) => format!("{least} to {most}"),
        }
    }
}

impl Axis {
    fn of(timeline: &TimelineReport) -> Self {
        let second =
            |point: Option<&TimelinePoint>| point.map_or(0.0, |point| point.start.as_second() as f64);
        let (start, point) = (second(timeline.points.first()), timeline.point_seconds as f64);
        Self {
            start,
            seconds: second(timeline.points.last()) + point - start,
            point,
        }
    }

    fn at(&self, time: Timestamp) -> f64 {
        self.place(time.as_second() as f64).clamp(0.0, WIDTH)
    }

    fn place(&self, second: f64) -> f64 {
        (second - self.start) / self.seconds.max(1.0) * WIDTH
    }

    /// A path in which 0 is the top and 100 the bottom; none where nothing is known. Points that do not follow each
    /// other, or of which nothing is known, break it.
    fn line(&self, points: &[TimelinePoint], quantity: Quantity) -> Option<Line> {
        let known: Vec<_> = points
            .iter()
            .filter(|point| point.observed_seconds >= self.point * LEAST_WATCHED)
            .filter_map(|point| Some((point.start.as_second() as f64, quantity(point)?)))
            .collect();
        let most = known.iter().map(|one| one.1).fold(0.0, f64::max);
        let least = known.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
        let mut path = String::new();
        let mut before = f64::NEG_INFINITY;
        for &(start, value) in &known {
            let follows = start - before <= self.point * 1.5;
            let letter = if follows { 'L' } else { 'M' };
            let x = self.place(start + self.point / 2.0);
            let y = 100.0 - value / most.max(f64::MIN_POSITIVE) * 96.0;
            let _ = write!(path, "{letter}{x:.0} {y:.0}");
            if !follows {
                // A point between two gaps is seen as well.
                path.push_str("h1");
            }
            before = start;
        }
        (!known.is_empty()).then_some(Line { path, least, most })
    }

    /// Where nobody watched, as rectangles.
    fn gaps(&self, timeline: &TimelineReport, height: f64) -> String {
        let mut gaps = String::new();
        for pair in timeline.points.windows(2) {
            let [before, after] = pair else { continue };
            let from = before.start.as_second() as f64 + self.point;
            let to = after.start.as_second() as f64;
            if to > from {
                let (from, to) = (self.place(from), self.place(to));
                let width = (to - from).max(1.0);
                let _ = write!(
                    gaps,
                    "<rect class=\"gap\" x=\"{from:.0}\" width=\"{width:.0}\" height=\"{height}\"/>"
                );
            }
        }
        gaps
    }

    fn strip(&self, timeline: &TimelineReport, line: &Line, label: &str) -> String {
        let gaps = self.gaps(timeline, 100.0);
        let mut marks = String::new();
        let first = timeline.new_versions.len().saturating_sub(MOST_MARKS);
        for version in timeline.new_versions.iter().skip(first) {
            let _ = write!(marks, "M{:.0} 0v100", self.at(version.first_seen));
        }
        format!(
            "<svg viewBox=\"0 0 {WIDTH} 100\" height=\"{STRIP}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{gaps}\
             <path class=\"first\" d=\"{marks}\"/><path class=\"trend\" d=\"{}\"/></svg>",
            escaped(label),
            line.path
        )
    }
}

/// A small picture of requests a second, or of tombstones. What is watched without requests is a rate of zero.
fn sparkline(timeline: &TimelineReport, points: &[TimelinePoint], of_tombstones: bool) -> Safe<String> {
    let axis = Axis::of(timeline);
    let tombstones = of_tombstones.then(|| axis.line(points, tombstones)).flatten();
    let (line, what, shown): (_, _, Shown) = match tombstones {
        Some(line) => (Some(line), "tombstones of a read", number::decimal),
        None => (
            axis.line(&filled(timeline, points), rate),
            "requests",
            number::rate,
        ),
    };
    let Some(line) = line else {
        return Safe(String::new());
    };
    Safe(format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} 100\" height=\"{SPARKLINE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{what}: {}\">\
         {}<path class=\"trend\" d=\"{}\"/></svg>",
        escaped(&line.range(shown)),
        axis.gaps(timeline, 100.0),
        line.path
    ))
}

/// With zeros where there were no requests, though a source watched.
fn filled(timeline: &TimelineReport, points: &[TimelinePoint]) -> Vec<TimelinePoint> {
    let of = |all: &TimelinePoint| {
        let mine = points.iter().find(|point| point.start == all.start);
        mine.copied().unwrap_or(TimelinePoint {
            reads: 0,
            writes: 0,
            errors: 0,
            highest_latency_p99_us: None,
            partitions_per_read: None,
            highest_tombstones_p99: None,
            ..*all
        })
    };
    timeline.points.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Report, render};
    use crate::{
        report::{Timeline, testing},
        rules::testing::{read, window},
        window::{PatternId, Window},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::TableName};
    use jiff::{SignedDuration, Timestamp};

    /// An hour that begins so many hours after the epoch: a filter, and in part a lookup by another version.
    fn hour(at: i64, reads: u64, client: &str) -> Window {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = "SELECT * FROM shop.items WHERE a = ? ALLOW FILTERING";
        let mut scan = read(cql, &flags, PartitionClass::Scan, reads);
        scan.latency_us.record_n(1_000 + reads, 10);
        scan.partitions.record_n(5, reads);
        let mut hour = window([scan]);
        hour.start = Timestamp::from_second(at * 3_600).unwrap();
        hour.close(hour.start + SignedDuration::from_hours(1));
        hour.count_client(client, reads);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "items".to_owned(),
        };
        hour.count_table(&name, |table| table.reads = reads);
        hour
    }

    fn reported(hours: &[Window]) -> Report {
        let (mut timeline, mut whole) = (Timeline::default(), hours[0].clone());
        hours.iter().for_each(|hour| timeline.add(hour));
        hours.iter().skip(1).for_each(|hour| whole.merge(hour));
        testing::report(&whole).over_time(&timeline, &whole)
    }

    fn html(report: &Report) -> String {
        let mut html = Vec::new();
        render(report, &mut html).unwrap();
        String::from_utf8(html).unwrap()
    }

    const OLD: &str = "portal <b> 4.1 (Java driver 4.19) 10.0.0.7";
    const NEW: &str = "portal <b> 4.2 (Java driver 4.19) 10.0.0.7";

    fn section(page: &str) -> &str {
        let (_, rest) = page.split_once("<section id=\"timeline\">").unwrap();
        rest.split_once("</section>").unwrap().0
    }

    #[test]
    fn a_gap_breaks_the_line_over_grey_and_is_no_zero() {
        let hours = [(0, 7_200), (1, 3_600), (2, 7_200), (6, 7_200), (7, 3_600)]
            .map(|(at, reads)| hour(at, reads, OLD));
        let page = html(&reported(&hours));
        let section = section(&page);
        // Eight hours are 336 wide: the fourth to the sixth are grey.
        assert!(
            section.contains("<rect class=\"gap\" x=\"126\" width=\"126\" height=\"100\"/>"),
            "{section}"
        );
        assert!(
            section.contains("d=\"M21 4h1L63 52L105 4M273 4h1L315 52\""),
            "{section}"
        );
        assert!(
            section.contains("Requests, reads and writes: 1 a second to 2 a second"),
            "{section}"
        );
        assert!(
            section.contains("Partitions, per read, mean: always 5"),
            "{section}"
        );
        assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains(">inf"));
        let sparks = page.matches("class=\"spark\"").count();
        assert_eq!(sparks, 2, "of the problem and the table");
        assert!(page.contains("aria-label=\"requests: 1 a second to 2 a second\""));
    }

    #[test]
    fn hours_without_requests_that_were_watched_are_zero() {
        let mut hours: Vec<_> = (0..4).map(|at| hour(at, 3_600, OLD)).collect();
        hours[1].patterns.clear();
        hours[1].tables.clear();
        let page = html(&reported(&hours));
        assert!(
            section(&page).contains("d=\"M42 4h1L126 100L210 4L294 4\""),
            "{page}"
        );
        assert!(!section(&page).contains("class=\"gap\""));
    }

    #[test]
    fn a_new_version_is_marked_with_its_name_and_what_only_it_sends() {
        let mut hours: Vec<_> = (0..4)
            .map(|at| hour(at, 3_600, if at < 2 { OLD } else { NEW }))
            .collect();
        let mut lookup = read(
            "SELECT b FROM shop.items WHERE id = ?",
            &[],
            PartitionClass::Single,
            7,
        );
        lookup.count_client(NEW, 7);
        lookup.see(hours[2].start);
        hours[2].patterns.insert(PatternId(9), lookup);
        let page = html(&reported(&hours));
        let section = section(&page);
        assert!(section.contains("portal &#60;b&#62;</a> 4.2"), "{section}");
        assert!(
            !section.contains("4.1") && !section.contains("<b>\""),
            "{section}"
        );
        assert!(section.contains("d=\"M168 0v100\""), "{section}");
        assert!(section.contains("left:50.0%"), "{section}");
        assert!(section.contains("<a href=\"#p-0000000000000009\">"), "{section}");
    }

    #[test]
    fn fewer_than_three_points_are_no_section() {
        let hours: Vec<_> = (0..2).map(|at| hour(at, 3_600, OLD)).collect();
        let page = html(&reported(&hours));
        assert!(!page.contains("id=\"timeline\"") && !page.contains("class=\"spark\""));
        assert!(!page.contains("#timeline"));
    }

    #[test]
    fn a_week_is_small() {
        let hours: Vec<_> = (0..168)
            .filter(|at| at % 24 != 5)
            .map(|at| hour(at, 1_000 + at.unsigned_abs() * 7_919 % 5_000, OLD))
            .collect();
        let page = html(&reported(&hours));
        let pictures = page.split("<svg class=\"spark\"").skip(1);
        let sparks: usize = pictures.map(|rest| rest.find("</svg>").unwrap()).sum();
        let bytes = section(&page).len() + sparks;
        assert!(bytes < 25_000, "{bytes}");
    }
}

//! How traffic changed: strips on one axis of time for the cluster, sparklines for problems and tables.
//!
//! Where nobody watched, the line breaks over grey: it is never drawn as zero.

use std::fmt::Write;

use askama::filters::Safe;

use super::{ReportPage, brief, escaped};
use crate::{
    ProblemReport, TableReport, TimelineReport, VersionSeen,
    timeline::{Course, LATENCY, Measure, PARTITIONS, REQUESTS, TOMBSTONES},
};
use cqlens_window::{PatternId, number};
use jiff::Timestamp;

/// What a picture takes up, in its own units; the page stretches it.
const WIDTH: f64 = 336.0;
const STRIP: f64 = 56.0;
const SPARKLINE: f64 = 20.0;

/// Versions that are marked in the strips; the latest of more.
const MOST_MARKS: usize = 8;

/// What a small picture shows of a line: two pixels a point.
const SPARKLINE_POINTS: usize = 42;

/// Tables with a small picture, the first of the page: with those of the list all pictures have 25 KB.
const MOST_SPARKLINES: usize = 30;

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

impl<'a> ReportPage<'a> {
    /// What changes over time, what it is counted in, and how it is written.
    pub(super) fn strips(&self, timeline: &TimelineReport) -> Vec<Strip> {
        let (course, usual) = (timeline.course(), timeline.usual_sources());
        let axis = TimeAxis::of(&course);
        let strips = [&REQUESTS, &LATENCY, &PARTITIONS, &TOMBSTONES].into_iter();
        let strips = strips.filter_map(|measure| {
            let is_told = measure.name != LATENCY.name || self.report.has_times();
            let drawn = is_told.then(|| axis.line(&course, measure, usual)).flatten()?;
            let range = measure.range(drawn.least, drawn.most);
            let label = format!("{}, {}: {range}", measure.name, measure.unit);
            Some(Strip {
                name: measure.name,
                unit: measure.unit,
                most: (measure.shown)(drawn.most),
                svg: Safe(axis.strip((timeline, &course), &drawn, &label)),
            })
        });
        strips.collect()
    }

    /// Versions that appeared, by when they did.
    pub(super) fn marks(&self, timeline: &'a TimelineReport) -> Vec<Mark<'a>> {
        let axis = TimeAxis::of(&timeline.course());
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
        let short = pattern.map(|pattern| brief(&pattern.cql));
        self.pattern_link(id, short.as_deref().unwrap_or_default())
    }

    /// How long a point is.
    pub(super) fn point_length(&self, timeline: &TimelineReport) -> String {
        number::seconds(timeline.point_seconds as f64)
    }

    /// The times that the axis begins and ends with.
    pub(super) fn axis_ends(&self, timeline: &TimelineReport) -> [String; 2] {
        let axis = TimeAxis::of(&timeline.course());
        let shown = |second: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "seconds of a time")]
            let time = Timestamp::from_second(second as i64).unwrap_or_default();
            time.strftime("%a %-d %b, %H:%M").to_string()
        };
        [shown(axis.start), shown(axis.start + axis.seconds)]
    }

    /// A problem's tombstones, where it is of them, or else its rate; nothing where its statements have no timeline.
    pub(super) fn problem_sparkline(&self, problem: &ProblemReport) -> Safe<String> {
        let over_time = self.report.problem_over_time(problem);
        over_time.map_or_else(
            || Safe(String::new()),
            |(course, measure)| self.sparkline(course, measure),
        )
    }

    /// A table's rate; nothing where it has no timeline, or stands too far down.
    pub(super) fn table_sparkline(&self, table: &TableReport) -> Option<Safe<String>> {
        let course = self.report.table_over_time(table)?;
        let drawn = self.tables_with_problems().into_iter().chain(self.other_tables());
        let is_drawn = drawn.take(MOST_SPARKLINES).any(|one| std::ptr::eq(one, table));
        is_drawn.then(|| self.sparkline(course, &REQUESTS))
    }

    /// A small picture.
    pub(super) fn sparkline(&self, course: Course, measure: &Measure) -> Safe<String> {
        let course = course.at_most(SPARKLINE_POINTS);
        let usual = self
            .report
            .timeline
            .as_ref()
            .map_or(0, TimelineReport::usual_sources);
        let axis = TimeAxis::of(&course);
        let Some(line) = axis.line(&course, measure, usual) else {
            return Safe(String::new());
        };
        Safe(format!(
            "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} 100\" height=\"{SPARKLINE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}: {}\">\
             {}{}</svg>",
            measure.short,
            escaped(&measure.range(line.least, line.most)),
            axis.gaps(&course),
            line.paths()
        ))
    }
}

/// Seconds from the first point's beginning to the last one's end.
struct TimeAxis {
    start: f64,
    seconds: f64,
    point: f64,
}

/// A line and its range.
struct PlottedLine {
    whole: Pen,
    /// Between points in which fewer sources watched than as a rule.
    fewer: Pen,
    usual: usize,
    least: f64,
    most: f64,
}

impl PlottedLine {
    fn paths(&self) -> String {
        let mut paths = String::new();
        if !self.whole.path.is_empty() {
            let _ = write!(paths, "<path class=\"trend\" d=\"{}\"/>", self.whole.path);
        }
        if !self.fewer.path.is_empty() {
            let _ = write!(
                paths,
                "<path class=\"trend fewer\" d=\"{}\"><title>fewer than {} sources were \
                    watching</title></path>",
                self.fewer.path, self.usual
            );
        }
        paths
    }
}

/// Draws a path, of which it goes on with the last point.
#[derive(Default)]
struct Pen {
    path: String,
    at: Option<(f64, f64)>,
}

impl Pen {
    /// A point between two gaps is seen as well.
    fn point(&mut self, (x, y): (f64, f64)) {
        let _ = write!(self.path, "M{x:.0} {y:.0}h1");
        self.at = Some((x, y));
    }

    fn line(&mut self, from: (f64, f64), (x, y): (f64, f64)) {
        if self.at != Some(from) {
            let _ = write!(self.path, "M{:.0} {:.0}", from.0, from.1);
        }
        let _ = write!(self.path, "L{x:.0} {y:.0}");
        self.at = Some((x, y));
    }
}

impl TimeAxis {
    fn of(course: &Course) -> Self {
        let second = course.points.first().map_or(0, |point| point.start.as_second());
        Self {
            start: second as f64,
            seconds: course.len() as f64 * course.seconds,
            point: course.seconds,
        }
    }

    fn at(&self, time: Timestamp) -> f64 {
        self.place(time.as_second() as f64).clamp(0.0, WIDTH)
    }

    fn place(&self, second: f64) -> f64 {
        (second - self.start) / self.seconds.max(1.0) * WIDTH
    }

    /// Paths in which 0 is the top and 100 the bottom; none where nothing is known. Points that do not follow each
    /// other, or of which nothing is known, break them.
    fn line(&self, course: &Course, measure: &Measure, usual: usize) -> Option<PlottedLine> {
        let known = course.known(measure);
        let most = known.iter().map(|one| one.1).fold(0.0, f64::max);
        let mut line = PlottedLine {
            whole: Pen::default(),
            fewer: Pen::default(),
            usual,
            least: known.iter().map(|one| one.1).fold(f64::INFINITY, f64::min),
            most,
        };
        let mut before: Option<(f64, (f64, f64), bool)> = None;
        for &(point, value) in &known {
            let (start, is_fewer) = (point.start.as_second() as f64, point.sources < usual);
            let x = self.place(start + self.point / 2.0);
            let y = 100.0 - value / most.max(f64::MIN_POSITIVE) * 96.0;
            let follows = before.filter(|(last, ..)| start - last <= self.point * 1.5);
            let is_dashed = is_fewer || follows.is_some_and(|(.., was_fewer)| was_fewer);
            let pen = if is_dashed {
                &mut line.fewer
            } else {
                &mut line.whole
            };
            match follows {
                Some((_, from, _)) => pen.line(from, (x, y)),
                None => pen.point((x, y)),
            }
            before = Some((start, (x, y), is_fewer));
        }
        (!known.is_empty()).then_some(line)
    }

    /// Where nobody watched.
    fn gaps(&self, course: &Course) -> String {
        let mut path = String::new();
        for pair in course.points.windows(2) {
            let [before, after] = pair else { continue };
            let from = before.start.as_second() as f64 + self.point;
            let to = after.start.as_second() as f64;
            if to > from {
                let (from, to) = (self.place(from), self.place(to));
                let width = (to - from).max(1.0);
                let _ = write!(path, "M{from:.0} 0h{width:.0}v100h-{width:.0}z");
            }
        }
        match path.is_empty() {
            true => path,
            false => format!("<path class=\"gap\" d=\"{path}\"/>"),
        }
    }

    fn strip(
        &self,
        (timeline, course): (&TimelineReport, &Course),
        line: &PlottedLine,
        label: &str,
    ) -> String {
        let mut marks = String::new();
        let first = timeline.new_versions.len().saturating_sub(MOST_MARKS);
        for version in timeline.new_versions.iter().skip(first) {
            let _ = write!(marks, "M{:.0} 0v100", self.at(version.first_seen));
        }
        format!(
            "<svg viewBox=\"0 0 {WIDTH} 100\" height=\"{STRIP}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{}\
             <path class=\"first\" d=\"{marks}\"/>{}</svg>",
            escaped(label),
            self.gaps(course),
            line.paths()
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Report, render};
    use crate::{Timeline, testing};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::TableName};
    use cqlens_rules::testing::{read, window};
    use cqlens_window::{PatternId, Window};
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
            section.contains("<path class=\"gap\" d=\"M126 0h126v100h-126z\"/>"),
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
        assert_eq!(sparks, 3, "of the problem, its statement and the table");
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
    fn where_fewer_sources_watched_the_line_is_dotted_and_the_legend_says_so() {
        let hours: Vec<_> = (0..6)
            .flat_map(|at| {
                let by = |source: &str| {
                    let mut hour = hour(at, 3_600, OLD);
                    hour.sources = [source.to_owned()].into();
                    let mut seen = Window::new(hour.start, source);
                    seen.close(hour.end);
                    hour.observed = seen.observed;
                    hour
                };
                let both = [by("proxy-a"), by("proxy-b")];
                both.into_iter().take(if at == 3 { 1 } else { 2 })
            })
            .collect();
        let page = html(&reported(&hours));
        let section = section(&page);
        assert!(
            section.contains(
                "d=\"M28 4h1L84 4L140 4M252 4L308 4\"/><path class=\"trend fewer\" d=\"M140 4L196 52L252 4\">"
            ),
            "{section}"
        );
        assert!(
            section.contains("<title>fewer than 2 sources were watching</title>"),
            "{section}"
        );
        assert!(
            section.contains("Dotted: fewer than 2 sources were watching"),
            "{section}"
        );
        let always: Vec<_> = (0..6).map(|at| hour(at, 3_600, OLD)).collect();
        let page = html(&reported(&always));
        assert!(!page.contains("trend fewer") && !page.contains("Dotted"));
    }

    #[test]
    fn small_pictures_are_small_however_many_tables_there_are() {
        let hours: Vec<_> = (0..168)
            .filter(|at| at % 24 != 5)
            .map(|at| {
                let mut hour = hour(at, 1_000 + at.unsigned_abs() * 7_919 % 5_000, OLD);
                for table in 0..50_u64 {
                    let name = TableName {
                        keyspace: "shop".to_owned(),
                        table: format!("items_{table}"),
                    };
                    let reads = 1_000 + (at.unsigned_abs() + table) * 7_919 % 5_000;
                    hour.count_table(&name, |traffic| traffic.reads = reads);
                }
                hour
            })
            .collect();
        let page = html(&reported(&hours));
        let pictures = page.split("<svg class=\"spark\"").skip(1);
        let sizes: Vec<_> = pictures.map(|rest| rest.find("</svg>").unwrap()).collect();
        assert_eq!(sizes.len(), 32, "thirty tables, a problem and its statement");
        assert!(sizes.iter().sum::<usize>() < 25_000, "{sizes:?}");
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

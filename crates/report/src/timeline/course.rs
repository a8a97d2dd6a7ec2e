//! Points for a picture: what is drawn of them, zeros where nothing was sent, and fewer of them where it is small.

use super::{
    super::{ProblemReport, Report, TableReport},
    TimelinePoint, TimelineReport,
};
use cqlens_window::{PatternId, number};

/// A quantity over time.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// What it is called in a small picture.
    pub(crate) short: &'static str,
    /// What a point says; none where it does not.
    value: fn(&TimelinePoint) -> Option<f64>,
    /// How a value is written.
    pub(crate) shown: fn(f64) -> String,
}

pub(crate) static REQUESTS: Measure = Measure {
    name: "Requests",
    unit: "reads and writes",
    short: "requests",
    value: |point| {
        let is_watched = point.observed_seconds > 0.0;
        is_watched.then(|| point.requests() as f64 / point.observed_seconds)
    },
    shown: |rate| match rate > 0.0 {
        true => number::rate(rate),
        false => "0".to_owned(),
    },
};

pub(crate) static LATENCY: Measure = Measure {
    name: "Latency",
    unit: "highest p99",
    short: "latency",
    value: |point| point.highest_latency_p99_us.map(|latency| latency as f64),
    shown: |micros| number::micros(number::rounded(micros)),
};

pub(crate) static PARTITIONS: Measure = Measure {
    name: "Partitions",
    unit: "per read, mean",
    short: "partitions per read",
    value: |point| point.partitions_per_read,
    shown: number::decimal,
};

pub(crate) static TOMBSTONES: Measure = Measure {
    name: "Tombstones",
    unit: "per read, highest p99",
    short: "tombstones per read",
    value: |point| point.highest_tombstones_p99.map(|tombstones| tombstones as f64),
    shown: number::decimal,
};

impl Measure {
    /// `1 a second to 2 a second`.
    pub(crate) fn range(&self, least: f64, most: f64) -> String {
        match ((self.shown)(least), (self.shown)(most)) {
            (least, most) if least == most => format!("always {most}"),
            (least, most) => format!("{least} to {most}"),
        }
    }
}

/// Points of equal length. Time that nobody watched has none.
pub(crate) struct Course {
    /// From the beginning of a point to that of the next one.
    pub(crate) seconds: f64,
    pub(crate) points: Vec<TimelinePoint>,
}

/// A point of which less was watched gives no rate.
const LEAST_WATCHED: f64 = 0.05;

impl Course {
    /// What is known, with its point; a point that was hardly watched says nothing.
    pub(crate) fn known(&self, measure: &Measure) -> Vec<(&TimelinePoint, f64)> {
        let watched = self
            .points
            .iter()
            .filter(|point| point.observed_seconds >= self.seconds * LEAST_WATCHED);
        let known = watched.filter_map(|point| Some((point, (measure.value)(point)?)));
        known.collect()
    }

    /// How many points there are from the first to the last one, those that nobody watched included.
    pub(crate) fn len(&self) -> usize {
        self.points.last().map_or(0, |last| self.place(last) + 1)
    }

    /// The place of a point, from 0.
    pub(crate) fn place(&self, point: &TimelinePoint) -> usize {
        let first = self.points.first().map_or(0, |first| first.start.as_second());
        let place = (point.start.as_second() - first) as f64 / self.seconds.max(1.0);
        usize::try_from(number::rounded(place)).unwrap_or(0)
    }

    /// In at most so many points: several that follow each other are one.
    pub(crate) fn at_most(self, most: usize) -> Self {
        let each = self.len().div_ceil(most.max(1));
        if each <= 1 {
            return self;
        }
        let mut points: Vec<TimelinePoint> = Vec::new();
        let mut last = None;
        for point in &self.points {
            let place = self.place(point) / each;
            match points.last_mut() {
                Some(joined) if last == Some(place) => join(joined, point),
                _ => points.push(TimelinePoint {
                    start: self.begin(place * each).unwrap_or(point.start),
                    ..*point
                }),
            }
            last = Some(place);
        }
        Self {
            seconds: self.seconds * each as f64,
            points,
        }
    }

    fn begin(&self, place: usize) -> Option<jiff::Timestamp> {
        let after = jiff::SignedDuration::try_from_secs_f64(place as f64 * self.seconds).ok()?;
        self.points.first()?.start.checked_add(after).ok()
    }
}

/// Adds a point that comes later. A mean is weighed by reads, of which it is one.
fn join(joined: &mut TimelinePoint, point: &TimelinePoint) {
    let means = [&*joined, point].map(|one| {
        one.partitions_per_read
            .map(|mean| (mean, one.reads.max(1) as f64))
    });
    let weights: f64 = means.iter().flatten().map(|(_, reads)| reads).sum();
    let sum: f64 = means.iter().flatten().map(|(mean, reads)| mean * reads).sum();
    joined.partitions_per_read = (weights > 0.0).then(|| sum / weights);
    joined.observed_seconds += point.observed_seconds;
    joined.sources = joined.sources.min(point.sources);
    joined.reads = joined.reads.saturating_add(point.reads);
    joined.writes = joined.writes.saturating_add(point.writes);
    joined.errors = joined.errors.saturating_add(point.errors);
    joined.highest_latency_p99_us = joined.highest_latency_p99_us.max(point.highest_latency_p99_us);
    joined.highest_tombstones_p99 = joined.highest_tombstones_p99.max(point.highest_tombstones_p99);
}

impl TimelineReport {
    /// All traffic.
    pub(crate) fn course(&self) -> Course {
        self.course_of(&self.points)
    }

    /// That of a table or a pattern: zeros where there were no requests, though somebody watched.
    fn course_of(&self, points: &[TimelinePoint]) -> Course {
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
        Course {
            seconds: self.point_seconds as f64,
            points: self.points.iter().map(of).collect(),
        }
    }

    /// How many sources watch as a rule: a tenth of the points, and two at least, have as many or more. One that is
    /// replaced under another name is there twice for a point.
    pub(crate) fn usual_sources(&self) -> usize {
        let mut sources: Vec<_> = self.points.iter().map(|point| point.sources).collect();
        sources.sort_unstable_by(|left, right| right.cmp(left));
        let place = sources.len().div_ceil(10).max(2) - 1;
        sources.get(place).copied().unwrap_or(0)
    }

    /// Whether fewer watched in some of the points, so that these may look like a drop.
    pub(crate) fn has_fewer_sources(&self) -> bool {
        let usual = self.usual_sources();
        self.points.iter().any(|point| point.sources < usual)
    }
}

impl Report {
    /// A problem's tombstones, where it is of them, or else its requests; none where its statements have no timeline.
    pub(crate) fn problem_over_time(&self, problem: &ProblemReport) -> Option<(Course, &'static Measure)> {
        let timeline = self.timeline.as_ref()?;
        let pattern = self.findings_of(problem).find_map(|finding| {
            let of_finding = |id| timeline.patterns.iter().find(|one| one.pattern == id);
            finding.patterns.iter().find_map(|id| of_finding(*id))
        })?;
        let course = timeline.course_of(&pattern.points);
        let is_of_tombstones = problem
            .rules
            .iter()
            .any(|rule| matches!(*rule, "tombstone-heavy-read" | "queue-pattern"));
        let measure = match is_of_tombstones && !course.known(&TOMBSTONES).is_empty() {
            true => &TOMBSTONES,
            false => &REQUESTS,
        };
        Some((course, measure))
    }

    /// A statement's requests; none where it has no timeline.
    pub(crate) fn pattern_over_time(&self, id: PatternId) -> Option<Course> {
        let timeline = self.timeline.as_ref()?;
        let one = timeline.patterns.iter().find(|one| one.pattern == id)?;
        Some(timeline.course_of(&one.points))
    }

    /// A table's requests; none where it has no timeline.
    pub(crate) fn table_over_time(&self, table: &TableReport) -> Option<Course> {
        let timeline = self.timeline.as_ref()?;
        let mut tables = timeline.tables.iter();
        let one = tables.find(|one| one.table == table.table && one.keyspace == table.keyspace)?;
        Some(timeline.course_of(&one.points))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use jiff::Timestamp;

    fn hour(at: i64, sources: usize, reads: u64) -> TimelinePoint {
        TimelinePoint {
            start: Timestamp::from_second(at * 3_600).unwrap(),
            observed_seconds: 3_600.0,
            sources,
            reads,
            writes: 0,
            errors: 0,
            highest_latency_p99_us: Some(reads),
            partitions_per_read: Some(reads as f64),
            highest_tombstones_p99: None,
        }
    }

    fn timeline(points: Vec<TimelinePoint>) -> TimelineReport {
        TimelineReport {
            point_seconds: 3_600,
            points,
            tables: Vec::new(),
            patterns: Vec::new(),
            new_versions: Vec::new(),
        }
    }

    #[test]
    fn points_that_are_joined_have_the_sum_the_mean_by_reads_and_the_highest() {
        let all = timeline(vec![
            hour(7, 2, 10),
            hour(8, 1, 30),
            hour(9, 2, 5),
            hour(14, 2, 7),
        ]);
        let course = all.course().at_most(3);
        let [first, last] = &course.points[..] else {
            unreachable!("a gap has no point")
        };
        assert_eq!((course.seconds, course.len()), (3.0 * 3_600.0, 3));
        assert_eq!(
            (first.reads, first.sources, first.highest_latency_p99_us),
            (45, 1, Some(30))
        );
        assert_eq!(first.partitions_per_read, Some((100.0 + 900.0 + 25.0) / 45.0));
        assert_eq!((first.observed_seconds, last.reads), (3.0 * 3_600.0, 7));
        assert_eq!(last.start, Timestamp::from_second(13 * 3_600).unwrap());
    }

    #[test]
    fn a_source_that_is_replaced_is_not_two_as_a_rule() {
        let usual = |sources: &[usize]| {
            let points = (0..).zip(sources).map(|(at, sources)| hour(at, *sources, 1));
            timeline(points.collect()).usual_sources()
        };
        assert_eq!(usual(&[1, 1, 2, 1, 1]), 1);
        assert_eq!(usual(&[2, 2, 1]), 2);
        assert_eq!(usual(&[3; 3]), 3);
        let of_a_week = |many: usize| {
            let sources: Vec<_> = (0..168).map(|at| if at < many { 2 } else { 1 }).collect();
            usual(&sources)
        };
        assert_eq!((of_a_week(16), of_a_week(17)), (1, 2));
    }
}

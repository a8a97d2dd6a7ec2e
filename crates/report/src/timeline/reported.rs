//! A timeline as a report shows it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    super::Report,
    MOST_PATTERNS, MOST_TABLES, Series, Timeline,
    cell::Cell,
    grid::Grid,
    spread::{Spread, time},
};
use cqlens_cql::schema::TableName;
use cqlens_window::{Interval, Observed, PatternId, Window};

/// How the traffic changed, in points of equal length.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TimelineReport {
    /// Seconds from the start of a point to the start of the next.
    pub point_seconds: u64,
    /// User keyspaces together, in order. Time that nobody watched has no point.
    pub points: Vec<TimelinePoint>,
    /// At most 50 of the report's tables: those that were among the busiest throughout. If `points` has a point that a table does not have, the table had no requests then.
    pub tables: Vec<TableTimeline>,
    /// At most 100 patterns: with findings and of the ranking, those that were among the costliest throughout; points as for tables.
    pub patterns: Vec<PatternTimeline>,
    /// Versions of applications that appeared after the first point, where another version of the application was seen
    /// before, by when they did; at most 200.
    pub new_versions: Vec<VersionSeen>,
}

/// One point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TimelinePoint {
    /// When it begins, in UTC.
    pub start: Timestamp,
    /// Seconds of it in which at least one source observed: the divisor of its rates.
    pub observed_seconds: f64,
    /// How many sources observed in it.
    pub sources: usize,
    /// SELECTs; each page counts.
    pub reads: u64,
    /// INSERTs, UPDATEs, DELETEs and BATCHes; for a table, the statements inside batches.
    pub writes: u64,
    /// Requests whose response was an error.
    pub errors: u64,
    /// The p99 of the latency: the highest, if a point has several windows or sources. Absent if none was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_latency_p99_us: Option<u64>,
    /// The mean; absent if the number is unknown for every read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions_per_read: Option<f64>,
    /// The p99 of the tombstones of a read, the highest as above; absent where the server gave no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_tombstones_p99: Option<u64>,
}

impl TimelinePoint {
    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// A table's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TableTimeline {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// In order.
    pub points: Vec<TimelinePoint>,
}

/// A pattern's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PatternTimeline {
    /// Its id.
    pub pattern: PatternId,
    /// When it was seen first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// In order.
    pub points: Vec<TimelinePoint>,
}

/// A version of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct VersionSeen {
    /// The application.
    pub application: String,
    /// Its version.
    pub version: String,
    /// When the first window with requests of it began.
    pub first_seen: Timestamp,
    /// At most ten statements that were first seen from then on and that only this version sends.
    pub new_patterns: Vec<PatternId>,
}

/// Fewer points show no change over time.
const LEAST_POINTS: usize = 3;

const MOST_NEW_PATTERNS: usize = 10;

impl Report {
    /// With how the traffic of `window`, which the report is of, changed; without where there are too few points.
    #[must_use]
    pub fn over_time(mut self, timeline: &Timeline, window: &Window) -> Self {
        let watched = Watched::of(&timeline.observed, &timeline.grid);
        let points = watched.all(&timeline.cluster);
        if points.len() < LEAST_POINTS {
            return self;
        }
        self.timeline = Some(TimelineReport {
            point_seconds: timeline.grid.point_seconds().unsigned_abs(),
            tables: self.tables_over_time(timeline, &watched),
            patterns: self.patterns_over_time(timeline, &watched, window),
            new_versions: new_versions(timeline, &points, window),
            points,
        });
        self
    }

    fn tables_over_time(&self, timeline: &Timeline, watched: &Watched) -> Vec<TableTimeline> {
        let tables = self.tables.iter().filter_map(|table| {
            let name = TableName {
                keyspace: table.keyspace.clone(),
                table: table.table.clone(),
            };
            let series = timeline.tables.get(&name).filter(|series| series.is_whole)?;
            Some(TableTimeline {
                keyspace: name.keyspace,
                table: name.table,
                points: watched.busy(series),
            })
        });
        tables.take(MOST_TABLES).collect()
    }

    fn patterns_over_time(
        &self,
        timeline: &Timeline,
        watched: &Watched,
        window: &Window,
    ) -> Vec<PatternTimeline> {
        let findings = self.findings.iter().chain(&self.accepted);
        let mut seen = BTreeSet::new();
        let of_findings = findings.flat_map(|finding| finding.patterns.iter().copied());
        let ranked = self.ranking().statements;
        let ids = of_findings.chain(ranked.iter().map(|one| one.pattern.id));
        let patterns = ids.filter(|id| seen.insert(*id)).filter_map(|id| {
            let (series, first_seen) = (timeline.patterns.get(&id)?, first_seen(window, id));
            let points = watched.busy(series);
            let begin = points.first()?.start;
            let is_whole = series.is_whole || first_seen.is_some_and(|first| first >= begin);
            is_whole.then_some(PatternTimeline {
                pattern: id,
                first_seen,
                points,
            })
        });
        patterns.take(MOST_PATTERNS).collect()
    }
}

impl TimelineReport {
    /// Of what is left of the report.
    pub(crate) fn retain(
        &mut self,
        has_table: impl Fn(&TableTimeline) -> bool,
        has_pattern: impl Fn(PatternId) -> bool,
    ) {
        self.tables.retain(has_table);
        self.patterns.retain(|one| has_pattern(one.pattern));
        for version in &mut self.new_versions {
            version.new_patterns.retain(|id| has_pattern(*id));
        }
    }
}

fn first_seen(window: &Window, id: PatternId) -> Option<Timestamp> {
    window.patterns.get(&id)?.seen.map(|(first, _)| first)
}

/// Those that were not there from the beginning, and before which another version of their application was. An application
/// that appears with its first version may as well have come each night before cqlens watched: that is no deployment.
fn new_versions(timeline: &Timeline, points: &[TimelinePoint], window: &Window) -> Vec<VersionSeen> {
    let Some(second) = points.get(1).map(|point| point.start) else {
        return Vec::new();
    };
    let mut begun: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for ((application, _), &first) in &timeline.versions {
        let earliest = begun.entry(application).or_insert(first);
        *earliest = first.min(*earliest);
    }
    let follows_another =
        |application: &str, first| begun.get(application).is_some_and(|&begun| begun < first);
    let new = timeline
        .versions
        .iter()
        .filter(|((application, _), first)| **first >= second && follows_another(application, **first));
    let mut versions: Vec<_> = new
        .map(|((application, version), &first_seen)| VersionSeen {
            application: application.clone(),
            version: version.clone(),
            first_seen,
            new_patterns: new_patterns(window, (application, version), first_seen),
        })
        .collect();
    versions.sort_by_key(|version| version.first_seen);
    versions
}

fn new_patterns(window: &Window, version: (&str, &str), since: Timestamp) -> Vec<PatternId> {
    let is_new = |id: PatternId| first_seen(window, id).is_some_and(|first| first >= since);
    let is_its = |client: &String| {
        let (of, _) = super::version_and_driver(client);
        (super::application_name(client), of) == (version.0, Some(version.1))
    };
    let new = super::of_users(window).filter(|(id, pattern)| {
        is_new(**id) && !pattern.clients.is_empty() && pattern.clients.keys().all(is_its)
    });
    new.map(|(id, _)| *id).take(MOST_NEW_PATTERNS).collect()
}

/// When the points were watched, by their place: how many milliseconds, by how many sources.
struct Watched {
    grid: Grid,
    points: BTreeMap<i64, (i64, usize)>,
}

impl Watched {
    fn of(observed: &Observed, grid: &Grid) -> Self {
        let mut points: BTreeMap<i64, (i64, usize)> = BTreeMap::new();
        for (at, milliseconds) in parts(&observed.union(), grid) {
            points.entry(at).or_default().0 += milliseconds;
        }
        for (_, intervals) in observed.sources() {
            let places: BTreeSet<_> = parts(intervals, grid).into_iter().map(|(at, _)| at).collect();
            for at in places {
                points.entry(at).or_default().1 += 1;
            }
        }
        Self { grid: *grid, points }
    }

    /// All that were watched.
    fn all(&self, series: &Series) -> Vec<TimelinePoint> {
        let point = |&at: &i64| self.point(at, series.cells.get(&at).copied().unwrap_or_default());
        self.points.keys().filter_map(point).collect()
    }

    /// Those with requests.
    fn busy(&self, series: &Series) -> Vec<TimelinePoint> {
        let points = series.cells.iter();
        points.filter_map(|(&at, cell)| self.point(at, *cell)).collect()
    }

    fn point(&self, at: i64, cell: Cell) -> Option<TimelinePoint> {
        let &(milliseconds, sources) = self.points.get(&at)?;
        Some(TimelinePoint {
            start: time(self.grid.start(at)),
            observed_seconds: milliseconds as f64 / 1_000.0,
            sources,
            reads: cell.reads,
            writes: cell.writes,
            errors: cell.errors,
            highest_latency_p99_us: cell.latency_p99_us,
            partitions_per_read: cell.partitions_per_read(),
            highest_tombstones_p99: cell.tombstones_p99,
        })
    }
}

/// The milliseconds of each point that lie within intervals.
fn parts(intervals: &[Interval], grid: &Grid) -> Vec<(i64, i64)> {
    let shares = Spread::of_intervals(intervals).map(|spread| spread.over(grid));
    let shares = shares.unwrap_or_default().into_iter();
    shares.map(|(at, share)| (at, share.milliseconds())).collect()
}

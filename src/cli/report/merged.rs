//! Several snapshots as one: what is kept while they are read, one after the other, is one window.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::bail;
use jiff::Timestamp;

use super::{
    progress::Progress,
    reading::{Finished, MOST_ATTEMPTS, Reading, Visitor, files},
};
use cqlens_cql::schema::Schema;
use cqlens_report::Timeline;
use cqlens_window::{Cluster, Limits, Snapshot, Window};

/// Which snapshots are merged.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    /// Those whose window begins then or later.
    pub(super) since: Option<Timestamp>,
    /// Those whose window begins before.
    pub(super) until: Option<Timestamp>,
    /// Those of a cluster of this name.
    pub(super) cluster: Option<String>,
    /// Whether a damaged one is an error; otherwise it is left out, and the report says so.
    pub(super) strict: bool,
}

impl Choice {
    /// Whether a window that begins then is merged.
    pub(super) fn has(&self, start: Timestamp) -> bool {
        self.since.is_none_or(|since| start >= since) && self.until.is_none_or(|until| start < until)
    }

    /// Whether windows of that cluster are merged.
    fn has_cluster(&self, cluster: &Cluster) -> bool {
        self.cluster.is_none() || self.cluster == cluster.name
    }

    /// Whether a snapshot is merged.
    pub(super) fn has_snapshot(&self, snapshot: &Snapshot) -> bool {
        self.has(snapshot.window.start) && self.has_cluster(&snapshot.cluster)
    }
}

/// Several snapshots as one.
pub(in crate::cli) struct Merged {
    pub(super) window: Window,
    pub(super) cluster: Cluster,
    /// The windows one after the other.
    pub(super) timeline: Timeline,
    /// The latest known schema that can be read.
    schema: Option<(Timestamp, String)>,
    /// The first file, and the key of its hashes.
    first: (PathBuf, String),
    /// Windows that are counted with the latest merged file of each source: their own files, which a killed process
    /// has left beside it, follow it in the order of names.
    counted: BTreeMap<String, Vec<Timestamp>>,
}

impl Merged {
    /// Reads the snapshots, without those outside of the span of time, one after the other.
    ///
    /// # Errors
    /// A snapshot that cannot be opened, or is damaged where that is an error or none is whole, snapshots of
    /// different clusters of which none has most, no window in the span of time.
    pub(super) fn read(
        snapshots: &[PathBuf],
        choice: Choice,
        visitor: &mut dyn Visitor,
        progress: &mut Progress,
    ) -> anyhow::Result<Self> {
        let (mut attempts, mut cluster) = (1, None);
        loop {
            let reading = Reading::new(choice.clone(), cluster.clone(), visitor)?;
            match reading.read(&files(snapshots)?, attempts < MOST_ATTEMPTS, progress)? {
                Some(Finished::Merged(merged)) => return Ok(*merged),
                Some(Finished::IsOf(name)) => cluster = Some(name),
                None => attempts += 1,
            }
        }
    }

    /// The first snapshot, without its schema.
    pub(super) fn new(snapshot: Snapshot, path: &Path) -> Self {
        let mut timeline = Timeline::default();
        timeline.add(&snapshot.window);
        let mut merged = Self {
            timeline,
            schema: None,
            counted: BTreeMap::new(),
            // The processes that wrote them may have had higher limits.
            window: snapshot.window.with_limits(Limits::of_bytes(Limits::MOST_BYTES)),
            cluster: snapshot.cluster,
            first: (path.to_owned(), snapshot.key_id),
        };
        merged.count_parts(&merged.window.sources.clone(), snapshot.parts);
        merged
    }

    /// Whether a snapshot is one more, and none of what is counted already; says so of one that is neither wholly.
    pub(super) fn takes(&mut self, snapshot: &Snapshot, path: &Path) -> bool {
        if self.has_counted(&snapshot.window) {
            return false;
        }
        if let Some(source) = self.window.observed.overlap(&snapshot.window.observed) {
            let notice = overlapping(source, path);
            tracing::warn!("{notice}");
            self.window.coverage.notices.insert(notice);
            return false;
        }
        true
    }

    /// The file that was merged first.
    pub(super) fn first(&self) -> &Path {
        &self.first.0
    }

    /// Takes the schema of a snapshot if it is the latest one.
    ///
    /// # Errors
    /// It would be, and cannot be read: the one before stays.
    pub(super) fn take_schema(&mut self, end: Timestamp, text: String, path: &Path) -> anyhow::Result<()> {
        let known = self.schema.as_ref();
        if text.is_empty() || known.is_some_and(|(known, _)| end < *known) {
            return Ok(());
        }
        // Most windows have the schema of the one before.
        if known.is_none_or(|(_, known)| *known != text)
            && let Some(error) = Schema::read_cql(&text).1.first.first()
        {
            bail!("the snapshot {} holds a damaged schema: {error}", path.display());
        }
        self.schema = Some((end, text));
        Ok(())
    }

    /// Adds a snapshot that it takes, without its schema.
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        let end = snapshot.window.end;
        if end >= self.window.end {
            self.cluster.update(snapshot.cluster);
        } else {
            let newer = std::mem::replace(&mut self.cluster, snapshot.cluster);
            self.cluster.update(newer);
        }
        if snapshot.key_id != self.first.1 {
            self.window.coverage.notices.insert(OTHER_KEY.to_owned());
        }
        self.count_parts(&snapshot.window.sources, snapshot.parts);
        self.timeline.add(&snapshot.window);
        self.window.merge(&snapshot.window);
    }

    /// All of it as one snapshot.
    pub(in crate::cli) fn into_snapshot(self) -> Snapshot {
        let schema = self.schema.map_or(String::new(), |(_, text)| text);
        Snapshot::new(self.window, self.cluster, schema, self.first.1)
    }

    fn count_parts(&mut self, sources: &BTreeSet<String>, parts: Vec<Timestamp>) {
        if let (Some(source), false) = (sources.first(), parts.is_empty()) {
            self.counted.insert(source.clone(), parts);
        }
    }

    fn has_counted(&self, window: &Window) -> bool {
        let parts = window.sources.first().and_then(|source| self.counted.get(source));
        parts.is_some_and(|parts| parts.contains(&window.start))
    }

    /// The schema in force at the end; an empty one if no snapshot has any that can be read.
    pub(super) fn schema(&self) -> Schema {
        let text = self.schema.as_ref().map(|(_, text)| text.as_str());
        Schema::read_cql(text.unwrap_or_default()).0
    }
}

/// Says that a snapshot was left out.
fn overlapping(source: &str, path: &Path) -> String {
    format!(
        "The snapshot {} was left out: another one of the same source ({source}) covers part of its time, \
         and traffic seen by both would be counted twice. Give each of the sources that watch at the same \
         time its own name (`--name`).",
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
    )
}

pub(super) const OTHER_KEY: &str =
    "The snapshots were made with different hash keys: a partition seen by both is counted twice.";

#[cfg(test)]
mod tests {
    use super::super::tests::{folder, json, lasting, snapshot};

    #[test]
    fn hourly_snapshots_are_a_timeline_in_which_unwatched_hours_have_no_point() {
        let hours = ["06", "07", "08", "12"].map(|hour| snapshot("a", &format!("2026-11-21T{hour}:00:00Z")));
        let report = json(&folder(&hours), &[]);
        let timeline = &report["timeline"];
        assert_eq!(timeline["point_seconds"], 3_600);
        let points = timeline["points"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let starts: Vec<_> = points.iter().map(|point| &point["start"]).collect();
        assert_eq!(
            starts,
            [
                "2026-11-21T06:00:00Z",
                "2026-11-21T07:00:00Z",
                "2026-11-21T08:00:00Z",
                "2026-11-21T12:00:00Z"
            ]
        );
        for point in points {
            assert_eq!((&point["reads"], &point["sources"]), (&20_000.into(), &1.into()));
            assert_eq!(point["observed_seconds"], 3_600.0);
        }
        // The filter has a finding.
        let pattern = &timeline["patterns"][0];
        assert_eq!(pattern["pattern"], report["findings"][0]["patterns"][0]);
        assert_eq!(pattern["points"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn what_is_left_out_is_not_in_the_timeline() {
        let mut windows = ["06", "07", "08"]
            .map(|hour| snapshot("a", &format!("2026-11-21T{hour}:00:00Z")))
            .to_vec();
        windows.push(lasting("a", "2026-11-21T06:30:00Z", 9));
        let report = json(&folder(&windows), &[]);
        assert_eq!(report["timeline"]["points"].as_array().map(Vec::len), Some(3));
        let since = json(&folder(&windows), &["--since", "2026-11-21T07:00:00Z"]);
        assert_eq!(since.get("timeline"), None);
        let other = json(&folder(&windows), &["--table", "shop.orders"]);
        assert_eq!(other["timeline"]["patterns"], serde_json::json!([]));
    }
}

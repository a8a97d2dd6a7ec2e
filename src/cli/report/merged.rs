//! Several snapshots as one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;

use crate::sink::SNAPSHOT_ENDINGS;
use cqlens_audit::{
    number,
    report::Timeline,
    window::{Cluster, Limits, Snapshot, Window},
};
use cqlens_cql::schema::Schema;
use cqlens_proxy::files;

/// Which snapshots are merged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Choice {
    /// Those whose window begins then or later.
    pub(super) since: Option<Timestamp>,
    /// Those whose window begins before.
    pub(super) until: Option<Timestamp>,
    /// Whether a damaged one is an error; otherwise it is left out, and the report says so.
    pub(super) strict: bool,
}

impl Choice {
    fn has(self, start: Timestamp) -> bool {
        self.since.is_none_or(|since| start >= since) && self.until.is_none_or(|until| start < until)
    }
}

/// Several snapshots as one.
pub(super) struct Merged {
    pub(super) window: Window,
    pub(super) cluster: Cluster,
    /// The windows one after the other.
    pub(super) timeline: Timeline,
    /// The latest known schema, and its file.
    schema: Option<(Timestamp, String, PathBuf)>,
    /// The first file, and the key of its hashes.
    first: (PathBuf, String),
}

impl Merged {
    /// Reads the snapshots, without those outside of the span of time.
    ///
    /// # Errors
    /// A snapshot that cannot be opened, or is damaged where that is an error or none is whole, snapshots of
    /// different clusters, no window in the span of time.
    pub(super) fn read(snapshots: &[PathBuf], choice: Choice) -> anyhow::Result<Self> {
        let files = files(snapshots)?;
        let mut merged: Option<Self> = None;
        let mut damaged = Vec::new();
        for path in &files {
            let snapshot = match read_snapshot(path)? {
                Ok(snapshot) => snapshot,
                Err(error) if choice.strict => return Err(error),
                Err(error) => {
                    tracing::warn!("{error:#}: it is left out");
                    damaged.push((path, error));
                    continue;
                }
            };
            if !choice.has(snapshot.window.start) {
                continue;
            }
            match &mut merged {
                Some(merged) => merged.add(snapshot, path)?,
                None => merged = Some(Self::new(snapshot, path)),
            }
        }
        if let (Some(merged), Some(notice)) = (&mut merged, left_out(&damaged)) {
            merged.window.coverage.notices.insert(notice);
        }
        match (merged, damaged.into_iter().next()) {
            (Some(merged), _) => Ok(merged),
            (None, Some((_, error))) => Err(error),
            (None, None) => bail!(
                "no window of {} snapshots begins in that span of time",
                files.len()
            ),
        }
    }

    fn new(snapshot: Snapshot, path: &Path) -> Self {
        let end = snapshot.window.end;
        let mut timeline = Timeline::default();
        timeline.add(&snapshot.window);
        Self {
            timeline,
            schema: (!snapshot.schema.is_empty()).then(|| (end, snapshot.schema, path.to_owned())),
            // The processes that wrote them may have had higher limits.
            window: snapshot.window.with_limits(Limits::of_bytes(Limits::MOST_BYTES)),
            cluster: snapshot.cluster,
            first: (path.to_owned(), snapshot.key_id),
        }
    }

    fn add(&mut self, snapshot: Snapshot, path: &Path) -> anyhow::Result<()> {
        if let Some(source) = self.window.observed.overlap(&snapshot.window.observed) {
            let notice = overlapping(source, path);
            tracing::warn!("{notice}");
            self.window.coverage.notices.insert(notice);
            return Ok(());
        }
        if let (Some(ours), Some(theirs)) = (&self.cluster.name, &snapshot.cluster.name) {
            let first = self.first.0.display();
            ensure!(
                ours == theirs,
                "{} is of cluster {theirs:?}, but {first} of cluster {ours:?}: report them apart",
                path.display()
            );
        }
        let end = snapshot.window.end;
        if end >= self.window.end {
            take_known(&mut self.cluster, snapshot.cluster);
        } else {
            let newer = std::mem::replace(&mut self.cluster, snapshot.cluster);
            take_known(&mut self.cluster, newer);
        }
        if snapshot.key_id != self.first.1 {
            self.window.coverage.notices.insert(OTHER_KEY.to_owned());
        }
        let is_latest = self.schema.as_ref().is_none_or(|(known, ..)| end >= *known);
        if is_latest && !snapshot.schema.is_empty() {
            self.schema = Some((end, snapshot.schema, path.to_owned()));
        }
        self.timeline.add(&snapshot.window);
        self.window.merge(&snapshot.window);
        Ok(())
    }

    /// The schema in force at the end; an empty one if no snapshot has any.
    ///
    /// # Errors
    /// A schema that cannot be read.
    pub(super) fn schema(&self) -> anyhow::Result<Schema> {
        let Some((_, text, path)) = &self.schema else {
            return Ok(Schema::default());
        };
        let (schema, errors) = Schema::read_cql(text);
        if let Some(error) = errors.first() {
            bail!("the snapshot {} holds a damaged schema: {error}", path.display());
        }
        Ok(schema)
    }
}

/// Says that a snapshot was left out.
fn overlapping(source: &str, path: &Path) -> String {
    format!(
        "The snapshot {} was left out: another one of the same source ({source}) covers a part of its time, and what both have \
         seen would be counted twice. Give sources that watch at the same time a name each (`--name`).",
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
    )
}

pub(super) const OTHER_KEY: &str =
    "The snapshots were made with different hash keys: a partition that both have seen is counted twice.";

/// Replaces what `from` knows in `to`.
fn take_known(to: &mut Cluster, from: Cluster) {
    to.name = from.name.or(to.name.take());
    to.release_version = from.release_version.or(to.release_version.take());
    to.product = from.product.or(to.product);
    to.product_version = from.product_version.or(to.product_version.take());
    to.partitioner = from.partitioner.or(to.partitioner.take());
    to.nodes = from.nodes.or(to.nodes);
    if !from.data_centers.is_empty() {
        to.data_centers = from.data_centers;
    }
}

/// A snapshot, or why it is none.
///
/// # Errors
/// A file that cannot be opened.
fn read_snapshot(path: &Path) -> anyhow::Result<anyhow::Result<Snapshot>> {
    let file = files::open(path).with_context(|| format!("cannot open the snapshot {}", path.display()))?;
    Ok(Snapshot::read(file).with_context(|| format!("cannot read the snapshot {}", path.display())))
}

/// How many damaged files a report names.
const MOST_NAMED: usize = 5;

/// Says which files were left out because they are damaged; nothing where none were.
fn left_out(damaged: &[(&PathBuf, anyhow::Error)]) -> Option<String> {
    let named: Vec<_> = damaged
        .iter()
        .take(MOST_NAMED)
        .map(|(path, _)| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
        .collect();
    let more = match damaged.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = number::plural(damaged.len() as u64, "snapshot is", "snapshots are");
    (!damaged.is_empty()).then(|| {
        format!(
            "{count} damaged and left out: {}{more}. What was seen in that time is missing here.",
            named.join(", ")
        )
    })
}

/// The named files, and those in the named folders, each once.
fn files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        let context = || format!("cannot read the folder {}", path.display());
        for entry in fs::read_dir(path).with_context(context)? {
            let entry = entry.with_context(context)?.path();
            let name = entry
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let is_snapshot = SNAPSHOT_ENDINGS.iter().any(|ending| name.ends_with(ending));
            if is_snapshot && !name.starts_with('.') {
                files.push(entry);
            }
        }
        ensure!(
            files.len() > before,
            "the folder {} holds no *{}",
            path.display(),
            SNAPSHOT_ENDINGS.join(" and no *")
        );
    }
    // A window that is named twice must not count twice.
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    files.sort();
    Ok(files)
}

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

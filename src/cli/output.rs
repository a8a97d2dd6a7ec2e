//! Where a running audit puts its windows: snapshots, and a report over everything since the start.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::{
    audit::HashKey,
    catalog::Live,
    report::{Format, Report},
    rules::Judging,
    sink::{SnapshotDir, replace},
    window::{Cluster, Coverage, Limits, Snapshot, Window},
};

/// The outputs that were asked for.
pub(super) struct Outputs {
    places: Places,
    key: HashKey,
    judging: Judging,
    /// Everything since the start, for the report.
    all: Option<Window>,
    /// What was said of tables since the start.
    rekeyed: BTreeSet<String>,
    /// How much of everything since the start is kept.
    limits: Limits,
    /// Clients that the log named for the last window.
    refused: BTreeSet<String>,
    /// Outputs that could not be written, since the last one that could.
    failures: u64,
}

/// Where outputs go.
pub(super) struct Places {
    report: Option<(PathBuf, Format)>,
    snapshots: Option<SnapshotDir>,
}

impl Places {
    /// Makes sure that everything can be written.
    ///
    /// # Errors
    /// A report of an unknown format, a snapshot folder that cannot be written.
    pub(super) fn open(report: Option<&Path>, snapshot_dir: Option<&Path>) -> anyhow::Result<Self> {
        let report = report.map(|path| match Format::of_path(path) {
            Some(format) => Ok((path.to_owned(), format)),
            None => bail!("the report {} must end in .html, .md or .json", path.display()),
        });
        let snapshots = snapshot_dir.map(|folder| {
            SnapshotDir::open(folder)
                .with_context(|| format!("cannot write snapshots to {}", folder.display()))
        });
        Ok(Self {
            report: report.transpose()?,
            snapshots: snapshots.transpose()?,
        })
    }
}

impl Outputs {
    /// Makes sure that everything can be written.
    ///
    /// # Errors
    /// A report of an unknown format, a snapshot folder that cannot be written.
    pub(super) fn open(
        report: Option<&Path>,
        snapshot_dir: Option<&Path>,
        key: HashKey,
        judging: Judging,
    ) -> anyhow::Result<Self> {
        let places = Places::open(report, snapshot_dir)?;
        Ok(Self {
            places,
            key,
            judging,
            all: None,
            rekeyed: BTreeSet::new(),
            limits: Limits::default(),
            refused: BTreeSet::new(),
            failures: 0,
        })
    }

    /// Keeps so much of everything since the start.
    pub(super) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The key for hashes of partition keys.
    pub(super) fn hash_key(&self) -> HashKey {
        self.key
    }

    /// Writes to other places from now on; a report there is over everything since the start.
    pub(super) fn move_to(&mut self, places: Places, live: &Live) {
        self.places = places;
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Judges by other thresholds and acceptances from now on, everything since the start included.
    pub(super) fn judge_by(&mut self, judging: Judging, live: &Live) {
        self.judging = judging;
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Writes the first report, which says that nothing has been seen yet, since `start`.
    ///
    /// # Errors
    /// A report that cannot be written.
    pub(super) fn begin(&mut self, live: &Live, source: &str, start: Timestamp) -> anyhow::Result<()> {
        let nothing = Window::new(start, source).with_limits(self.limits);
        self.all = Some(nothing);
        self.write_report(live).context("cannot write the report")
    }

    /// Takes a finished window; `bypass` says what of the traffic did not come this way, or may not have. What cannot be written is said once and counted; forwarding goes on.
    pub(super) fn window(&mut self, mut window: Window, live: &Live, bypass: Option<String>) {
        window.coverage.notices.extend(self.notices(live));
        window.coverage.notices.extend(bypass);
        let rekeyed: BTreeSet<_> = live
            .take_rekeyed()
            .iter()
            .take(MOST_REKEYED)
            .map(|table| rekeyed(table))
            .collect();
        self.rekeyed.extend(rekeyed.iter().cloned());
        window.coverage.notices.extend(rekeyed);
        match &mut self.all {
            Some(all) => {
                // The latest state counts: a notice of an hour ago may be settled. What was counted stays counted.
                all.coverage.notices.clone_from(&self.rekeyed);
                all.merge(&window);
            }
            None => self.all = Some(window.clone().with_limits(self.limits)),
        }
        self.name_refused(&window.coverage);
        let snapshot = self.write_snapshot(window, live);
        let report = self.write_report(live);
        self.settle(snapshot.and(report));
    }

    /// Names clients of whom the node refuses everything, when it begins: they would go on unseen, and fail.
    fn name_refused(&mut self, coverage: &Coverage) {
        let before = std::mem::take(&mut self.refused);
        let clients = coverage.refused_clients.iter();
        let new: Vec<_> = clients.filter(|(client, _)| !before.contains(*client)).collect();
        for (client, requests) in new.iter().take(MOST_NAMED) {
            let client = client.escape_debug();
            tracing::warn!(%client, requests, "the node has refused everything from this client for a minute or longer");
        }
        if new.len() > MOST_NAMED {
            let clients = new.len() - MOST_NAMED;
            tracing::warn!(
                clients,
                "the same is true of further clients, which the report names"
            );
        }
        self.refused = coverage.refused_clients.keys().cloned().collect();
    }

    fn settle(&mut self, written: anyhow::Result<()>) {
        match written {
            Ok(()) if self.failures > 0 => {
                tracing::info!(
                    failures = self.failures,
                    "snapshots and reports can be written again"
                );
                self.failures = 0;
            }
            Ok(()) => {}
            Err(error) => {
                self.failures += 1;
                if self.failures == 1 {
                    tracing::error!("{error:#}: everything else goes on, further failures are only counted");
                }
            }
        }
    }

    fn write_snapshot(&self, window: Window, live: &Live) -> anyhow::Result<()> {
        let Some(folder) = &self.places.snapshots else {
            return Ok(());
        };
        let snapshot = Snapshot::new(window, cluster(live), live.schema().to_cql(), self.key.id());
        folder.write(&snapshot).context("cannot write a snapshot")?;
        Ok(())
    }

    fn write_report(&self, live: &Live) -> anyhow::Result<()> {
        let (Some((path, format)), Some(window)) = (&self.places.report, &self.all) else {
            return Ok(());
        };
        let report = self.judge(window, live);
        replace(path, |to| report.render(*format, to))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The report over everything since the start; none before that.
    pub(super) fn report(&self, live: &Live) -> Option<Report> {
        self.all.as_ref().map(|window| self.judge(window, live))
    }

    fn judge(&self, window: &Window, live: &Live) -> Report {
        let schema = live.schema();
        let now = Timestamp::now();
        let judgement = self.judging.judge(window, &schema, today(now));
        Report::new(window, &cluster(live), &schema, judgement, now)
    }

    /// What a reader must know before any number (promise P1: what is not seen must not look clean).
    fn notices(&self, live: &Live) -> Vec<String> {
        let mut notices = Vec::new();
        if self.failures > 0 {
            notices.push(format!(
                "{} snapshots or reports could not be written.",
                self.failures
            ));
        }
        notices.extend(schema_notice(live).map(str::to_owned));
        notices
    }
}

/// What is not known of the schema, and what that costs.
fn schema_notice(live: &Live) -> Option<&'static str> {
    if live.is_known() {
        None
    } else if live.schema().keyspaces.is_empty() {
        Some("The schema could not be read: partitions are counted only where PREPARED results allow it.")
    } else {
        Some(
            "Of the schema only what was seen in the traffic is known: partitions of other tables are counted only where PREPARED results \
             allow it.",
        )
    }
}

/// The day on which acceptances are judged, the same everywhere.
pub(super) fn today(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

/// Clients that one window names in the log.
const MOST_NAMED: usize = 5;

/// Tables of one window of which it is said; the others of so large a migration are like these.
const MOST_REKEYED: usize = 20;

/// Says of a table that was re-created by a statement that was not seen (past the proxy, or not in the capture) what was counted wrongly,
/// perhaps.
fn rekeyed(table: &str) -> String {
    format!(
        "{table} was created again with another partition key, by a statement that was not seen here: what was asked of it in the moment before \
         the new schema was read is counted by the old key."
    )
}

fn cluster(live: &Live) -> Cluster {
    let cluster = live.cluster();
    Cluster {
        name: cluster.name.clone(),
        release_version: cluster.release_version.clone(),
        partitioner: cluster.partitioner.clone(),
        nodes: (!cluster.nodes.is_empty()).then_some(cluster.nodes.len()),
    }
}

/// The key for hashes of partition keys: from `file`, else from `hash.key` in the snapshot folder, else a new one.
///
/// # Errors
/// A key file that cannot be read, written, or is none.
pub(super) fn hash_key(file: Option<&Path>, snapshot_dir: Option<&Path>) -> anyhow::Result<HashKey> {
    let in_folder = snapshot_dir.map(|folder| folder.join("hash.key"));
    let Some(path) = file.map(Path::to_owned).or(in_folder) else {
        return Ok(HashKey::random());
    };
    let context = || format!("hash key file {}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => text.parse().with_context(context),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write_new_key(&path).with_context(context),
        Err(error) => Err(error).with_context(context),
    }
}

/// Writes `key` to `hash.key` in a folder that has none, so that the next process goes on with it.
///
/// # Errors
/// A file that cannot be written, or that holds another key.
pub(super) fn leave_key(key: HashKey, snapshot_dir: &Path) -> anyhow::Result<()> {
    let path = snapshot_dir.join("hash.key");
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == key.to_string() => Ok(()),
        Ok(_other) => bail!("{} is another key than the one in use", path.display()),
        Err(_missing) => write_key(&path, key).with_context(|| format!("hash key file {}", path.display())),
    }
}

fn write_new_key(path: &Path) -> anyhow::Result<HashKey> {
    let key = HashKey::random();
    write_key(path, key)?;
    Ok(key)
}

/// Only the operator may read the key: with it, hashes can be tried out.
fn write_key(path: &Path, key: HashKey) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{key}")?;
    Ok(())
}

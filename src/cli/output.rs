//! Where a running audit puts its windows: snapshots, and a report over everything since the start.

mod snapshots;

use std::{
    collections::BTreeSet,
    fs,
    io::{self, IsTerminal, stdout},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use anyhow::Context;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
pub(super) use snapshots::SnapshotWriter;
use snapshots::{WriteFailures, cluster};

use super::{
    report_thread::{Awaited, ReportThread},
    screen,
    traffic_feed::TrafficFeed,
};
#[cfg(feature = "fleet")]
use crate::sink::Spool;
use crate::sink::{self, Retention, SnapshotDir, directory, remove_leftovers, replace, replace_while};
use cqlens_admin::Rendering;
use cqlens_audit::{audit::HashKey, catalog::Live};
use cqlens_capture::memory::Use;
use cqlens_cql::schema::Schema;
use cqlens_rehearse::shadow::Shadow;
use cqlens_report::{Comparison, Format, Report, Timeline};
use cqlens_rules::Judging;
use cqlens_window::{Cluster, Coverage, Limits, Snapshot, Window};

/// The outputs that the settings name.
pub(super) struct Outputs {
    places: OutputPaths,
    /// Writes snapshots to the same folders.
    snapshots: SnapshotWriter,
    key: HashKey,
    judging: Arc<Judging>,
    /// Everything since the start, for the report.
    all: Option<Arc<Window>>,
    /// The windows since the start, one after the other.
    timeline: Arc<Timeline>,
    /// Makes reports, which may be stuck.
    thread: ReportThread,
    /// The tables that the log has named since the start.
    rekeyed: BTreeSet<String>,
    /// How much of everything since the start is kept.
    limits: Limits,
    /// Clients that the log named for the last window.
    refused: BTreeSet<String>,
    /// The second cluster that requests are copied to.
    shadow: Option<Arc<Shadow>>,
    /// What `/metrics` counts.
    feed: TrafficFeed,
    /// Snapshots that the report knows to be lost on their way to the sink.
    #[cfg(feature = "fleet")]
    lost: u64,
}

/// What a report is made of: shared, so that the writer goes on while a report is stuck.
struct Judged {
    window: Arc<Window>,
    timeline: Arc<Timeline>,
    schema: Arc<Schema>,
    cluster: Cluster,
    judging: Arc<Judging>,
    comparison: Option<Arc<Comparison>>,
}

impl Judged {
    fn report(self) -> Report {
        let now = Timestamp::now();
        let context = cqlens_rules::Context::new(&self.window, &self.schema, &self.cluster);
        let judgement = self.judging.judge(&context, today(now));
        Report::new(&self.window, &self.cluster, &self.schema, judgement, now)
            .over_time(&self.timeline, &self.window)
            .compared(self.comparison.as_deref().cloned())
    }
}

/// Where outputs go.
pub(super) struct OutputPaths {
    report: Option<(PathBuf, Format)>,
    snapshots: Vec<Arc<SnapshotDir>>,
}

impl OutputPaths {
    /// Makes sure that everything can be written.
    ///
    /// # Errors
    /// A snapshot folder that cannot be written.
    pub(super) fn open(
        report: Option<(PathBuf, Format)>,
        snapshot_dirs: Vec<(PathBuf, Retention)>,
    ) -> anyhow::Result<Self> {
        if let Some((path, _)) = &report {
            remove_leftovers(&directory(path));
        }
        let snapshots = snapshot_dirs.into_iter().map(|(folder, retention)| {
            SnapshotDir::open(&folder, retention)
                .map(Arc::new)
                .with_context(|| format!("cannot write snapshots to {}", folder.display()))
        });
        Ok(Self {
            report,
            snapshots: snapshots.collect::<Result<_, _>>()?,
        })
    }
}

impl OutputPaths {
    /// What is written where.
    fn named(&self) -> Vec<(&'static str, &Path)> {
        let report = self.report.as_ref().map(|(path, _)| ("Report", path.as_path()));
        let snapshots = self.snapshots.iter().map(|folder| ("Snapshots", folder.path()));
        report.into_iter().chain(snapshots).collect()
    }
}

impl Outputs {
    /// Makes sure that everything can be written.
    ///
    /// # Errors
    /// A snapshot folder that cannot be written.
    pub(super) fn open(
        report: Option<(PathBuf, Format)>,
        snapshot_dirs: Vec<(PathBuf, Retention)>,
        key: HashKey,
        judging: Judging,
    ) -> anyhow::Result<Self> {
        let places = OutputPaths::open(report, snapshot_dirs)?;
        let snapshots = SnapshotWriter {
            folders: Arc::new(Mutex::new(places.snapshots.clone())),
            #[cfg(feature = "fleet")]
            spool: None,
            key,
            failures: WriteFailures::default(),
        };
        Ok(Self {
            places,
            snapshots,
            key,
            judging: Arc::new(judging),
            all: None,
            timeline: Arc::default(),
            thread: ReportThread::default(),
            rekeyed: BTreeSet::new(),
            limits: Limits::default(),
            refused: BTreeSet::new(),
            shadow: None,
            feed: TrafficFeed::unread(),
            #[cfg(feature = "fleet")]
            lost: 0,
        })
    }

    /// Whether the report goes to a pipe, which may have no reader.
    pub(super) fn may_hang(&self) -> bool {
        let report = self.places.report.as_ref();
        let metadata = report.and_then(|(path, _)| fs::metadata(path).ok());
        metadata.is_some_and(|metadata| metadata.file_type().is_fifo())
    }

    /// Makes reports by another thread.
    #[cfg(test)]
    pub(super) fn by(self, thread: ReportThread) -> Self {
        Self { thread, ..self }
    }

    /// How many reports were abandoned since the start.
    pub(super) fn abandoned_reports(&self) -> &Arc<AtomicU64> {
        self.thread.abandoned()
    }

    /// Keeps so much of everything since the start.
    pub(super) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Reports what a second cluster has answered, too.
    pub(super) fn beside(self, shadow: Option<Arc<Shadow>>) -> Self {
        Self { shadow, ..self }
    }

    /// Hands windows to a sink, too.
    #[cfg(feature = "fleet")]
    pub(super) fn through(mut self, spool: Option<Spool>) -> Self {
        self.snapshots.spool = spool.map(Arc::new);
        self
    }

    /// Gives the sink what it does not have yet, within `patience`: after the last window.
    #[cfg(feature = "fleet")]
    pub(super) fn flush_sink(&mut self, patience: std::time::Duration) {
        if let Some(spool) = &self.snapshots.spool {
            spool.flush(patience);
            self.feed.set_sink(spool.figures());
            self.feed.publish();
        }
    }

    /// Counts for `/metrics`, too.
    pub(super) fn feeding(self, feed: TrafficFeed) -> Self {
        Self { feed, ..self }
    }

    /// Writes snapshots to the same folders, wherever they are moved to.
    pub(super) fn snapshots(&self) -> SnapshotWriter {
        self.snapshots.clone()
    }

    /// The key for hashes of partition keys.
    pub(super) fn hash_key(&self) -> HashKey {
        self.key
    }

    /// Writes to other places from now on; a report there is over everything since the start.
    pub(super) fn move_to(&mut self, places: OutputPaths, live: &Live) {
        let folders = places.snapshots.clone();
        *self
            .snapshots
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = folders;
        self.places = places;
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Judges by other thresholds and acceptances from now on, everything since the start included.
    pub(super) fn judge_by(&mut self, judging: Judging, live: &Live) {
        self.judging = Arc::new(judging);
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Writes the first report, which says that nothing has been seen yet, since `start`.
    ///
    /// # Errors
    /// A report that cannot be written.
    pub(super) fn begin(&mut self, live: &Live, source: &str, start: Timestamp) -> anyhow::Result<()> {
        let nothing = Window::new(start, source).with_limits(self.limits);
        self.all = Some(Arc::new(nothing));
        for folder in &self.places.snapshots {
            folder.remove_surplus(source);
        }
        self.write_report(live).context("cannot write the report")
    }

    /// Takes a finished window; `bypass` says what of the traffic did not come this way, or may not have.
    /// A failure to write is logged once and counted; forwarding goes on.
    pub(super) fn window(&mut self, window: Window, live: &Live, bypass: Option<String>) {
        let kept = self.keep(window, live, bypass);
        self.report_window(kept, live);
    }

    /// The first half of [`window`](Self::window): adds it to everything since the start, and writes its snapshot.
    ///
    /// # Errors
    /// A snapshot that cannot be written: for the other half.
    pub(super) fn keep(
        &mut self,
        mut window: Window,
        live: &Live,
        bypass: Option<String>,
    ) -> anyhow::Result<()> {
        window.coverage.notices.extend(self.notices(live));
        #[cfg(feature = "fleet")]
        window.coverage.notices.extend(self.losses());
        window.coverage.bypassed |= bypass.is_some();
        window.coverage.notices.extend(bypass);
        let rekeyed: BTreeSet<_> = live
            .take_partition_key_changes()
            .iter()
            .take(MOST_REKEYED)
            .map(|table| rekeyed(table))
            .collect();
        self.rekeyed.extend(rekeyed.iter().cloned());
        window.coverage.notices.extend(rekeyed);
        self.add(&window, live);
        let written = live.memory().part(Use::Writer);
        written.set(bytes(&window));
        let snapshot = self.snapshots.write(window, live);
        if snapshot.is_err() {
            self.feed.count_snapshot_failure();
        }
        written.set(0);
        live.memory().part(Use::Report).set(self.bytes());
        snapshot
    }

    /// The other half: writes the report; `kept` is what the first has said.
    pub(super) fn report_window(&mut self, kept: anyhow::Result<()>, live: &Live) {
        let report = self.write_report(live);
        self.settle(kept.and(report));
    }

    /// What everything since the start takes. A report that is stuck keeps what it was given.
    fn bytes(&self) -> usize {
        let all = self.all.as_ref().map_or(0, |all| bytes(all));
        (all + self.timeline.bytes()) * (1 + self.thread.stuck())
    }

    /// Adds a window to everything since the start.
    pub(super) fn add(&mut self, window: &Window, live: &Live) {
        let timeline = Arc::make_mut(&mut self.timeline);
        timeline.add(window);
        let limit = live.memory().part(Use::Report).limit();
        timeline.keep_within(limit / TIMELINE_SHARE);
        match &mut self.all {
            Some(all) => {
                let all = Arc::make_mut(all);
                // The latest state counts: a notice of an hour ago may be settled. What
                // was counted stays counted.
                all.coverage.notices.clone_from(&self.rekeyed);
                all.merge(window);
            }
            None => self.all = Some(Arc::new(window.clone().with_limits(self.limits))),
        }
        self.name_refused(&window.coverage);
        self.feed.add(window);
    }

    /// Writes the report again where there is no window, with `notice` saying why. It is not
    /// repeated in the next one.
    pub(super) fn lack_window(&mut self, notice: String, live: &Live) {
        if let Some(all) = &mut self.all {
            let all = Arc::make_mut(all);
            all.coverage.notices.insert(notice);
        }
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Writes the report again: the second cluster has answered more since.
    pub(super) fn write_again(&mut self, live: &Live) {
        let written = self.write_report(live);
        self.settle(written);
    }

    /// Logs the clients whose requests the node all refuses, once it begins to:
    /// otherwise they would fail unseen.
    fn name_refused(&mut self, coverage: &Coverage) {
        let before = std::mem::take(&mut self.refused);
        let clients = coverage.refused_clients.iter();
        let new: Vec<_> = clients.filter(|(client, _)| !before.contains(*client)).collect();
        for (client, requests) in new.iter().take(MOST_NAMED) {
            tracing::warn!(
                client,
                requests,
                "the node has refused all requests from this client for a minute or longer"
            );
        }
        if new.len() > MOST_NAMED {
            let clients = new.len() - MOST_NAMED;
            tracing::warn!(
                clients,
                "the same applies to further clients, which the report lists"
            );
        }
        self.refused = coverage.refused_clients.keys().cloned().collect();
    }

    /// What the sink does not get, said by the next window that it does get.
    #[cfg(feature = "fleet")]
    fn losses(&mut self) -> Option<String> {
        let figures = self.snapshots.spool.as_ref()?.figures();
        self.feed.set_sink(figures);
        let lost = figures.lost - std::mem::replace(&mut self.lost, figures.lost);
        let snapshots = cqlens_window::number::plural(lost, "snapshot", "snapshots");
        (lost > 0).then(|| {
            format!("{snapshots} were lost on the way to the sink, which could not be reached for too long: what is merged from there lacks that time.")
        })
    }

    fn settle(&mut self, written: anyhow::Result<()>) {
        self.feed.publish();
        match written {
            Ok(()) => self.snapshots.failures.end(),
            Err(error) => self.snapshots.failures.count(&error),
        }
    }

    fn snapshot(&self, window: Window, live: &Live) -> Snapshot {
        Snapshot::new(window, cluster(live), live.schema().to_cql(), self.key.id())
    }

    /// Judges once, for the report file and for `/metrics`; not at all where nobody reads either.
    fn write_report(&mut self, live: &Live) -> anyhow::Result<()> {
        if self.all.is_none() || self.places.report.is_none() && !self.feed.wants_findings() {
            return Ok(());
        }
        let written = self.make_report(live);
        if written.is_err() && self.places.report.is_some() {
            self.feed.count_report_failure();
        }
        written
    }

    fn make_report(&mut self, live: &Live) -> anyhow::Result<()> {
        let report = self.report(live)?;
        self.feed.find(&report);
        let Some((path, format)) = self.places.report.clone() else {
            return Ok(());
        };
        let to = path.clone();
        let written = self
            .thread
            .run(move |awaited| replace_file(report, &to, format, &awaited));
        let written = written.and_then(|written| match written? {
            None => Ok(()),
            // Its reader is waited for, however long that takes.
            Some(report) => Ok(replace(&path, |to| report.render(format, to))?),
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// What a terminal shows at the end: the worst of what was found, and where all of it is; none where standard output is no
    /// terminal.
    pub(super) fn last_words(&mut self, live: &Live) -> Option<String> {
        // Judging takes time, which a pipe has no use for.
        if !stdout().is_terminal() {
            return None;
        }
        let report = self.report(live).ok()?;
        screen::text(&report, &self.places.named())
    }

    /// Makes what an operator asks for, of everything since the start.
    ///
    /// # Errors
    /// What cannot be rendered.
    pub(super) fn render(&mut self, rendering: Rendering, live: &Live) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match rendering {
            Rendering::Report(format) => self.report(live)?.render(format, &mut bytes)?,
            Rendering::Findings => self.report(live)?.render_findings(&mut bytes)?,
            Rendering::Snapshot => {
                let window = self.all.as_deref().context(NO_WINDOW)?;
                sink::compress(&self.snapshot(window.clone(), live), &mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// The report over everything since the start.
    ///
    /// # Errors
    /// One that takes too long; none before the first.
    pub(super) fn report(&mut self, live: &Live) -> anyhow::Result<Report> {
        let judged = self.judged(live).context(NO_WINDOW)?;
        self.thread.run(|_| judged.report())
    }

    fn judged(&self, live: &Live) -> Option<Judged> {
        Some(Judged {
            window: Arc::clone(self.all.as_ref()?),
            timeline: Arc::clone(&self.timeline),
            schema: live.schema(),
            cluster: cluster(live),
            judging: Arc::clone(&self.judging),
            comparison: self.shadow.as_ref().and_then(|shadow| shadow.latest()),
        })
    }

    /// What a reader must know before any number (promise P1: what is not seen must not look clean).
    fn notices(&self, live: &Live) -> Vec<String> {
        let mut notices = Vec::new();
        let failures = self.snapshots.failures.number();
        if failures > 0 {
            notices.push(format!("{failures} snapshots or reports could not be written."));
        }
        notices.extend(schema_notice(live).map(str::to_owned));
        if live.is_cut() {
            notices.push(CUT.to_owned());
        }
        notices
    }
}

/// Replaces the file at `path`, as long as that is awaited. A report for what is no file, such as a pipe, comes back.
fn replace_file(
    report: Report,
    path: &Path,
    format: Format,
    awaited: &Awaited<'_>,
) -> io::Result<Option<Report>> {
    if fs::metadata(path).is_ok_and(|present| !present.is_file() && !present.is_dir()) {
        return Ok(Some(report));
    }
    replace_while(path, || awaited.is_awaited(), |to| report.render(format, to))?;
    Ok(None)
}

/// What is not known of the schema, and what that costs.
fn schema_notice(live: &Live) -> Option<&'static str> {
    if live.is_known() {
        None
    } else if live.schema().keyspaces.is_empty() {
        Some("The schema could not be read: partitions are counted only if PREPARED results allow it.")
    } else {
        Some(
            "Only the part of the schema seen in the traffic is known: partitions of other tables are \
             counted only if PREPARED results allow it.",
        )
    }
}

/// Of a schema that there is no room for.
const CUT: &str = "The schema is larger than there is room for: partitions of the missing tables count as \
     unknown. Raise --memory to hold more of it.";

/// Of a report before there is anything to report.
const NO_WINDOW: &str = "there is no window yet";

fn bytes(window: &Window) -> usize {
    usize::try_from(window.bytes()).unwrap_or(usize::MAX)
}

/// The day on which acceptances are judged, the same everywhere.
pub(super) fn today(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

/// Which part of the report's memory the timeline has: what the limits of patterns and tables leave.
const TIMELINE_SHARE: usize = 16;

/// Clients that one window names in the log.
const MOST_NAMED: usize = 5;

/// How many tables of one window the log names; in so large a migration, the others are like them.
const MOST_REKEYED: usize = 20;

/// Says of a table that was re-created by a statement that was not seen (past the proxy, or not in the
/// capture) what was counted wrongly, perhaps.
fn rekeyed(table: &str) -> String {
    format!(
        "{table} was recreated with another partition key by a statement that was not seen here: requests \
         just before the new schema was read are counted by the old key."
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_report_since_the_start_has_the_windows_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let mut outputs = Outputs::open(
            Some((path.clone(), Format::Json)),
            Vec::new(),
            HashKey::random(),
            Judging::default(),
        )
        .unwrap();
        let live = Live::default();
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        outputs.begin(&live, "proxy-a", at(0)).unwrap();
        let mut points = Vec::new();
        for minute in [0, 1, 7] {
            let mut window = Window::new(at(minute), "proxy-a");
            window.close(at(minute + 1));
            outputs.window(window, &live, None);
            let report: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            points = report["timeline"]["points"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            assert_eq!(points.len(), if minute == 7 { 3 } else { 0 });
        }
        assert_eq!(points[2]["start"], "1970-01-01T00:07:00Z");
        assert!(live.memory().part(Use::Report).used() >= outputs.timeline.bytes());
    }
}

//! The thread that merges what is in the spool, writes it to the store and removes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use cqlens_fleet::{Store, StoreError, WindowName};
use cqlens_window::Detail;
use jiff::Timestamp;
use tokio::runtime::Runtime;

use super::{OpenStore, Order, SpoolSettings, lock_source};
use crate::sink::{
    SinkFigures,
    roll_up::merge_files,
    snapshot_file::{SnapshotFile, sources_in},
};

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// So often the folder is looked at, also where no window comes.
const LOOK: Duration = Duration::from_secs(10);

/// Windows end a little after their time.
const LATE: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    settings: SpoolSettings,
    open_store: OpenStore,
    figures: Arc<Mutex<SinkFigures>>,
    runtime: Runtime,
    store: Option<Store>,
    /// The sources whose files are this process's to write.
    locks: BTreeMap<String, File>,
    /// After a failure: when the next attempt is due, and how long the pause before it is.
    pause: Option<(Instant, Duration)>,
    /// Files lost since the log last said so.
    unsaid_losses: u64,
}

/// A file that waits.
struct Waiting {
    file: SnapshotFile,
    name: WindowName,
    /// The number of the span of time in which its window began.
    span: i64,
}

impl Worker {
    pub(super) fn new(
        settings: SpoolSettings,
        open_store: OpenStore,
        figures: Arc<Mutex<SinkFigures>>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            settings,
            open_store,
            figures,
            runtime,
            store: None,
            locks: BTreeMap::new(),
            pause: None,
            unsaid_losses: 0,
        })
    }

    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.recv_timeout(LOOK.min(self.left_of_pause().unwrap_or(LOOK))) {
                Ok(Order::Written(source, locked)) => {
                    self.locks.extend(locked.map(|locked| (source, locked)));
                    self.attempt(false);
                }
                Ok(Order::Flush(done)) => {
                    self.pause = None;
                    self.attempt(true);
                    // Who has waited long enough has gone.
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.attempt(false),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn left_of_pause(&self) -> Option<Duration> {
        self.pause
            .map(|(until, _)| until.saturating_duration_since(Instant::now()))
    }

    /// Writes what is due. A failure is logged once, and is tried again after a pause.
    fn attempt(&mut self, everything: bool) {
        self.keep_within_bytes();
        if self.left_of_pause().is_none_or(|left| left.is_zero()) {
            let written = self.write_due(everything);
            self.settle(written);
        }
        self.count_waiting();
    }

    fn write_due(&mut self, everything: bool) -> anyhow::Result<()> {
        for source in sources_in(&self.settings.folder)? {
            if !self.own(&source) {
                continue;
            }
            let due = self.due(&source, everything)?;
            for span in due {
                self.merge(&source, span)?;
                let waiting = self.waiting(&source)?;
                for file in waiting.into_iter().filter(|file| file.span == span) {
                    self.write(&file)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the files of a source are this process's to write: no other has them.
    fn own(&mut self, source: &str) -> bool {
        if !self.locks.contains_key(source) {
            match lock_source(&self.settings.folder, source) {
                Ok(Some(held)) => drop(self.locks.insert(source.to_owned(), held)),
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// The files of a source, by time.
    fn waiting(&self, source: &str) -> io::Result<Vec<Waiting>> {
        let every = i64::try_from(self.settings.every.as_millis())
            .unwrap_or(i64::MAX)
            .max(1);
        let files = SnapshotFile::of_source(source, &self.settings.folder)?;
        let mut waiting: Vec<_> = files
            .into_iter()
            .filter_map(|file| {
                let name: WindowName = file.path.file_name()?.to_str()?.parse().ok()?;
                let span = name.start().as_millisecond().div_euclid(every);
                Some(Waiting { file, name, span })
            })
            .collect();
        waiting.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(waiting)
    }

    /// The spans of time that are over, so that no window of them is still to come.
    fn due(&self, source: &str, everything: bool) -> io::Result<BTreeSet<i64>> {
        let spans: BTreeSet<_> = self.waiting(source)?.iter().map(|waiting| waiting.span).collect();
        let latest = spans.last().copied();
        let every = self.settings.every.as_millis();
        let late = (self.settings.window + LATE).as_millis();
        let now = u128::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let is_over = |span: i64| {
            let end = u128::try_from(span + 1).unwrap_or_default() * every;
            Some(span) != latest || end + late <= now
        };
        Ok(spans
            .into_iter()
            .filter(|span| everything || is_over(*span))
            .collect())
    }

    /// Makes one file of those of a span, as far as they can be one.
    fn merge(&self, source: &str, span: i64) -> io::Result<()> {
        let waiting = self.waiting(source)?;
        let begin = waiting.partition_point(|file| file.span < span);
        let end = waiting.partition_point(|file| file.span <= span);
        if end - begin < 2 {
            return Ok(());
        }
        let detail = match self.settings.every > Duration::from_secs(3600) {
            true => Detail::Day,
            false => Detail::Hour,
        };
        let files = waiting.into_iter().map(|waiting| waiting.file).collect();
        merge_files(
            &self.settings.folder,
            files,
            begin..end,
            detail,
            self.settings.limits,
        )
    }

    /// Writes a file to the store, and removes it.
    fn write(&mut self, waiting: &Waiting) -> anyhow::Result<()> {
        let bytes = Bytes::from(fs::read(&waiting.file.path)?);
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert((self.open_store)()?),
        };
        match self.runtime.block_on(store.put(&waiting.name, bytes)) {
            Err(StoreError::TooLarge) => {
                tracing::error!("sink: {} is too large for any sink and is left out", waiting.name);
                self.lose(1);
                fs::remove_file(&waiting.file.path)?;
            }
            written => {
                written?;
                fs::remove_file(&waiting.file.path)?;
                self.figures().written += 1;
            }
        }
        Ok(())
    }

    fn settle(&mut self, written: anyhow::Result<()>) {
        match written {
            Ok(()) => {
                if self.pause.take().is_some() {
                    let failures = self.figures().failures;
                    tracing::info!(failures, "sink: snapshots can be written again");
                }
            }
            Err(error) => {
                // Another connection, with files that are read again.
                self.store = None;
                self.figures().failures += 1;
                let pause = match self.pause {
                    Some((_, pause)) => LONGEST_PAUSE.min(pause * 2),
                    None => {
                        tracing::error!(
                            "sink: snapshots cannot be written and wait in {}: {error:#}",
                            self.settings.folder.display()
                        );
                        FIRST_PAUSE
                    }
                };
                self.pause = Some((Instant::now() + pause, pause));
            }
        }
    }

    /// Removes the oldest files of the sources that are this process's, beyond the limit of bytes.
    fn keep_within_bytes(&mut self) {
        let Ok(mut files) = self.files() else { return };
        files.sort_by(|one, other| one.stamp.cmp(&other.stamp));
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut lost = 0;
        for file in files {
            if bytes <= self.settings.bytes {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                bytes -= file.bytes;
                lost += 1;
            }
        }
        self.lose(lost);
    }

    fn lose(&mut self, lost: u64) {
        self.figures().lost += lost;
        if lost > 0 && self.unsaid_losses == 0 {
            tracing::error!(
                "sink: the spool is full (sink-spool-bytes), its oldest snapshots are lost and counted"
            );
        }
        self.unsaid_losses += lost;
        if lost == 0 && self.unsaid_losses > 0 && self.pause.is_none() {
            tracing::warn!(
                lost = self.unsaid_losses,
                "sink: snapshots were lost while the spool was full"
            );
            self.unsaid_losses = 0;
        }
    }

    /// The files that are this process's to write.
    fn files(&self) -> io::Result<Vec<SnapshotFile>> {
        let mut files = Vec::new();
        for source in self.locks.keys() {
            files.extend(SnapshotFile::of_source(source, &self.settings.folder)?);
        }
        Ok(files)
    }

    fn count_waiting(&self) {
        let files = self.files().unwrap_or_default();
        let mut figures = self.figures();
        figures.waiting = files.len() as u64;
        figures.waiting_bytes = files.iter().map(|file| file.bytes).sum();
    }

    fn figures(&self) -> MutexGuard<'_, SinkFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

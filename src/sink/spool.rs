//! Windows on their way to the store where those of the fleet come together.
//!
//! They wait in a folder, the spool, until their hour is over; then they are merged into one file, written to the store, and
//! removed. While the store cannot be reached they stay, up to a limit of bytes; beyond it the oldest go and are counted. What a
//! process leaves there, the next one writes. Since names stay what they are, a window that is written twice is kept once.
//!
//! A thread of its own does this. Who hands it a window waits for its file, never for the store.

mod worker;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use cqlens_fleet::Store;
use cqlens_window::{Limits, Snapshot, SnapshotError};

use super::{Retention, SinkFigures, SnapshotDir, file::lock, remove_leftovers, snapshot_file::part_of_name};
use worker::Worker;

/// How windows wait and when they are written.
pub struct SpoolSettings {
    /// The folder.
    pub folder: PathBuf,
    /// The files of this process's source in it may take up so many bytes.
    pub bytes: u64,
    /// Windows that began in the same such span of UTC are merged into one.
    pub every: Duration,
    /// How long a window is: one that began in a span of time is finished so much after its end.
    pub window: Duration,
    /// How much a merged window holds.
    pub limits: Limits,
}

/// Opens the store, again after each failure: passwords and certificates may have changed.
pub type OpenStore = Box<dyn Fn() -> anyhow::Result<Store> + Send>;

/// A spool and its thread.
#[derive(Debug)]
pub struct Spool {
    folder: SnapshotDir,
    orders: Sender<Order>,
    figures: Arc<Mutex<SinkFigures>>,
}

/// What the thread is to do.
enum Order {
    /// A window of this source was put into the folder. With the lock of the source, where it was not locked before.
    Written(String, Option<File>),
    /// Write everything, whether its hour is over or not, and say when that is done.
    Flush(Sender<()>),
}

impl Spool {
    /// Opens the folder, creating it where it is missing, and begins to write what is in it.
    ///
    /// # Errors
    /// A folder that cannot be created or written, a thread that cannot be had.
    pub fn open(settings: SpoolSettings, open_store: OpenStore) -> io::Result<Self> {
        let folder = SnapshotDir::open(&settings.folder, Retention::default())?;
        remove_leftovers(&settings.folder);
        let figures = Arc::default();
        let (orders, ordered) = mpsc::channel();
        let worker = Worker::new(settings, open_store, Arc::clone(&figures))?;
        thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || worker.run(&ordered))?;
        Ok(Self {
            folder,
            orders,
            figures,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a window into the folder.
    ///
    /// # Errors
    /// Any error of writing; a half-written file is never left.
    pub fn add(&self, snapshot: &mut Snapshot) -> Result<(), SnapshotError> {
        let source = part_of_name(snapshot.window.sources.first().map_or("", String::as_str));
        // First: other processes that share the spool write the files of every source that is not locked.
        let locked = lock_source(self.path(), &source)?;
        self.folder.write(snapshot)?;
        // A thread that has gone has said so.
        let _ = self.orders.send(Order::Written(source, locked));
        Ok(())
    }

    /// Writes everything to the store, as far as that is possible within `patience`. What is not written then waits for the
    /// next process.
    pub fn flush(&self, patience: Duration) {
        let (done, is_done) = mpsc::channel();
        let _ = self.orders.send(Order::Flush(done));
        let _ = is_done.recv_timeout(patience);
        let waiting = self.figures().waiting;
        if waiting > 0 {
            let folder = self.path().display();
            tracing::warn!(waiting, %folder, "the sink does not have all snapshots: the others wait for the next start");
        }
    }

    /// How it is.
    pub fn figures(&self) -> SinkFigures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the files of a source, so that no other process writes them; none where they are locked already.
fn lock_source(spool: &Path, source: &str) -> io::Result<Option<File>> {
    lock(&spool.join(format!(".sink-{source}.lock")))
}

#[cfg(test)]
mod tests;

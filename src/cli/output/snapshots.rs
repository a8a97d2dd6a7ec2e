//! Writes the snapshots of windows, also while the report waits.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Context;

use crate::sink::SnapshotDir;
#[cfg(feature = "fleet")]
use crate::sink::Spool;
use cqlens_audit::{audit::HashKey, catalog::Live};
use cqlens_window::{Cluster, Snapshot, Window};

/// Writes snapshots. Its clones write to the same folders, also while a report is being written.
#[derive(Debug, Clone)]
pub(in crate::cli) struct SnapshotWriter {
    pub(super) folders: Arc<Mutex<Vec<Arc<SnapshotDir>>>>,
    /// Where windows wait for the sink.
    #[cfg(feature = "fleet")]
    pub(super) spool: Option<Arc<Spool>>,
    pub(super) key: HashKey,
    /// Those of reports too: the log has one line for all.
    pub(super) failures: WriteFailures,
}

/// Outputs that could not be written, since the last one that could: the first of them is logged, further ones are counted.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct WriteFailures(Arc<AtomicU64>);

impl WriteFailures {
    pub(super) fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One could not be written.
    pub(in crate::cli) fn count(&self, error: &anyhow::Error) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("{error:#}: everything else continues, further failures are only counted");
        }
    }

    /// Everything could be written.
    pub(super) fn end(&self) {
        let failures = self.0.swap(0, Ordering::Relaxed);
        if failures > 0 {
            tracing::info!(failures, "snapshots and reports can be written again");
        }
    }
}

impl SnapshotWriter {
    /// What could not be written.
    pub(in crate::cli) fn failures(&self) -> &WriteFailures {
        &self.failures
    }

    /// Whether there is a folder, or a sink.
    pub(in crate::cli) fn keeps_windows(&self) -> bool {
        #[cfg(feature = "fleet")]
        if self.spool.is_some() {
            return true;
        }
        !self.folders().is_empty()
    }

    /// Writes the window to each folder, and for the sink; one that cannot be written costs the others nothing.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(in crate::cli) fn write(&self, window: Window, live: &Live) -> anyhow::Result<()> {
        if !self.keeps_windows() {
            return Ok(());
        }
        let mut snapshot = Snapshot::new(window, cluster(live), live.schema().to_cql(), self.key.id());
        let folders = self.folders().into_iter();
        let written: Vec<_> = folders
            .map(|folder| folder.write(&mut snapshot).map(drop))
            .collect();
        #[cfg(feature = "fleet")]
        let written = written
            .into_iter()
            .chain(self.spool.as_ref().map(|spool| spool.add(&mut snapshot)));
        let written: Result<Vec<_>, _> = written.into_iter().collect();
        written.map(drop).context("cannot write a snapshot")
    }

    fn folders(&self) -> Vec<Arc<SnapshotDir>> {
        self.folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What is known of the cluster, as snapshots and reports have it.
pub(super) fn cluster(live: &Live) -> Cluster {
    let cluster = live.cluster();
    Cluster {
        name: cluster.name.clone(),
        release_version: cluster.release_version.clone(),
        product: cluster.product,
        product_version: cluster.product_version.clone(),
        partitioner: cluster.partitioner.clone(),
        nodes: (!cluster.nodes.is_empty()).then_some(cluster.nodes.len()),
        data_centers: cluster.data_centers(),
        is_embedded: false,
    }
}

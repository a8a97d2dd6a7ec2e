//! The status of a running proxy for its admin listener: counters and settings, read
//! without waiting for any thread.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::{
    super::{log, settings::Settings},
    reach::Reach,
    watchdog::ThreadHealth,
};
use cqlens_admin::{Admin, AdminOrder, AuditStatus, ControlConnection, ListenerStatus, ReadyState, Status};
use cqlens_audit::{capture::Queue, catalog::Live, memory::Use};
use cqlens_proxy::AdmissionControl;

/// The parts of the status.
pub(super) struct Health {
    /// Replaced when the process begins to end.
    pub(super) state: ArcSwap<(ReadyState, Timestamp)>,
    /// Replaced when they change.
    pub(super) settings: ArcSwap<Settings>,
    /// Where clients connect: an address, or a rule for several.
    pub(super) listening: String,
    /// Where their connections go, or the contact points that say so.
    pub(super) upstream: ArcSwap<String>,
    /// All listeners, where there may be several.
    pub(super) listeners: ArcSwap<Vec<ListenerStatus>>,
    /// What keeps nodes from having theirs.
    pub(super) problems: ArcSwap<Vec<String>>,
    pub(super) reach: ArcSwap<Reach>,
    pub(super) admission: AdmissionControl,
    pub(super) live: Arc<Live>,
    pub(super) watch: Arc<ThreadHealth>,
    /// Windows that were longer than they were to be, because those before them could not be written in time.
    pub(super) postponed: Arc<AtomicU64>,
    pub(super) queue: Arc<Queue>,
}

impl Health {
    /// The process is in `state` from now on.
    pub(super) fn turn(&self, state: ReadyState) {
        self.state.store(Arc::new((state, Timestamp::now())));
    }

    /// What a reader of reports must know of traffic that does not come this way.
    pub(super) fn bypass(&self) -> Option<String> {
        self.reach.load().notice(&self.live.cluster())
    }

    fn status(&self) -> Status {
        let (state, since) = **self.state.load();
        let backlog = self.queue.backlog();
        let memory = self.live.memory();
        memory.part(Use::Queue).set(backlog.bytes);
        Status {
            state,
            since,
            listen: self.listening.clone(),
            upstream: self.upstream.load().to_string(),
            listeners: self.listeners.load().to_vec(),
            problems: [self.problems.load().to_vec(), self.admission.outages()].concat(),
            bypass: self.bypass(),
            connections: self.admission.open(),
            control_connection: match (self.live.is_followed(), self.live.is_synced()) {
                (false, _) => ControlConnection::Off,
                (true, false) => ControlConnection::Trying,
                (true, true) => ControlConnection::Open,
            },
            control_connection_error: self.live.trouble().map(|trouble| trouble.to_string()),
            schema_known: self.live.is_known(),
            log_lines_dropped: log::dropped(),
            audit: AuditStatus {
                waiting_chunks: backlog.chunks,
                waiting_bytes: backlog.bytes,
                dropped_bytes: backlog.dropped_bytes,
                postponed_windows: self.postponed.load(Ordering::Relaxed),
            },
            threads: self.watch.threads(),
            memory: memory.status(),
        }
    }
}

/// What the admin listener needs; orders go to `orders`.
pub(super) fn admin(health: &Arc<Health>, orders: mpsc::Sender<AdminOrder>) -> Admin {
    let (of_status, of_settings) = (Arc::clone(health), Arc::clone(health));
    let watch = Arc::clone(&health.watch);
    Admin {
        is_alive: Box::new(move || watch.is_well()),
        status: Box::new(move || of_status.status()),
        settings: Box::new(move || of_settings.settings.load().to_string()),
        orders,
    }
}

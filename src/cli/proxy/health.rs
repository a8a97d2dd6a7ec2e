//! The status of a running proxy for its admin listener: counters and settings, read
//! without waiting for any thread.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::mpsc;

#[cfg(feature = "otlp")]
use super::otlp::ExportCounts;
use super::{
    super::{
        log::{self, Log},
        settings::Settings,
        tls::Tls,
        traffic_feed::Published,
    },
    access::Access,
    direct::{Direct, DirectClients},
    reach::Reach,
    usage::usage,
    watchdog::ThreadHealth,
};
use crate::metrics::{Metrics, Process};
use cqlens_admin::{Admin, AdminOrder, AuditStatus, ControlConnection, ListenerStatus, ReadyState, Status};
use cqlens_audit::catalog::Live;
use cqlens_capture::{Queue, memory::Use};
use cqlens_proto::envelope::Direction;
use cqlens_proxy::AdmissionControl;
use cqlens_rehearse::left_out::{LeftOut, LeftOutCounts};

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
    pub(super) direct: Arc<DirectClients>,
    pub(super) admission: AdmissionControl,
    pub(super) live: Arc<Live>,
    pub(super) watch: Arc<ThreadHealth>,
    /// Windows that were longer than they were to be, because those before them could not be written in time.
    pub(super) postponed: Arc<AtomicU64>,
    /// Reports that were abandoned, because they were not done in time.
    pub(super) abandoned: Arc<AtomicU64>,
    pub(super) queue: Arc<Queue>,
    /// Replaced when its settings change.
    pub(super) tls: ArcSwap<Tls>,
    /// What a recording lacks, if there is one.
    pub(super) recording_left_out: Option<Arc<LeftOutCounts>>,
    pub(super) access: Arc<Access>,
    pub(super) log: Log,
    /// What all windows have counted.
    pub(super) traffic: Published,
    /// When the process began.
    pub(super) began: Timestamp,
    /// What became of exports to a collector.
    #[cfg(feature = "otlp")]
    pub(super) otlp: ExportCounts,
}

impl Health {
    /// The process is in `state` from now on.
    pub(super) fn turn(&self, state: ReadyState) {
        self.state.store(Arc::new((state, Timestamp::now())));
    }

    /// What a reader of reports must know of traffic that does not come this way.
    pub(super) fn bypass(&self) -> Option<String> {
        let cluster = self.live.cluster();
        let possible = self.reach.load().notice(&cluster);
        match (self.direct.found(), possible) {
            (Direct::Clients(found), _) => Some(found),
            // The control connection asks one node only.
            (Direct::NoClients, _) if cluster.nodes.len() == 1 => None,
            (_, possible) => possible,
        }
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
                abandoned_reports: self.abandoned.load(Ordering::Relaxed),
            },
            threads: self.watch.threads(),
            memory: memory.status(),
        }
    }

    pub(super) fn metrics(&self) -> Metrics {
        Metrics {
            traffic: self.traffic.load_full(),
            process: Process {
                status: self.status(),
                max_connections: self.admission.policy().max_connections,
                requests: self.queue.forwarding().of(Direction::Request),
                responses: self.queue.forwarding().of(Direction::Response),
                recording_left_out: self.recording_left_out.as_deref().map(losses),
                nodes_down: self.admission.outages().len(),
                certificates: [self.tls.load().certificates(), self.access.certificates()].concat(),
                usage: usage(self.began),
                #[cfg(feature = "otlp")]
                exports: self.otlp.counted(),
                #[cfg(not(feature = "otlp"))]
                exports: None,
            },
        }
    }
}

/// The requests that another cluster would lack, by reason.
fn losses(counts: &LeftOutCounts) -> Vec<(&'static str, u64)> {
    let reasons = LeftOut::ALL.into_iter().filter(|reason| reason.is_loss());
    reasons.map(|reason| (reason.name(), counts.of(reason))).collect()
}

/// What the admin listener needs; orders go to `orders`.
pub(super) fn admin(health: &Arc<Health>, orders: mpsc::Sender<AdminOrder>) -> Admin {
    let (of_status, of_settings, of_metrics) = (Arc::clone(health), Arc::clone(health), Arc::clone(health));
    let (log, access) = (health.log.clone(), Arc::clone(&health.access));
    let watch = Arc::clone(&health.watch);
    Admin {
        is_alive: Box::new(move || watch.is_well()),
        status: Box::new(move || of_status.status()),
        settings: Box::new(move || of_settings.settings.load().to_string()),
        metrics: Box::new(move |exposition| of_metrics.metrics().expose(exposition)),
        log_level: Box::new(move || log.level()),
        token: Box::new(move || access.token()),
        orders,
    }
}

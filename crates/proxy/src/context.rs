//! What all connections of a listener share.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedSemaphorePermit,
};

use super::{
    AdmissionControl, Route, Transparent,
    admission::ListenerAdmission,
    refusal::{self, RefusalReason},
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue};

/// A proxy behind one listener. Its clones are the same one.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// Where the next connections go; replaced when settings change.
    pub route: Arc<ArcSwap<Route>>,
    pub(super) queue: Arc<Queue>,
    pub(super) clock: Clock,
    connections: Arc<AtomicU64>,
    pub(super) admission: ListenerAdmission,
    pub(super) transparent: Option<Arc<Transparent>>,
}

impl Proxy {
    /// A proxy that hands captures to `queue`, with an admission control of its own and the default
    /// [`Policy`](super::Policy).
    pub fn new(route: Route, queue: Arc<Queue>, clock: Clock) -> Self {
        Self {
            route: Arc::new(ArcSwap::from_pointee(route)),
            queue,
            clock,
            connections: Arc::default(),
            admission: AdmissionControl::default().for_listener(),
            transparent: None,
        }
    }

    /// The proxy of another listener, with a route and a count of connections of its own. All else is shared.
    #[must_use]
    pub fn to(&self, route: Route) -> Self {
        Self {
            route: Arc::new(ArcSwap::from_pointee(route)),
            admission: self.admission.for_another_listener(),
            ..self.clone()
        }
    }

    /// Connects each client to its original destination, before it was redirected here,
    /// instead of the route's upstream.
    #[must_use]
    pub fn transparent(self, transparent: &Arc<Transparent>) -> Self {
        Self {
            transparent: Some(Arc::clone(transparent)),
            ..self
        }
    }

    /// Admits clients under `admission`, which other proxies may share.
    #[must_use]
    pub fn admitted_by(self, admission: &AdmissionControl) -> Self {
        Self {
            admission: admission.for_listener(),
            ..self
        }
    }

    /// The next connection, as the audit knows it.
    pub(super) fn connection(&self, client: SocketAddr) -> Connection {
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        Connection::new(ConnectionId(id), client)
    }

    /// Counts and logs a refusal.
    pub(super) fn record_refusal(&self, client: SocketAddr, reason: &RefusalReason) {
        self.admission.refusals().record(client, reason, &self.queue);
    }

    /// Permission to answer a refused client; none if too many refused clients are being answered.
    pub(super) fn try_acquire_answer(&self) -> Option<OwnedSemaphorePermit> {
        self.admission.refusals().try_acquire_answer()
    }

    /// Refuses a client whose `stream` is ready for an answer.
    pub(super) async fn refuse(
        &self,
        client: SocketAddr,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        reason: &RefusalReason,
    ) {
        self.record_refusal(client, reason);
        if let Some(_permit) = self.try_acquire_answer() {
            refusal::answer(stream, reason).await;
        }
    }
}

//! What a running proxy says of itself on its admin listener: counters and settings, read without asking anybody.

use std::{net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::super::settings::Settings;
use crate::{
    capture::Queue,
    catalog::Live,
    proxy::{Gate, Route},
    sink::admin::{Admin, AuditStatus, ControlConnection, Order, State, Status},
};

/// All that can be told.
pub(super) struct Health {
    /// Replaced when the process begins to end.
    pub(super) state: ArcSwap<(State, Timestamp)>,
    /// Replaced when they change.
    pub(super) settings: ArcSwap<Settings>,
    pub(super) listening: SocketAddr,
    pub(super) route: Arc<ArcSwap<Route>>,
    pub(super) gate: Gate,
    pub(super) live: Arc<Live>,
    pub(super) queue: Arc<Queue>,
}

impl Health {
    /// The process is in `state` from now on.
    pub(super) fn turn(&self, state: State) {
        self.state.store(Arc::new((state, Timestamp::now())));
    }

    fn status(&self) -> Status {
        let (state, since) = **self.state.load();
        let backlog = self.queue.backlog();
        Status {
            state,
            since,
            listen: self.listening.to_string(),
            upstream: self.route.load().upstream.clone(),
            connections: self.gate.open(),
            control_connection: match (self.live.is_followed(), self.live.is_in_step()) {
                (false, _) => ControlConnection::Off,
                (true, false) => ControlConnection::Trying,
                (true, true) => ControlConnection::Open,
            },
            schema_known: self.live.is_known(),
            audit: AuditStatus {
                waiting_chunks: backlog.chunks,
                waiting_bytes: backlog.bytes,
                dropped_bytes: backlog.dropped_bytes,
            },
        }
    }
}

/// What the admin listener needs; orders go to `orders`.
pub(super) fn admin(health: &Arc<Health>, orders: mpsc::Sender<Order>) -> Admin {
    let (of_status, of_settings) = (Arc::clone(health), Arc::clone(health));
    Admin {
        status: Box::new(move || of_status.status()),
        settings: Box::new(move || of_settings.settings.load().to_string()),
        orders,
    }
}

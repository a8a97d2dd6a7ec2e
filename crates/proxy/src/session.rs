//! One client and the node that it talks to, while bytes pass between them.

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cqlens_proto::envelope::Direction;

use super::{
    Drain, Policy, Proxy, Route,
    admission::ConnectionPermit,
    backpressure::BackpressureWriter,
    close::{close_gently, reset},
    duplex::{Next, both, until_interrupted},
    idle,
    login::LoginDeadline,
    notices::Notice,
    own::OwnConnection,
    pump::{Ended, FailedSide},
    refusal::RefusalReason,
    rewrite_mode::{RewriteAddresses, RewriteMode, Verbatim},
    socket::{Socket, SplitSocket},
    topology::Shared,
    transparent::LocalUpstreamAddr,
    wake_flag::WakeFlag,
};
use crate::tls;
use cqlens_capture::{Connection, Tap, TlsFailure};

/// An open connection: everything but its two sockets.
pub(super) struct Session {
    pub(super) connection: Arc<Connection>,
    pub(super) proxy: Proxy,
    pub(super) drain: Drain,
    pub(super) policy: Arc<Policy>,
    pub(super) route: Arc<Route>,
    /// Counts the connection until it ends.
    pub(super) _permit: ConnectionPermit,
    /// Boxed, because only a transparent proxy needs one.
    pub(super) _local_addr: Option<Box<LocalUpstreamAddr>>,
    /// By which a connection of cqlens to itself is found: those of the client and of the node.
    pub(super) _own: Box<[Option<OwnConnection>; 2]>,
}

impl Session {
    /// Forwards until both directions have ended, one of them has failed, or a deadline or the drain ends the
    /// connection.
    pub(super) async fn forward(self, client: Socket, upstream: Socket) {
        tracing::debug!(connection = self.connection.id.0, client = %self.connection.client, "connection opened");
        let ended = match &self.route.topology {
            None => self.connect(client, upstream, Verbatim).await,
            // Boxed, so that connections with nothing to rewrite keep no room for it.
            Some(pairing) => {
                let shared = Shared::new(pairing.clone());
                Box::pin(self.connect(client, upstream, RewriteAddresses(&shared))).await
            }
        };
        self.report(&ended);
        self.connection.close(self.proxy.clock.now());
    }

    /// Logs and counts how the connection ended.
    fn report(&self, ended: &Ended) {
        let (connection, client) = (self.connection.id.0, self.connection.client);
        tracing::debug!(connection, %client, %ended, bytes = self.connection.bytes(), "connection closed");
        let failure = tls_failure(ended);
        let notice = match (ended, failure) {
            (Ended::Unreadable(_), _) => Some(Notice::Unreadable),
            (_, Some(TlsFailure::Upstream)) => Some(Notice::UpstreamTls),
            (_, Some(_)) => Some(Notice::ClientTls),
            _ => None,
        };
        if let Some(notice) = notice {
            self.proxy.admission.notices().say(notice, || {
                tracing::warn!(connection, %client, upstream = %self.route.upstream, "{ended}");
            });
        }
        if let Some(failure) = failure {
            self.proxy.queue.count_tls_failure(failure);
        }
        if let (Ended::NoLogin, Some(timeout)) = (ended, self.policy.login_timeout) {
            self.proxy
                .record_refusal(client, &RefusalReason::NoLogin(timeout));
        }
    }

    /// Boxed where there is TLS, so that plain connections keep no room for it.
    async fn connect(&self, client: Socket, upstream: Socket, mode: impl RewriteMode) -> Ended {
        match (client, upstream) {
            (Socket::Plain(client), Socket::Plain(upstream)) => self.pump_both(client, upstream, mode).await,
            (Socket::Plain(client), Socket::Tls(upstream)) => {
                Box::pin(self.pump_both(client, upstream, mode)).await
            }
            (Socket::Tls(client), Socket::Plain(upstream)) => {
                Box::pin(self.pump_both(client, upstream, mode)).await
            }
            (Socket::Tls(client), Socket::Tls(upstream)) => {
                Box::pin(self.pump_both(client, upstream, mode)).await
            }
        }
    }

    async fn pump_both<C: SplitSocket, U: SplitSocket>(
        &self,
        mut client: C,
        mut upstream: U,
        mode: impl RewriteMode,
    ) -> Ended {
        let flags = [(); 2].map(|()| WakeFlag::new(C::HALVES_WAKE_APART && U::HALVES_WAKE_APART));
        let ended = {
            let (client_read, client_write) = client.halves();
            let (upstream_read, upstream_write) = upstream.halves();
            let requests = mode.requests(client_read, upstream_write, self.tap(Direction::Request));
            let (over, is_blocked) = (AtomicBool::new(false), AtomicBool::new(false));
            let client_write = BackpressureWriter::new(client_write, &is_blocked);
            let mut responses =
                pin!(mode.responses(upstream_read, client_write, self.tap(Direction::Response)));
            let forwarded = both(requests, responses.as_mut(), &flags, &over, || self.abandoned());
            let may_be_interrupted = || self.policy.idle_timeout.is_some() || self.drain.has_begun();
            let login = LoginDeadline::new(&self.connection, self.policy.login_timeout);
            let interrupted = self.interrupted(&is_blocked);
            match until_interrupted(forwarded, interrupted, may_be_interrupted, login).await {
                Next::End(ended) => ended,
                // The pump of requests is gone: cqlens reads nothing more from the client.
                Next::LastResponses if !over.load(Ordering::Relaxed) => tokio::select! {
                    () = self.drain.last_responses(&self.connection, &is_blocked) => Ended::Drained,
                    _ended = responses => Ended::Drained,
                },
                Next::LastResponses => Ended::Drained,
            }
        };
        match ended.reset_by() {
            Some(FailedSide::Client) => reset(upstream.tcp()),
            Some(FailedSide::Upstream) => reset(client.tcp()),
            None if ended.is_ours() => close_gently(&mut client).await,
            None => {}
        }
        ended
    }

    /// Waits until the drain or the idle timeout ends the connection. `is_blocked` says whether a response
    /// waits for the client to take it.
    async fn interrupted(&self, is_blocked: &AtomicBool) -> Next {
        let Some(timeout) = self.policy.idle_timeout else {
            return self.drain.step(&self.connection, is_blocked).await.into();
        };
        // Boxed, because few connections have one.
        let idle = Box::pin(idle::reached(&self.connection, timeout));
        tokio::select! {
            step = self.drain.step(&self.connection, is_blocked) => step.into(),
            () = idle => Next::End(Ended::Idle),
        }
    }

    /// Waits until nothing has passed for too long on a connection one of whose sides has finished.
    async fn abandoned(&self) {
        match self.policy.half_closed_timeout {
            Some(timeout) => idle::reached(&self.connection, timeout).await,
            None => pending().await,
        }
    }

    fn tap(&self, direction: Direction) -> Tap {
        Tap::new(
            Arc::clone(&self.connection),
            direction,
            Arc::clone(&self.proxy.queue),
            self.proxy.clock,
        )
    }
}

/// The side whose TLS ended a connection, if TLS did: an alert, or a record that was damaged on its way.
///
/// With TLS 1.3, this is how a node refuses the certificate of cqlens.
fn tls_failure(ended: &Ended) -> Option<TlsFailure> {
    let (Ended::ReadFailed(side, error) | Ended::WriteFailed(side, error)) = ended else {
        return None;
    };
    tls::is_failure(error).then_some(match side {
        FailedSide::Client => TlsFailure::Client,
        FailedSide::Upstream => TlsFailure::Upstream,
    })
}

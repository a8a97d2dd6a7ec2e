//! From an accepted socket to a connection that is forwarded: who it is, and whether it may come in.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::TcpStream;

use super::{
    Drain, Policy, Proxy, Route,
    admission::{Full, Seat},
    keepalive, proxy_header,
    proxy_header::{HeaderFault, Origin},
    refusal::{self, Refused},
};
use crate::timers::timeout;

/// A client that has just been accepted.
pub(super) struct Guest {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) policy: Arc<Policy>,
    pub(super) route: Arc<Route>,
}

/// A client that is in.
pub(super) struct Visit {
    pub(super) socket: TcpStream,
    pub(super) origin: Origin,
    pub(super) policy: Arc<Policy>,
    pub(super) route: Arc<Route>,
    pub(super) seat: Seat,
}

/// A load balancer sends its header with the first packet.
const HEADER_PATIENCE: Duration = Duration::from_secs(5);

impl Guest {
    /// Finds out who it is, and takes the `seat` if it may; none if nothing is to be forwarded, which has been said.
    pub(super) async fn enter(mut self, mut seat: Seat, proxy: &Proxy, drain: &Drain) -> Option<Visit> {
        keepalive::set(&self.socket, &self.policy);
        let origin = if self.policy.accept_proxy_protocol {
            tokio::select! {
                // What has come is read first, however busy the thread was meanwhile.
                biased;
                introduced = self.introduction() => match introduced {
                    Ok(origin) => origin,
                    Err(fault) => return self.dismiss(&fault, proxy),
                },
                () = drain.dismisses() => return None,
            }
        } else {
            Origin::of(self.peer)
        };
        if let Err(full) = seat.claim(origin.client.ip(), &self.policy) {
            drop(seat);
            self.turn_away(origin.client, full, proxy).await;
            return None;
        }
        Some(Visit {
            socket: self.socket,
            origin,
            policy: self.policy,
            route: self.route,
            seat,
        })
    }

    /// Tells it that there is no room; if many are being told, it is only closed.
    pub(super) fn refuse(mut self, full: Full, proxy: &Proxy) {
        let refusals = proxy.entrance.refusals();
        let Some(permit) = refusals.answer() else {
            refusals.note(self.peer, &Refused::Full(full), &proxy.queue);
            return;
        };
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let introduced = match self.policy.accept_proxy_protocol {
                true => self.introduction().await,
                false => Ok(Origin::of(self.peer)),
            };
            let refused = Refused::Full(full);
            let client = introduced.as_ref().map_or(self.peer, |origin| origin.client);
            proxy.entrance.refusals().note(client, &refused, &proxy.queue);
            if introduced.is_ok() {
                self.tell(&refused).await;
            }
            drop(permit);
        });
    }

    async fn turn_away(self, client: SocketAddr, full: Full, proxy: &Proxy) {
        let refused = Refused::Full(full);
        let refusals = proxy.entrance.refusals();
        refusals.note(client, &refused, &proxy.queue);
        if let Some(_permit) = refusals.answer() {
            self.tell(&refused).await;
        }
    }

    /// Answers its first request, inside TLS where all clients speak it.
    async fn tell(mut self, refused: &Refused) {
        let Some(acceptor) = &self.route.client_tls else {
            return refusal::answer(&mut self.socket, refused).await;
        };
        if let Ok(Ok(mut stream)) = timeout(refusal::PATIENCE, acceptor.accept(self.socket)).await {
            refusal::answer(&mut stream, refused).await;
        }
    }

    /// Reads the header of the PROXY protocol.
    async fn introduction(&mut self) -> Result<Origin, HeaderFault> {
        let reading = proxy_header::read(&mut self.socket, self.peer);
        timeout(HEADER_PATIENCE, reading)
            .await
            .unwrap_or(Err(HeaderFault::Slow(HEADER_PATIENCE)))
    }

    /// There is no way to tell it: what it speaks is not known. As the protocol's specification asks.
    fn dismiss(&self, fault: &HeaderFault, proxy: &Proxy) -> Option<Visit> {
        if matches!(fault, HeaderFault::Gone | HeaderFault::Io(_)) {
            tracing::debug!(peer = %self.peer, "client has gone: {fault}");
        } else {
            let refused = Refused::NoProxyHeader(fault.to_string());
            proxy.entrance.refusals().note(self.peer, &refused, &proxy.queue);
        }
        None
    }
}

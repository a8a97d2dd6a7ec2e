//! From an accepted socket to a connection that is forwarded: whether it may come in.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpStream, time::timeout};

use super::{
    Policy, Proxy,
    gate::{Full, Seat},
    keepalive,
    refusal::{self, Refused},
};

/// A client that has just been accepted.
pub(super) struct Guest {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) policy: Arc<Policy>,
}

/// A client that is in.
pub(super) struct Visit {
    pub(super) socket: TcpStream,
    pub(super) client: SocketAddr,
    pub(super) policy: Arc<Policy>,
    pub(super) seat: Seat,
}

impl Guest {
    /// Takes the `seat` if it may; none if nothing is to be forwarded, which has been said.
    pub(super) async fn enter(self, mut seat: Seat, proxy: &Proxy) -> Option<Visit> {
        keepalive::set(&self.socket, &self.policy);
        if let Err(full) = seat.claim(self.peer.ip(), &self.policy) {
            drop(seat);
            self.turn_away(full, proxy).await;
            return None;
        }
        Some(Visit {
            socket: self.socket,
            client: self.peer,
            policy: self.policy,
            seat,
        })
    }

    /// Tells it that there is no room; if many are being told, it is only closed.
    pub(super) fn refuse(self, full: Full, proxy: &Proxy) {
        let refusals = proxy.entrance.refusals();
        let Some(permit) = refusals.answer() else {
            refusals.note(self.peer, &Refused::Full(full), &proxy.queue);
            return;
        };
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let refused = Refused::Full(full);
            proxy.entrance.refusals().note(self.peer, &refused, &proxy.queue);
            self.tell(&refused, &proxy).await;
            drop(permit);
        });
    }

    async fn turn_away(self, full: Full, proxy: &Proxy) {
        let refused = Refused::Full(full);
        let refusals = proxy.entrance.refusals();
        refusals.note(self.peer, &refused, &proxy.queue);
        if let Some(_permit) = refusals.answer() {
            self.tell(&refused, proxy).await;
        }
    }

    /// Answers its first request, inside TLS where all clients speak it.
    async fn tell(mut self, refused: &Refused, proxy: &Proxy) {
        let Some(acceptor) = &proxy.route.client_tls else {
            return refusal::answer(&mut self.socket, refused).await;
        };
        if let Ok(Ok(mut stream)) = timeout(refusal::PATIENCE, acceptor.accept(self.socket)).await {
            refusal::answer(&mut stream, refused).await;
        }
    }
}

//! The data path: accepts clients, pairs each with a connection to the upstream, and moves bytes.
//!
//! What is absent on purpose: decoding, rewriting (but for [`topology`], where the operator asks for it), and any wait for the audit.

mod accept;
mod arrival;
mod backlog;
mod chunks;
mod connection;
mod drain;
mod gate;
mod idle;
mod keepalive;
mod login;
mod networks;
mod notices;
mod path;
mod policy;
mod proxy_header;
mod pump;
mod rate;
mod refusal;
mod resolve;
mod socket;
pub mod topology;
mod transparent;
mod turns;
mod upstreams;
mod watched;
mod workers;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::net::{TcpListener, TcpStream};

use crate::tls::{Acceptor, Connector};
use cqlens_audit::capture::{Clock, Connection, ConnectionId, Queue};

use accept::AcceptErrors;
use arrival::Guest;
pub use drain::{Drain, DrainSwitch, Drained};
use gate::Entrance;
pub use gate::Gate;
pub use networks::ClientNetworks;
use notices::Notice;
pub use policy::Policy;
pub use proxy_header::LOCAL as PROXY_PROTOCOL_LOCAL;
pub use refusal::ANSWERED_AT_A_TIME as REFUSALS_AT_A_TIME;
use topology::Pairing;
pub use transparent::{Transparent, is_local};
pub use workers::Workers;

/// Where connections go, and how.
#[derive(Debug, Clone)]
pub struct Route {
    /// The node, as `host:port`; resolved for each connection, so that a name may change its address.
    pub upstream: String,
    /// How long to wait for the node to accept a connection, TLS included.
    pub connect_timeout: Duration,
    /// TLS to clients; none means plain connections.
    pub client_tls: Option<Acceptor>,
    /// TLS to the node; none means plain connections.
    pub upstream_tls: Option<Connector>,
    /// Which addresses clients are shown; none means that nothing is rewritten.
    pub topology: Option<Pairing>,
    /// What ends the connections of this route, where that is not what ends their listener.
    pub drain: Option<Drain>,
}

/// What all connections of a process share.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// Where the next connections go; replaced when settings change.
    pub route: Arc<ArcSwap<Route>>,
    queue: Arc<Queue>,
    clock: Clock,
    connections: Arc<AtomicU64>,
    entrance: Entrance,
    transparent: Option<Arc<Transparent>>,
}

/// What becomes of clients that wait to be accepted when the proxy stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// They are served: nobody else will.
    Served,
    /// They are left for whoever has the same listening socket: whoever gave it to this process, and a successor.
    Left,
}

impl Proxy {
    /// A proxy that hands captures to `queue`, and lets clients in as [`Policy`] has it by default.
    pub fn new(route: Route, queue: Arc<Queue>, clock: Clock) -> Self {
        Self {
            route: Arc::new(ArcSwap::from_pointee(route)),
            queue,
            clock,
            connections: Arc::default(),
            entrance: Gate::default().entrance(),
            transparent: None,
        }
    }

    /// The same for another listener, whose connections go elsewhere, and are counted apart as well.
    #[must_use]
    pub fn to(&self, route: Route) -> Self {
        Self {
            route: Arc::new(ArcSwap::from_pointee(route)),
            entrance: self.entrance.another(),
            ..self.clone()
        }
    }

    /// Connects each client to where it was going when it was redirected here, instead of to the route's upstream.
    #[must_use]
    pub fn transparent(self, transparent: &Arc<Transparent>) -> Self {
        Self {
            transparent: Some(Arc::clone(transparent)),
            ..self
        }
    }

    /// Lets clients in through `gate`, which other proxies may share.
    #[must_use]
    pub fn behind(self, gate: &Gate) -> Self {
        Self {
            entrance: gate.entrance(),
            ..self
        }
    }

    /// Accepts clients, whose connections run on `workers`, until `drain` begins, then waits for connections to end as [`Drain`]
    /// has it.
    pub async fn serve(
        self,
        listener: TcpListener,
        waiting: Waiting,
        drain: Drain,
        workers: Workers,
    ) -> Drained {
        let (alive, all_done) = drain::counter();
        let errors = AcceptErrors::default();
        let take = |client, address| self.spawn(client, address, drain.clone(), alive.clone(), &workers);
        loop {
            tokio::select! {
                biased;
                () = drain.begun() => break,
                accepted = self.next(&listener) => match accepted {
                    Ok((client, address)) => take(client, address),
                    Err(error) => errors.after(&error).await,
                },
            }
        }
        if waiting == Waiting::Served {
            backlog::empty(&listener, take, &errors).await;
        }
        // Clients that connect from now on are refused, not left waiting.
        drop((listener, alive));
        drain.wait_for(all_done).await
    }

    /// The next client, when the rate of connections allows one. Until then it waits where the kernel keeps it.
    async fn next(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        self.entrance.pace().await;
        listener.accept().await
    }

    fn spawn(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        drain: Drain,
        alive: drain::Alive,
        workers: &Workers,
    ) {
        let (policy, route) = (self.entrance.policy(), self.route.load_full());
        let drain = route.drain.clone().unwrap_or(drain);
        let seat = match self.entrance.admit(&policy) {
            Ok(seat) => seat,
            Err(full) => {
                let guest = Guest {
                    socket,
                    peer,
                    policy,
                    route,
                };
                return guest.refuse(full, self);
            }
        };
        let socket = match socket.into_std() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(client = %peer, %error, "client has gone");
                return;
            }
        };
        let (proxy, draining) = (self.clone(), drain.clone());
        // Boxed, so that a connection that is open has no room for how it was opened.
        let opening = Box::pin(async move {
            let socket = match TcpStream::from_std(socket) {
                Ok(socket) => socket,
                Err(error) => {
                    proxy.entrance.notices().say(Notice::Unserved, || {
                        tracing::warn!(client = %peer, %error, "a client could not be served");
                    });
                    return None;
                }
            };
            let guest = Guest {
                socket,
                peer,
                policy,
                route,
            };
            connection::open(guest, seat, proxy, draining).await
        });
        let proxy = self.clone();
        workers.spawn(|place| async move {
            if let Some(opened) = opening.await {
                connection::forward(opened, &proxy, &drain).await;
            }
            drop((alive, place));
        });
    }

    /// The next connection.
    fn connection(&self, client: SocketAddr) -> Connection {
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        Connection::new(ConnectionId(id), client)
    }
}

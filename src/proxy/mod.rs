//! The data path: accepts clients, pairs each with a connection to the upstream, and moves bytes.
//!
//! What is absent on purpose: decoding, rewriting, and any wait for the audit.

mod chunks;
mod connection;
mod drain;
mod pump;
mod socket;
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

use tokio::net::{TcpListener, TcpStream};

use crate::{
    capture::{Clock, Connection, ConnectionId, Queue},
    tls::{Acceptor, Connector},
};

pub use drain::{Drain, Drained};
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
}

/// What all connections of a process share.
#[derive(Debug)]
pub struct Proxy {
    route: Route,
    queue: Arc<Queue>,
    clock: Clock,
    workers: Workers,
    connections: AtomicU64,
}

impl Proxy {
    /// A proxy that runs connections on `workers` and hands captures to `queue`.
    pub fn new(route: Route, queue: Arc<Queue>, clock: Clock, workers: Workers) -> Self {
        Self {
            route,
            queue,
            clock,
            workers,
            connections: AtomicU64::new(0),
        }
    }

    /// Accepts clients until `drain` begins, then waits for connections to end as [`Drain`] has it.
    pub async fn serve(self, listener: TcpListener, drain: Drain) -> Drained {
        let (alive, all_done) = drain::counter();
        loop {
            tokio::select! {
                biased;
                () = drain.begun() => break,
                accepted = listener.accept() => match accepted {
                    Ok((client, address)) => self.spawn(client, address, drain.clone(), alive.clone()),
                    Err(error) => pause_after(&error).await,
                },
            }
        }
        // Clients that connect from now on are refused, not left waiting.
        drop((listener, alive));
        drain.wait_for(all_done).await
    }

    fn spawn(&self, client: TcpStream, address: SocketAddr, drain: Drain, alive: drain::Alive) {
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed));
        let connection = Arc::new(Connection::new(id, address));
        let (route, queue, clock) = (self.route.clone(), Arc::clone(&self.queue), self.clock);
        let client = match client.into_std() {
            Ok(client) => client,
            Err(error) => {
                tracing::debug!(client = %address, %error, "client has gone");
                return;
            }
        };
        self.workers.spawn(async move {
            match TcpStream::from_std(client) {
                Ok(client) => connection::run(client, &connection, &route, queue, clock, drain).await,
                Err(error) => {
                    tracing::warn!(client = %connection.client, %error, "a client could not be served")
                }
            }
            connection.close();
            drop(alive);
        });
    }
}

/// Accept errors are passing ones (a client that has gone, no file descriptors left): never a reason to stop.
async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "a client could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Without file descriptors every accept fails at once; a pause keeps the loop from spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

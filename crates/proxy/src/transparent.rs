//! Connections that were on their way to a node when the kernel redirected them here: where they were going,
//! and whether that would lead in a circle.
//!
//! `REDIRECT` and `DNAT` leave the destination with connection tracking (`SO_ORIGINAL_DST`), `TPROXY` leaves
//! it as the socket's own address. One listener serves any node in this way, and clients need not know of it.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use super::Route;

/// The redirected connections of a process.
#[derive(Debug)]
pub struct Transparent {
    listener: SocketAddr,
    /// Whether a node's certificate must be for the address that it was reached by, and
    /// not for a name that was set.
    certificates_by_address: bool,
    connections: Mutex<Redirected>,
}

#[derive(Debug, Default)]
struct Redirected {
    /// The local addresses of the open connections to nodes.
    local_upstream_addrs: HashSet<SocketAddr>,
    /// The original destinations of clients, with the number of connections so far.
    destinations: BTreeMap<SocketAddr, u64>,
}

/// More nodes than a cluster has. A client on this machine could name any number of addresses.
const MOST_DESTINATIONS: usize = 4_096;

/// Why a connection goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoDestination {
    /// A client knows the address of the listener itself.
    #[error(
        "it connected to the listener itself, {0}, and was not redirected; with transparent, clients connect \
         to the nodes' own addresses"
    )]
    NotRedirected(SocketAddr),
    /// The redirection takes what cqlens itself sends.
    #[error(
        "it is cqlens' own connection to {0}, redirected back to cqlens; exempt the user that cqlens runs as \
         from the redirection"
    )]
    Loop(SocketAddr),
}

impl Transparent {
    /// For the connections that come to `listener`. A node's certificate must be for its address if
    /// `certificates_by_address`.
    pub fn new(listener: SocketAddr, certificates_by_address: bool) -> Self {
        Self {
            listener,
            certificates_by_address,
            connections: Mutex::default(),
        }
    }

    /// Lets a socket that is to listen at `address` accept connections that TPROXY sends here.
    ///
    /// # Errors
    /// A process that may not (it needs `CAP_NET_ADMIN`), or another system than Linux.
    #[cfg(target_os = "linux")]
    pub fn accept_on(socket: &TcpSocket, address: SocketAddr) -> io::Result<()> {
        let socket = SockRef::from(socket);
        match address {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true),
        }
    }

    /// Lets a socket that is to listen at `address` accept connections that TPROXY sends here.
    ///
    /// # Errors
    /// Always: only Linux has it.
    #[cfg(not(target_os = "linux"))]
    pub fn accept_on(_socket: &TcpSocket, _address: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The original destinations of clients so far, with the number of connections to each.
    pub fn destinations(&self) -> BTreeMap<SocketAddr, u64> {
        self.connections().destinations.clone()
    }

    /// Remembers the local address of a connection to a node while the guard lives: a client with this
    /// address is cqlens itself, in a loop.
    pub(super) fn local_upstream_addr(self: &Arc<Self>, address: SocketAddr) -> LocalUpstreamAddr {
        self.connections().local_upstream_addrs.insert(address);
        LocalUpstreamAddr {
            transparent: Arc::clone(self),
            address,
        }
    }

    /// The route of one client: like `route`, with the client's original destination as its upstream.
    ///
    /// # Errors
    /// A socket that has no addresses any more; inside, why the client has no destination.
    pub(super) fn route(
        &self,
        client: &TcpStream,
        route: &Route,
    ) -> io::Result<Result<Route, NoDestination>> {
        let (peer, local) = (client.peer_addr()?, client.local_addr()?);
        let destination = self.destination(peer, original_destination(client), local);
        Ok(destination.map(|destination| Route {
            upstream: destination.to_string(),
            upstream_tls: route.upstream_tls.as_ref().map(|connector| {
                if self.certificates_by_address {
                    connector.at(destination.ip())
                } else {
                    connector.clone()
                }
            }),
            ..route.clone()
        }))
    }

    /// The destination of a client at `peer`: `original` by connection tracking, else
    /// `local`, its socket's address.
    fn destination(
        &self,
        peer: SocketAddr,
        original: Option<SocketAddr>,
        local: SocketAddr,
    ) -> Result<SocketAddr, NoDestination> {
        let destination = canonical(original.unwrap_or(local));
        if self.connections().local_upstream_addrs.contains(&canonical(peer)) {
            return Err(NoDestination::Loop(destination));
        }
        if self.is_own_listener(destination) {
            return Err(NoDestination::NotRedirected(destination));
        }
        let mut state = self.connections();
        if state.destinations.len() < MOST_DESTINATIONS || state.destinations.contains_key(&destination) {
            *state.destinations.entry(destination).or_default() += 1;
        }
        Ok(destination)
    }

    /// Whether connecting to `destination` would come to this listener.
    fn is_own_listener(&self, destination: SocketAddr) -> bool {
        let own = canonical(self.listener);
        if destination.port() != own.port() {
            return false;
        }
        destination.ip() == own.ip() || own.ip().is_unspecified() && is_local(destination.ip())
    }

    fn connections(&self) -> MutexGuard<'_, Redirected> {
        // Nothing that holds it can panic.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The local address of an open connection to a node.
pub(super) struct LocalUpstreamAddr {
    transparent: Arc<Transparent>,
    address: SocketAddr,
}

impl Drop for LocalUpstreamAddr {
    fn drop(&mut self) {
        let mut connections = self.transparent.connections();
        connections.local_upstream_addrs.remove(&self.address);
    }
}

/// The original destination by connection tracking; none if the connection was not redirected, or not by a
/// rule that connection tracking knows.
#[cfg(target_os = "linux")]
pub(super) fn original_destination(client: &TcpStream) -> Option<SocketAddr> {
    let socket = SockRef::from(client);
    let version_6 = || socket.original_dst_v6().ok()?.as_socket();
    // A socket of version 6 may carry version 4.
    let version_4 = || socket.original_dst_v4().ok()?.as_socket();
    version_4().or_else(version_6)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn original_destination(_client: &TcpStream) -> Option<SocketAddr> {
    None
}

/// Whether an address is one of this machine: others cannot be bound.
pub fn is_local(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// An address of version 4, however it is written.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn transparent(listener: &str) -> Arc<Transparent> {
        Arc::new(Transparent::new(at(listener), true))
    }

    #[test]
    fn connection_tracking_comes_before_the_sockets_own_address() {
        let transparent = transparent("127.0.0.1:9142");
        let client = at("10.0.0.9:50000");
        let redirected = transparent.destination(client, Some(at("10.0.0.1:9042")), at("127.0.0.1:9142"));
        assert_eq!(redirected, Ok(at("10.0.0.1:9042")));
        // As TPROXY has it.
        let by_address = transparent.destination(client, None, at("[::ffff:10.0.0.2]:9042"));
        assert_eq!(by_address, Ok(at("10.0.0.2:9042")));
        let seen: Vec<_> = transparent.destinations().into_iter().collect();
        assert_eq!(seen, [(at("10.0.0.1:9042"), 1), (at("10.0.0.2:9042"), 1)]);
    }

    #[test]
    fn the_listener_itself_is_nowhere_to_go() {
        let client = at("127.0.0.1:50000");
        for (listener, destination) in [
            ("127.0.0.1:9142", "127.0.0.1:9142"),
            ("0.0.0.0:9142", "127.0.0.7:9142"),
            ("[::1]:9142", "[::1]:9142"),
        ] {
            let refused = transparent(listener).destination(client, None, at(destination));
            assert_eq!(
                refused,
                Err(NoDestination::NotRedirected(at(destination))),
                "{listener}"
            );
        }
        // Another machine's listener of the same port is a node.
        let elsewhere = at("192.0.2.1:9142");
        let redirected = transparent("0.0.0.0:9142").destination(client, Some(elsewhere), client);
        assert_eq!(redirected, Ok(elsewhere));
    }

    #[test]
    fn what_cqlens_sends_itself_does_not_go_around_in_a_circle() {
        let transparent = transparent("127.0.0.1:9142");
        let (near_end, node) = (at("127.0.0.1:40000"), at("10.0.0.1:9042"));
        let local_addr = transparent.local_upstream_addr(near_end);
        let back =
            |transparent: &Transparent| transparent.destination(near_end, Some(node), at("127.0.0.1:9142"));
        assert_eq!(back(&transparent), Err(NoDestination::Loop(node)));
        drop(local_addr);
        // Another process may have the port by now.
        assert_eq!(back(&transparent), Ok(node));
    }
}

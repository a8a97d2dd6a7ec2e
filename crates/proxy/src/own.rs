//! What belongs to cqlens itself: the addresses that it listens at, and its connections to nodes. A connection
//! that leads from cqlens to cqlens would take seats until none are left.
//!
//! There are two defences. Before it connects, cqlens compares the node's address with those of its listeners.
//! What gets past that (the kernel redirects the connection) is recognised by its two ends: each connection is
//! noted by the side that connects and by the side that accepts, and the side that comes later finds the note
//! of the other. The addresses of one side alone would not do: a client on this machine may have the port of a
//! connection to a node.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use super::transparent::{canonical, is_local, original_destination};

/// The listeners and the connections of a process; its clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct OwnSockets(Arc<Mutex<Sockets>>);

#[derive(Debug, Default)]
struct Sockets {
    /// How many listeners have an address: with `SO_REUSEPORT` there may be several.
    listeners: HashMap<ListenAddress, usize>,
    /// Both ends of connections that cqlens has opened or accepted. Their number is limited by the number
    /// of connections.
    opened: HashSet<Ends>,
    accepted: HashSet<Ends>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ListenAddress {
    address: SocketAddr,
    /// A wildcard of version 6 that accepts no connections of version 4.
    only_v6: bool,
}

/// The two ends of a connection, as the side that opened it sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Opened,
    Accepted,
}

impl ListenAddress {
    /// Whether a connection to `address` comes here.
    fn takes(self, address: SocketAddr) -> bool {
        let own = canonical(self.address);
        if own.port() != address.port() {
            return false;
        }
        let is_wildcard_of = match own.ip() {
            IpAddr::V4(ip) => ip.is_unspecified() && address.is_ipv4(),
            IpAddr::V6(ip) => ip.is_unspecified() && (address.is_ipv6() || !self.only_v6),
        };
        // The kernel connects to a wildcard address at the loopback address.
        let target = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        own.ip() == target || is_wildcard_of && is_local(target)
    }
}

/// Whether a connection to `address` would come to a listener at `listen` on this machine.
pub fn leads_back(listen: SocketAddr, address: SocketAddr) -> bool {
    let listener = ListenAddress {
        address: listen,
        only_v6: false,
    };
    listener.takes(canonical(address))
}

impl OwnSockets {
    /// Whether a connection to `address` would come to a listener of this process.
    pub fn listens_at(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        let listeners: Vec<_> = {
            let sockets = self.sockets();
            let of_port = |listener: &&ListenAddress| listener.address.port() == address.port();
            sockets.listeners.keys().filter(of_port).copied().collect()
        };
        listeners.iter().any(|listener| listener.takes(address))
    }

    /// The addresses from which cqlens is connected to a node.
    pub fn opened_to(&self, node: SocketAddr) -> HashSet<SocketAddr> {
        let node = canonical(node);
        let sockets = self.sockets();
        let its = sockets.opened.iter().filter(|ends| ends.to == node);
        its.map(|ends| ends.from).collect()
    }

    /// Notes a listener while the guard lives.
    pub(super) fn listening(&self, listener: &TcpListener) -> Option<OwnListener> {
        let address = listener.local_addr().ok()?;
        let only_v6 = address.is_ipv6() && SockRef::from(listener).only_v6().unwrap_or(false);
        let address = ListenAddress { address, only_v6 };
        *self.sockets().listeners.entry(address).or_default() += 1;
        Some(OwnListener {
            own: self.clone(),
            address,
        })
    }

    /// Notes a connection that cqlens has opened, while the guard lives.
    ///
    /// # Errors
    /// The address that leads back here.
    pub(super) fn opened(&self, upstream: &TcpStream) -> Result<Option<OwnConnection>, SocketAddr> {
        let ends = (upstream.local_addr(), upstream.peer_addr());
        let (Ok(from), Ok(to)) = ends else { return Ok(None) };
        self.note(Side::Opened, from, to).map(Some)
    }

    /// The same for a client of cqlens, such as that of a second cluster, whose nodes must not be cqlens either.
    ///
    /// # Errors
    /// A connection that leads back here.
    pub fn connected(&self, node: &TcpStream) -> io::Result<Option<OwnConnection>> {
        let back = |address| {
            let what = format!("{address} leads back to a listener of cqlens");
            io::Error::new(io::ErrorKind::ConnectionRefused, what)
        };
        let address = node.peer_addr()?;
        if self.listens_at(address) {
            return Err(back(address));
        }
        self.opened(node).map_err(back)
    }

    /// Notes a connection that cqlens has accepted, while the guard lives.
    ///
    /// # Errors
    /// It is a connection of cqlens itself to this address.
    pub(super) fn accepted(&self, client: &TcpStream) -> Result<Option<OwnConnection>, SocketAddr> {
        let ends = (client.peer_addr(), client.local_addr());
        let (Ok(from), Ok(to)) = ends else { return Ok(None) };
        let to = original_destination(client).unwrap_or(to);
        self.note(Side::Accepted, from, to).map(Some)
    }

    fn note(&self, side: Side, from: SocketAddr, to: SocketAddr) -> Result<OwnConnection, SocketAddr> {
        let ends = Ends {
            from: canonical(from),
            to: canonical(to),
        };
        let mut sockets = self.sockets();
        let (notes, others) = sockets.of(side);
        if others.contains(&ends) {
            return Err(ends.to);
        }
        notes.insert(ends);
        drop(sockets);
        Ok(OwnConnection {
            own: self.clone(),
            side,
            ends,
        })
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        // Nothing that holds it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sockets {
    /// The notes of a side, and those of the other.
    fn of(&mut self, side: Side) -> (&mut HashSet<Ends>, &mut HashSet<Ends>) {
        match side {
            Side::Opened => (&mut self.opened, &mut self.accepted),
            Side::Accepted => (&mut self.accepted, &mut self.opened),
        }
    }
}

/// A listener of this process.
pub(super) struct OwnListener {
    own: OwnSockets,
    address: ListenAddress,
}

impl Drop for OwnListener {
    fn drop(&mut self) {
        let mut sockets = self.own.sockets();
        if let Some(number) = sockets.listeners.get_mut(&self.address) {
            *number -= 1;
            if *number == 0 {
                sockets.listeners.remove(&self.address);
            }
        }
    }
}

/// A connection that this process has opened or accepted.
#[derive(Debug)]
pub struct OwnConnection {
    own: OwnSockets,
    side: Side,
    ends: Ends,
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.own.sockets().of(self.side).0.remove(&self.ends);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn takes(listener: &str, only_v6: bool, address: &str) -> bool {
        let address = canonical(at(address));
        let listener = ListenAddress {
            address: at(listener),
            only_v6,
        };
        listener.takes(address)
    }

    #[test]
    fn a_wildcard_listener_takes_every_local_address_of_its_port() {
        for (listener, address, is_own) in [
            ("127.0.0.1:9042", "127.0.0.1:9042", true),
            ("127.0.0.1:9042", "[::ffff:127.0.0.1]:9042", true),
            ("127.0.0.1:9042", "0.0.0.0:9042", true),
            ("127.0.0.1:9042", "127.0.0.2:9042", false),
            ("127.0.0.1:9042", "127.0.0.1:9043", false),
            ("0.0.0.0:9042", "127.0.0.7:9042", true),
            ("0.0.0.0:9042", "0.0.0.0:9042", true),
            ("0.0.0.0:9042", "192.0.2.1:9042", false),
            ("[::]:9042", "127.0.0.7:9042", true),
        ] {
            assert_eq!(takes(listener, false, address), is_own, "{listener} {address}");
        }
        assert!(!takes("[::]:9042", true, "127.0.0.7:9042"));
    }

    #[test]
    fn a_connection_to_cqlens_itself_is_found_by_the_side_that_comes_later() {
        let own = OwnSockets::default();
        let (near, node) = (at("127.0.0.1:40000"), at("10.0.0.1:9042"));
        for (first, second) in [(Side::Opened, Side::Accepted), (Side::Accepted, Side::Opened)] {
            let noted = own.note(first, near, node).unwrap();
            assert_eq!(own.note(second, near, node).unwrap_err(), node);
            drop(noted);
            drop(own.note(second, near, node).unwrap());
        }
        // A client on this machine that has the port of a connection to a node.
        let _opened = own.note(Side::Opened, near, node).unwrap();
        let _client = own.note(Side::Accepted, near, at("127.0.0.1:9042")).unwrap();
        assert_eq!(own.sockets().accepted.len(), 1);
    }

    #[tokio::test]
    async fn listeners_and_connections_are_known_while_they_are_there() {
        let own = OwnSockets::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guards = (own.listening(&listener), own.listening(&listener));
        assert!(own.listens_at(address));
        drop(guards.0);
        assert!(own.listens_at(address));
        drop(guards.1);
        assert!(!own.listens_at(address));
        let opened = TcpStream::connect(address).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let _noted = own.opened(&opened).unwrap();
        assert_eq!(own.accepted(&accepted).unwrap_err(), address);
    }

    #[tokio::test]
    async fn clients_of_cqlens_do_not_connect_to_it() {
        let own = OwnSockets::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let opened = TcpStream::connect(address).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let noted = own.connected(&opened).unwrap();
        // As one that the kernel has redirected.
        assert_eq!(own.accepted(&accepted).unwrap_err(), address);
        drop(noted);
        drop(own.accepted(&accepted).unwrap());
        let _listening = own.listening(&listener);
        let refused = own.connected(&opened).unwrap_err().to_string();
        assert_eq!(refused, format!("{address} leads back to a listener of cqlens"));
    }
}

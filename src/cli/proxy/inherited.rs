//! Listening sockets that were open before this process began (`LISTEN_FDS`, systemd's socket activation).
//!
//! Where there is one listener, the first socket is for clients and the second for the admin listener. Where
//! there are several, each socket is for the listener that has its address: the order is the service
//! manager's, and means nothing.

use std::{collections::BTreeMap, io, net::SocketAddr};

use anyhow::{Context, bail};
use listenfd::ListenFd;
use tokio::net::TcpListener;

use super::bind::bind;
use cqlens_proxy::Backlog;

/// Sockets that were given to this process, in their order.
#[derive(Debug, Default)]
pub(super) struct Inherited(Vec<InheritedSocket>);

/// A socket, and where it listens.
#[derive(Debug)]
struct InheritedSocket {
    address: SocketAddr,
    listener: std::net::TcpListener,
}

impl Inherited {
    /// Takes the sockets that were passed to this process. To be called before there are threads: it removes
    /// the variables that name them, so that no child process takes the sockets for its own.
    ///
    /// # Errors
    /// A socket that is none of TCP, or that does not listen.
    pub(super) fn take() -> anyhow::Result<Self> {
        let mut given = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..given.len() {
            let taken = given.take_tcp_listener(index);
            let Some(listener) = taken.with_context(|| format!("socket {index} of LISTEN_FDS"))? else {
                continue;
            };
            listener.set_nonblocking(true)?;
            let address = listener
                .local_addr()
                .with_context(|| format!("cannot determine the address of socket {index} of LISTEN_FDS"))?;
            sockets.push(InheritedSocket { address, listener });
        }
        Ok(Self(sockets))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next one in their order.
    ///
    /// # Errors
    /// One that cannot be used.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<TcpListener>> {
        if self.is_empty() {
            return Ok(None);
        }
        let socket = self.0.remove(0);
        usable(socket.listener).map(Some)
    }

    /// The one that listens at `address`.
    ///
    /// # Errors
    /// One that cannot be used.
    pub(super) fn at(&mut self, address: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
        match self.0.iter().position(|socket| socket.address == address) {
            Some(index) => usable(self.0.remove(index).listener).map(Some),
            None => Ok(None),
        }
    }

    /// Where the sockets listen, for a message.
    pub(super) fn addresses(&self) -> String {
        let addresses: Vec<String> = self.0.iter().map(|socket| socket.address.to_string()).collect();
        addresses.join(", ")
    }

    /// Sees that nothing is left over.
    ///
    /// # Errors
    /// Sockets that no listener has taken: a client that connects there would wait for ever.
    pub(super) fn check_used(&self) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        bail!(
            "LISTEN_FDS: a socket for {} was passed, but cqlens is not set to listen there",
            self.addresses()
        )
    }

    /// What is left, for the nodes of a cluster.
    ///
    /// # Errors
    /// Sockets at addresses that no node can get.
    pub(super) fn for_nodes(self, is_possible: impl Fn(SocketAddr) -> bool) -> anyhow::Result<ForNodes> {
        let (possible, others) = self.0.into_iter().partition(|socket| is_possible(socket.address));
        Self(others).check_used()?;
        let possible: Vec<InheritedSocket> = possible;
        let sockets = possible
            .into_iter()
            .map(|socket| (socket.address, socket.listener));
        Ok(ForNodes(sockets.collect()))
    }
}

/// Sockets for the nodes of a cluster, by address. They stay open as long as the process: the service manager
/// keeps them open too, so the address could not be bound again for a node that comes back.
#[derive(Debug, Default)]
pub(super) struct ForNodes(BTreeMap<SocketAddr, std::net::TcpListener>);

impl ForNodes {
    /// A listening socket, inherited or new, and what becomes of its backlog.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub(super) fn open(&self, listen: SocketAddr, reuse_port: bool) -> io::Result<(TcpListener, Backlog)> {
        match self.0.get(&listen) {
            Some(given) => Ok((TcpListener::from_std(given.try_clone()?)?, Backlog::Leave)),
            None => Ok((bind(listen, reuse_port)?, Backlog::Serve)),
        }
    }

    /// The addresses of those that `is_served` says nothing of.
    pub(super) fn idle(&self, is_served: impl Fn(SocketAddr) -> bool) -> impl Iterator<Item = SocketAddr> {
        self.0.keys().copied().filter(move |address| !is_served(*address))
    }
}

fn usable(listener: std::net::TcpListener) -> anyhow::Result<TcpListener> {
    TcpListener::from_std(listener).context("a socket of LISTEN_FDS")
}

#[cfg(test)]
impl Inherited {
    /// As if a service manager had given these.
    pub(super) fn from_listeners(listeners: Vec<std::net::TcpListener>) -> Self {
        let socket = |listener: std::net::TcpListener| InheritedSocket {
            address: listener.local_addr().expect("it listens"),
            listener,
        };
        Self(listeners.into_iter().map(socket).collect())
    }
}

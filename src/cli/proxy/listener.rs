//! Where the listening sockets come from: from systemd or a predecessor, or bound here.

use std::{io, net::SocketAddr};

use anyhow::Context;
use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};

use super::args::Args;
use crate::proxy::Waiting;

/// Listening sockets that were open before this process began (`LISTEN_FDS`, systemd's socket activation): the first is for
/// clients, the second for the admin listener.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    clients: Option<std::net::TcpListener>,
    admin: Option<std::net::TcpListener>,
}

/// The sockets, listening.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) clients: TcpListener,
    /// Whether somebody else has the clients' socket too, and serves who waits there when this process stops.
    pub(super) waiting: Waiting,
    pub(super) admin: Option<TcpListener>,
}

impl Inherited {
    /// Takes what was given to this process. To be called before there are threads: it takes the variables away that
    /// say so, lest a child takes the sockets for its own.
    ///
    /// # Errors
    /// A socket that is none of TCP, or that does not listen.
    pub(super) fn take() -> anyhow::Result<Self> {
        let mut given = ListenFd::from_env();
        let mut take = |index| {
            let listener = given
                .take_tcp_listener(index)
                .with_context(|| format!("socket {index} of LISTEN_FDS"))?;
            if let Some(listener) = &listener {
                listener.set_nonblocking(true)?;
            }
            anyhow::Ok(listener)
        };
        let clients = take(0)?;
        let admin = if clients.is_some() {
            take(1).unwrap_or(None)
        } else {
            None
        };
        Ok(Self { clients, admin })
    }
}

impl Listeners {
    /// Binds what was not inherited.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub(super) async fn open(args: &Args, inherited: Inherited) -> anyhow::Result<Self> {
        let (clients, waiting) = match inherited.clients {
            Some(listener) => (
                TcpListener::from_std(listener).context("the socket of LISTEN_FDS")?,
                Waiting::Left,
            ),
            None => (
                bind(args).with_context(|| format!("cannot listen on {}", args.listen))?,
                Waiting::Served,
            ),
        };
        let admin = match (inherited.admin, args.admin) {
            (Some(listener), _) => {
                Some(TcpListener::from_std(listener).context("the second socket of LISTEN_FDS")?)
            }
            (None, Some(address)) => Some(
                bind_admin(address, args.reuse_port)
                    .with_context(|| format!("the admin listener cannot listen on {address}"))?,
            ),
            (None, None) => None,
        };
        Ok(Self {
            clients,
            waiting,
            admin,
        })
    }
}

fn bind(args: &Args) -> io::Result<TcpListener> {
    socket(args.listen, args.reuse_port)?.listen(BACKLOG)
}

fn bind_admin(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    socket(address, reuse_port)?.listen(FEW)
}

fn socket(address: SocketAddr, reuse_port: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Connections of a process that has just ended still linger at this address.
    socket.set_reuseaddr(true)?;
    if reuse_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    Ok(socket)
}

/// Clients that may wait to be accepted; the kernel's own limit (`net.core.somaxconn`) is often lower.
const BACKLOG: u32 = 4096;
const FEW: u32 = 64;

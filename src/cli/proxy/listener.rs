//! Where the listening sockets come from: from systemd or a predecessor, or bound here.

use std::{io, net::SocketAddr};

use anyhow::{Context, bail};
use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};

use super::{
    args::Args,
    topology::{Mode, Pair},
};
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
    pub(super) clients: Vec<(Pair, TcpListener)>,
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
    pub(super) fn open(args: &Args, mode: &Mode, inherited: Inherited) -> anyhow::Result<Self> {
        let (clients, waiting) = match (mode, inherited.clients) {
            (Mode::One(pair) | Mode::Transparent(pair), Some(listener)) => {
                let listener = TcpListener::from_std(listener).context("the socket of LISTEN_FDS")?;
                (vec![(pair.clone(), listener)], Waiting::Left)
            }
            (Mode::Routes(_) | Mode::Cluster(_), Some(_)) => {
                bail!(
                    "LISTEN_FDS: cqlens takes one socket for clients, and is to listen at several addresses"
                )
            }
            (Mode::One(pair), None) => (bind_pairs(std::slice::from_ref(pair), args)?, Waiting::Served),
            (Mode::Transparent(pair), None) => (
                vec![(pair.clone(), bind_transparent(pair, args)?)],
                Waiting::Served,
            ),
            (Mode::Routes(pairs), None) => (bind_pairs(pairs, args)?, Waiting::Served),
            (Mode::Cluster(_), None) => (Vec::new(), Waiting::Served),
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

/// Sockets for pairs, listening.
///
/// # Errors
/// An address that cannot be bound, with where it was to lead.
pub(super) fn bind_pairs(pairs: &[Pair], args: &Args) -> anyhow::Result<Vec<(Pair, TcpListener)>> {
    let bound = pairs.iter().map(|pair| {
        let listener = bind(pair.listen, args.reuse_port)
            .with_context(|| format!("cannot listen on {} (to {})", pair.listen, pair.upstream))?;
        Ok((pair.clone(), listener))
    });
    bound.collect()
}

/// A socket that also takes what TPROXY sends to it, where this process is allowed to have one.
fn bind_transparent(pair: &Pair, args: &Args) -> anyhow::Result<TcpListener> {
    let listen = pair.listen;
    let bound = || {
        let socket = socket(listen, args.reuse_port)?;
        #[cfg(target_os = "linux")]
        if let Err(error) = take_others(&socket, listen) {
            tracing::debug!(%error, "connections that TPROXY sends here cannot be taken (it needs CAP_NET_ADMIN), those of REDIRECT can");
        }
        socket.bind(listen)?;
        socket.listen(BACKLOG)
    };
    bound().with_context(|| format!("cannot listen on {listen}"))
}

#[cfg(target_os = "linux")]
fn take_others(socket: &TcpSocket, listen: SocketAddr) -> io::Result<()> {
    let socket = socket2::SockRef::from(socket);
    match listen {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true),
    }
}

/// A socket for clients, listening.
///
/// # Errors
/// An address that cannot be bound.
pub(super) fn bind(listen: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket(listen, reuse_port)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

fn bind_admin(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket(address, reuse_port)?;
    socket.bind(address)?;
    socket.listen(FEW)
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
    Ok(socket)
}

/// Clients that may wait to be accepted; the kernel's own limit (`net.core.somaxconn`) is often lower.
const BACKLOG: u32 = 4096;
const FEW: u32 = 64;

//! Binds listening sockets.

use std::{io, net::SocketAddr};

use cqlens_proxy::Transparent;
use tokio::net::{TcpListener, TcpSocket};

/// A listening socket that also accepts connections from TPROXY, if this process is allowed to have one.
///
/// # Errors
/// An address that cannot be bound.
pub(super) fn bind_transparent(listen: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket(listen, reuse_port)?;
    if let Err(error) = Transparent::accept_on(&socket, listen) {
        tracing::debug!(%error, "\
            connections redirected with TPROXY cannot be accepted (this needs CAP_NET_ADMIN), those \
            redirected with REDIRECT can");
    }
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

/// A listening socket for clients.
///
/// # Errors
/// An address that cannot be bound.
pub(super) fn bind(listen: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket(listen, reuse_port)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

/// A listening socket for operators.
///
/// # Errors
/// An address that cannot be bound.
pub(super) fn bind_admin(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket(address, reuse_port)?;
    socket.bind(address)?;
    socket.listen(ADMIN_BACKLOG)
}

fn socket(address: SocketAddr, reuse_port: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Connections of a process that has just ended may still linger at this address.
    socket.set_reuseaddr(true)?;
    if reuse_port {
        socket.set_reuseport(true)?;
    }
    Ok(socket)
}

/// How many clients may wait to be accepted. The kernel's own limit (`net.core.somaxconn`) is often lower.
const BACKLOG: u32 = 4096;
const ADMIN_BACKLOG: u32 = 64;

//! The two sockets of a connection: plain, or with TLS around them.
//!
//! Which of the two is decided once for each connection. The pumps are compiled for each, so that plain
//! connections pay nothing for TLS.

use std::{io, net::SocketAddr, sync::atomic::AtomicBool};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use super::{
    Drain, Policy, Proxy, Route, keepalive,
    notices::Notice,
    own::OwnConnection,
    refusal::{self, OwnUpstream},
    upstream_health::{ConnectError, Outage},
};
use crate::{
    timers::timeout_at,
    tls::{self, Acceptor, ClientFault, TlsStream},
};
use cqlens_capture::{Connection, TlsFailure};

/// One side, ready for bytes.
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(TlsStream),
}

impl Socket {
    /// The connection below.
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.tcp(),
        }
    }

    /// The name in the certificate that the other side has shown, if there is one.
    pub(super) fn peer_name(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => tls::peer_name(stream),
        }
    }
}

/// Why there is no connection to the upstream.
pub(super) enum UpstreamError {
    /// The reason has been logged; the client sees its connection close.
    Logged,
    /// cqlens has no file descriptor left.
    NoDescriptor,
    /// The upstream is known to accept no connections, and was not tried.
    Down(Outage),
    /// The upstream's address leads back to cqlens.
    Own(OwnUpstream),
}

/// A socket that can be read and written at the same time.
pub(super) trait SplitSocket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether an event that one half waits for never wakes the other one.
    const HALVES_WAKE_APART: bool;

    /// The half that reads and the half that writes.
    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send);

    /// The connection below.
    fn tcp(&self) -> &TcpStream;
}

impl SplitSocket for TcpStream {
    const HALVES_WAKE_APART: bool = true;

    fn tcp(&self) -> &TcpStream {
        self
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        self.split()
    }
}

impl SplitSocket for TlsStream {
    // A TLS read may have to write, and a write to read.
    const HALVES_WAKE_APART: bool = false;

    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        tokio::io::split(&mut **self)
    }
}

/// Prepares the client's socket, with the TLS handshake where clients use TLS. Returns `None` if the client
/// cannot be served; the reason has been logged.
pub(super) async fn accept_client(
    client: TcpStream,
    connection: &Connection,
    route: &Route,
    proxy: &Proxy,
    drain: &Drain,
) -> Option<Socket> {
    if let Err(error) = client.set_nodelay(true) {
        tracing::debug!(connection = connection.id.0, client = %connection.client, %error, "\
            client has disconnected");
        return None;
    }
    let Some(acceptor) = &route.client_tls else {
        return Some(Socket::Plain(client));
    };
    tokio::select! {
        accepted = handshake(acceptor, client, connection, proxy) => accepted.map(Socket::Tls),
        _step = drain.step(connection, &NOT_BLOCKED) => None,
    }
}

/// During a handshake there are no responses that the client could keep waiting.
static NOT_BLOCKED: AtomicBool = AtomicBool::new(false);

async fn handshake(
    acceptor: &Acceptor,
    client: TcpStream,
    connection: &Connection,
    proxy: &Proxy,
) -> Option<TlsStream> {
    let failure = match acceptor.accept(client).await {
        Ok(stream) => return Some(stream),
        Err(gone @ ClientFault::Gone) => {
            tracing::debug!(connection = connection.id.0, client = %connection.client, "{gone}");
            return None;
        }
        Err(fault) => {
            proxy.admission.notices().say(Notice::ClientTls, || {
                tracing::warn!(connection = connection.id.0, client = %connection.client, "{fault}; it is refused");
            });
            match fault {
                ClientFault::Plain => TlsFailure::PlainClient,
                _ => TlsFailure::Client,
            }
        }
    };
    proxy.queue.count_tls_failure(failure);
    None
}

/// Connects to the upstream, with the TLS handshake where the route says so. `header` is sent before
/// everything else, TLS included.
pub(super) async fn connect_upstream(
    connection: &Connection,
    route: &Route,
    policy: &Policy,
    header: Option<Vec<u8>>,
    proxy: &Proxy,
) -> Result<(Socket, Option<OwnConnection>), UpstreamError> {
    let deadline = Instant::now() + route.connect_timeout;
    let notices = proxy.admission.notices();
    let upstreams = proxy.admission.upstreams();
    let mut upstream = match upstreams.connect(&route.upstream, deadline).await {
        Ok(upstream) => upstream,
        Err(ConnectError::Down(outage)) => return Err(UpstreamError::Down(outage)),
        Err(ConnectError::Own(address)) => return Err(own_upstream(route, address)),
        Err(ConnectError::Failed(error)) if refusal::is_out_of_descriptors(&error) => {
            return Err(UpstreamError::NoDescriptor);
        }
        Err(ConnectError::Failed(error)) => {
            notices.say(Notice::NoUpstream, || {
                tracing::warn!(connection = connection.id.0, client = %connection.client, upstream = %route.upstream, %error,
                    "upstream refused the connection, the client's is closed");
            });
            return Err(UpstreamError::Logged);
        }
    };
    let own = proxy.admission.own_sockets().opened(&upstream);
    let own = own.map_err(|address| own_upstream(route, address))?;
    if let Err(error) = prepare(&mut upstream, policy, header).await {
        tracing::debug!(upstream = %route.upstream, %error, "upstream has disconnected");
        return Err(UpstreamError::Logged);
    }
    if let Ok(address) = upstream.peer_addr() {
        connection.reaches(address);
    }
    let Some(connector) = &route.upstream_tls else {
        return Ok((Socket::Plain(upstream), own));
    };
    match timeout_at(deadline, connector.connect(upstream)).await {
        Ok(stream) => Ok((Socket::Tls(stream), own)),
        Err(error) => {
            notices.say(Notice::UpstreamTls, || {
                tracing::warn!(connection = connection.id.0, client = %connection.client, upstream = %route.upstream, %error,
                    "no TLS with the upstream, the client's connection is closed");
            });
            proxy.queue.count_tls_failure(TlsFailure::Upstream);
            Err(UpstreamError::Logged)
        }
    }
}

fn own_upstream(route: &Route, address: SocketAddr) -> UpstreamError {
    UpstreamError::Own(OwnUpstream {
        upstream: route.upstream.clone(),
        address,
    })
}

async fn prepare(upstream: &mut TcpStream, policy: &Policy, header: Option<Vec<u8>>) -> io::Result<()> {
    upstream.set_nodelay(true)?;
    keepalive::set(upstream, policy);
    match header {
        // A new socket has room for it.
        Some(header) => upstream.write_all(&header).await,
        None => Ok(()),
    }
}

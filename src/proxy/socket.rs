//! The two sides of a connection as bytes go through them: plain, or with TLS around them.
//!
//! Which of the two is decided once for each connection. From then on the pumps are compiled for it, so that plain connections
//! pay nothing for TLS.

use std::{io, sync::atomic::AtomicBool};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use super::{
    Drain, Notice, Policy, Proxy, Route, keepalive, refusal,
    upstreams::{Outage, Unreached},
};
use crate::{
    timers::timeout_at,
    tls::{self, Acceptor, ClientFault, TlsStream},
};
use cqlens_audit::capture::{Connection, TlsFailure};

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
pub(super) enum NoUpstream {
    /// Which has been said.
    Said,
    /// It is not the upstream's fault.
    NoDescriptor,
    /// It is known to accept none.
    Down(Outage),
}

/// What can be read and written at the same time.
pub(super) trait Halves: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether neither half waits for what the other one waits for.
    const ARE_APART: bool;

    /// The half that reads and the half that writes.
    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send);

    /// The connection below.
    fn tcp(&self) -> &TcpStream;
}

impl Halves for TcpStream {
    const ARE_APART: bool = true;

    fn tcp(&self) -> &TcpStream {
        self
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        self.split()
    }
}

impl Halves for TlsStream {
    // Reading may have to write, and writing to read.
    const ARE_APART: bool = false;

    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }

    fn halves(&mut self) -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
        tokio::io::split(&mut **self)
    }
}

/// The client's side; none if nothing can be forwarded, which has been said.
pub(super) async fn of_client(
    client: TcpStream,
    connection: &Connection,
    route: &Route,
    proxy: &Proxy,
    drain: &Drain,
) -> Option<Socket> {
    if let Err(error) = client.set_nodelay(true) {
        tracing::debug!(client = %connection.client, %error, "client has gone");
        return None;
    }
    let Some(acceptor) = &route.client_tls else {
        return Some(Socket::Plain(client));
    };
    tokio::select! {
        accepted = accept(acceptor, client, connection, proxy) => accepted.map(Socket::Tls),
        _release = drain.releases(connection, &NOTHING_WRITTEN) => None,
    }
}

/// In a handshake there are no answers yet.
static NOTHING_WRITTEN: AtomicBool = AtomicBool::new(false);

async fn accept(
    acceptor: &Acceptor,
    client: TcpStream,
    connection: &Connection,
    proxy: &Proxy,
) -> Option<TlsStream> {
    let failure = match acceptor.accept(client).await {
        Ok(stream) => return Some(stream),
        Err(gone @ ClientFault::Gone) => {
            tracing::debug!(client = %connection.client, "{gone}");
            return None;
        }
        Err(fault) => {
            proxy.entrance.notices().say(Notice::ClientTls, || {
                tracing::warn!(client = %connection.client, "{fault}; it is refused");
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

/// The upstream's side. `header` is what goes before everything else, TLS included.
pub(super) async fn of_upstream(
    connection: &Connection,
    route: &Route,
    policy: &Policy,
    header: Option<Vec<u8>>,
    proxy: &Proxy,
) -> Result<Socket, NoUpstream> {
    let deadline = Instant::now() + route.connect_timeout;
    let notices = proxy.entrance.notices();
    let upstreams = proxy.entrance.upstreams();
    let mut upstream = match upstreams.connect(&route.upstream, deadline).await {
        Ok(upstream) => upstream,
        Err(Unreached::Down(outage)) => return Err(NoUpstream::Down(outage)),
        Err(Unreached::Failed(error)) if refusal::is_out_of_descriptors(&error) => {
            return Err(NoUpstream::NoDescriptor);
        }
        Err(Unreached::Failed(error)) => {
            notices.say(Notice::NoUpstream, || {
                tracing::warn!(client = %connection.client, upstream = %route.upstream, %error,
                    "upstream refused the connection, the client's is closed");
            });
            return Err(NoUpstream::Said);
        }
    };
    if let Err(error) = prepare(&mut upstream, policy, header).await {
        tracing::debug!(upstream = %route.upstream, %error, "upstream has gone");
        return Err(NoUpstream::Said);
    }
    if let Ok(address) = upstream.peer_addr() {
        connection.reaches(address);
    }
    let Some(connector) = &route.upstream_tls else {
        return Ok(Socket::Plain(upstream));
    };
    match timeout_at(deadline, connector.connect(upstream)).await {
        Ok(stream) => Ok(Socket::Tls(stream)),
        Err(error) => {
            notices.say(Notice::UpstreamTls, || {
                tracing::warn!(client = %connection.client, upstream = %route.upstream, %error,
                    "no TLS with the upstream, the client's connection is closed");
            });
            proxy.queue.count_tls_failure(TlsFailure::Upstream);
            Err(NoUpstream::Said)
        }
    }
}

async fn prepare(upstream: &mut TcpStream, policy: &Policy, header: Option<Vec<u8>>) -> io::Result<()> {
    upstream.set_nodelay(true)?;
    keepalive::set(upstream, policy);
    match header {
        // There is room for it in a socket that is new.
        Some(header) => upstream.write_all(&header).await,
        None => Ok(()),
    }
}

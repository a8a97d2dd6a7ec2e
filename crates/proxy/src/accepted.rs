//! From an accepted socket to a session: who the client is, whether it is admitted, and
//! the connection to its node.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::TcpStream;

use super::{
    Drain, Policy, Proxy, Route,
    admission::ConnectionPermit,
    keepalive,
    own::OwnConnection,
    proxy_header::{self, HeaderFault, Origin},
    refusal::{self, LimitReached, RefusalReason},
    session::Session,
    socket::{self, Socket, UpstreamError},
    transparent::NoDestination,
};
use crate::timers::timeout;
use cqlens_capture::Encryption;

/// A client's connection that was accepted and is not open yet.
pub(super) struct Accepted {
    socket: TcpStream,
    /// Where the connection comes from: the socket's peer, until a PROXY header says otherwise.
    origin: Origin,
    policy: Arc<Policy>,
    route: Arc<Route>,
}

/// A load balancer sends its header with the first packet.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

impl Accepted {
    pub(super) fn new(socket: TcpStream, peer: SocketAddr, policy: Arc<Policy>, route: Arc<Route>) -> Self {
        Self {
            socket,
            origin: Origin::from_peer(peer),
            policy,
            route,
        }
    }

    /// Admits the client and connects to the node for it. Returns `None` if the connection cannot be served;
    /// the reason has been logged.
    pub(super) async fn open(
        self,
        permit: ConnectionPermit,
        proxy: Proxy,
        drain: Drain,
    ) -> Option<(Session, Socket, Socket)> {
        let own = self.not_of_cqlens(&proxy)?;
        let (accepted, permit) = self.admit(permit, &proxy, &drain).await?;
        let Self {
            socket,
            mut origin,
            policy,
            route,
        } = accepted.redirected(&proxy).await?;
        let connection = Arc::new(proxy.connection(origin.client));
        let destination = socket.local_addr().ok();
        let client = socket::accept_client(socket, &connection, &route, &proxy, &drain).await?;
        if let Some(name) = client.peer_name().or(origin.certificate.take()) {
            connection.certified(&name);
        }
        connection.encrypted(match client {
            Socket::Tls(_) => Encryption::Here,
            Socket::Plain(_) if origin.is_encrypted => Encryption::Before,
            Socket::Plain(_) => Encryption::Plain,
        });
        let header = policy.send_proxy_protocol.then(|| origin.header(destination));
        let (upstream, opened) =
            match socket::connect_upstream(&connection, &route, &policy, header, &proxy).await {
                Ok(opened) => opened,
                Err(error) => {
                    let reason = match error {
                        UpstreamError::Logged => return None,
                        UpstreamError::NoDescriptor => RefusalReason::NoDescriptor,
                        UpstreamError::Own(own) => RefusalReason::OwnUpstream(own),
                        UpstreamError::Down(outage) => RefusalReason::UpstreamDown(outage),
                    };
                    match client {
                        Socket::Plain(mut client) => proxy.refuse(origin.client, &mut client, &reason).await,
                        Socket::Tls(mut client) => proxy.refuse(origin.client, &mut client, &reason).await,
                    }
                    return None;
                }
            };
        let local_addr = match (&proxy.transparent, upstream.tcp().local_addr()) {
            (Some(transparent), Ok(address)) => Some(Box::new(transparent.local_upstream_addr(address))),
            _ => None,
        };
        let session = Session {
            connection,
            proxy,
            drain,
            policy,
            route,
            _permit: permit,
            _local_addr: local_addr,
            _own: Box::new([own, opened]),
        };
        Some((session, client, upstream))
    }

    /// Notes the connection, unless cqlens itself has opened it: then there is nothing to answer, and `None` is
    /// returned; it has been logged.
    fn not_of_cqlens(&self, proxy: &Proxy) -> Option<Option<OwnConnection>> {
        // Where connections are redirected, the search for their destination says more.
        if proxy.transparent.is_some() {
            return Some(None);
        }
        let noted = proxy.admission.own_sockets().accepted(&self.socket);
        let refuse = |address| {
            proxy.record_refusal(self.origin.client, &RefusalReason::OwnConnection(address));
        };
        noted.map_err(refuse).ok()
    }

    /// Finds out who the client is, and counts the connection for it if its limits allow. Returns `None` if
    /// the client is not admitted; the reason has been logged.
    async fn admit(
        mut self,
        mut permit: ConnectionPermit,
        proxy: &Proxy,
        drain: &Drain,
    ) -> Option<(Self, ConnectionPermit)> {
        keepalive::set(&self.socket, &self.policy);
        if self.policy.accept_proxy_protocol {
            tokio::select! {
                // Bytes that have come are read first, however busy the thread was meanwhile.
                biased;
                read = self.read_header() => if let Err(fault) = read {
                    self.record_header_fault(&fault, proxy);
                    return None;
                },
                () = drain.begun_and_quiet() => return None,
            }
        }
        if let Err(limit) = permit.try_acquire_for_client(self.origin.client.ip(), &self.policy) {
            drop(permit);
            let reason = RefusalReason::LimitReached(limit);
            proxy.record_refusal(self.origin.client, &reason);
            if let Some(_permit) = proxy.try_acquire_answer() {
                self.answer(&reason).await;
            }
            return None;
        }
        Some((self, permit))
    }

    /// Refuses the client because a limit was reached. If too many refused clients are being answered, its
    /// connection is only closed.
    pub(super) fn refuse(mut self, limit: LimitReached, proxy: &Proxy) {
        let reason = RefusalReason::LimitReached(limit);
        let Some(permit) = proxy.try_acquire_answer() else {
            proxy.record_refusal(self.origin.client, &reason);
            return;
        };
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let read = match self.policy.accept_proxy_protocol {
                true => self.read_header().await,
                false => Ok(()),
            };
            proxy.record_refusal(self.origin.client, &reason);
            if read.is_ok() {
                self.answer(&reason).await;
            }
            drop(permit);
        });
    }

    /// Answers the client's first request with an error, inside TLS where all clients use it.
    async fn answer(mut self, reason: &RefusalReason) {
        let Some(acceptor) = &self.route.client_tls else {
            return refusal::answer(&mut self.socket, reason).await;
        };
        if let Ok(Ok(mut stream)) = timeout(refusal::PATIENCE, acceptor.accept(self.socket)).await {
            refusal::answer(&mut stream, reason).await;
        }
    }

    /// Reads the PROXY header, which says where the connection comes from.
    async fn read_header(&mut self) -> Result<(), HeaderFault> {
        let reading = proxy_header::read(&mut self.socket, self.origin.client);
        self.origin = timeout(HEADER_TIMEOUT, reading)
            .await
            .unwrap_or(Err(HeaderFault::Slow(HEADER_TIMEOUT)))?;
        Ok(())
    }

    /// The client gets no answer, as the protocol's specification asks: without a header,
    /// nothing says what it speaks.
    fn record_header_fault(&self, fault: &HeaderFault, proxy: &Proxy) {
        let peer = self.origin.client;
        if matches!(fault, HeaderFault::Gone | HeaderFault::Io(_)) {
            tracing::debug!(%peer, "client has disconnected: {fault}");
        } else {
            proxy.record_refusal(peer, &RefusalReason::NoProxyHeader(fault.to_string()));
        }
    }

    /// Where the proxy is transparent, the route leads to the original destination. Returns `None` if there
    /// is none; the reason has been logged.
    async fn redirected(mut self, proxy: &Proxy) -> Option<Self> {
        let Some(transparent) = &proxy.transparent else {
            return Some(self);
        };
        // It fails where the client has gone.
        match transparent.route(&self.socket, &self.route).ok()? {
            Ok(route) => {
                self.route = Arc::new(route);
                Some(self)
            }
            Err(why) => {
                let reason = RefusalReason::NoDestination(why);
                proxy.record_refusal(self.origin.client, &reason);
                // In a loop the client is cqlens itself; and a client of TLS could not read the answer.
                if self.route.client_tls.is_none()
                    && matches!(why, NoDestination::NotRedirected(_))
                    && let Some(_permit) = proxy.try_acquire_answer()
                {
                    refusal::answer(&mut self.socket, &reason).await;
                }
                None
            }
        }
    }
}

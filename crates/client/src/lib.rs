#![doc = include_str!("../README.md")]

mod answer;
mod error;
mod statement;

use std::{
    collections::VecDeque,
    fmt::{Debug, Display},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    compress::Compression,
    cutter::Negotiated,
    envelope::{Direction, Envelope, Opcode, StreamId, Version},
    error::{DecodeError, DecodeErrorKind},
    message::{AuthToken, Dialect, ErrorCode, Extensions, Extras, Request, Response, Startup},
    outgoing::Outgoing,
    stream::{DEFAULT_MAX_BODY, EnvelopeStream, StreamItem},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, ToSocketAddrs},
    time::timeout,
};

pub use answer::{Answer, Column};
pub use error::ClientError;
pub use statement::{Bind, Prepared, Run, RunOptions};

/// The driver as which nodes know connections of cqlens itself.
pub const DRIVER_NAME: &str = "cqlens";

/// How to connect.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The protocol version; it is not negotiated here, see [`Client::negotiate`].
    pub version: Version,
    /// What STARTUP asks for; version 5 knows LZ4 only.
    pub compression: Compression,
    /// User name and password, for servers that ask.
    pub credentials: Option<(String, String)>,
    /// Whether they are sent without TLS, too, to a server that is not on this machine.
    pub plaintext_passwords: bool,
    /// How the client calls itself, `APPLICATION_NAME` in STARTUP.
    pub application: String,
    /// TLS to the server; none means a plain connection.
    pub tls: Option<Arc<dyn Handshake>>,
    /// What is sent before everything else, TLS included: a header of the PROXY protocol, where the server
    /// expects one.
    pub preamble: &'static [u8],
    /// Who is shown each connection before anything is sent on it.
    pub watch: Option<Arc<dyn Watch>>,
    /// How long to wait for the connection (and for TLS), and for each response.
    pub timeout: Duration,
    /// The longest body that is taken, in bytes; events that wait take up half as much.
    pub max_answer_bytes: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            version: Version::V4,
            compression: Compression::None,
            credentials: None,
            plaintext_passwords: false,
            application: "cqlens".to_owned(),
            tls: None,
            preamble: &[],
            watch: None,
            timeout: Duration::from_secs(10),
            max_answer_bytes: DEFAULT_MAX_BODY,
        }
    }
}

/// A connection on which STARTUP has succeeded.
#[derive(Debug)]
pub struct Client {
    socket: Box<dyn Socket>,
    peer: Option<SocketAddr>,
    watched: Option<Watched>,
    dialect: Dialect,
    incoming: EnvelopeStream,
    outgoing: Outgoing,
    next_stream: i16,
    events: VecDeque<Envelope>,
    events_dropped: u64,
    max_answer_bytes: usize,
    timeout: Duration,
}

/// A connection on which STARTUP has succeeded, in its parts.
#[derive(Debug)]
pub struct Connection {
    /// Where bytes go and come from.
    pub socket: Box<dyn Socket>,
    /// How messages are written.
    pub dialect: Dialect,
    /// What has been read.
    pub incoming: EnvelopeStream,
    /// What is to be written.
    pub outgoing: Outgoing,
    /// What is to live as long as the socket.
    pub watched: Option<Watched>,
}

/// Events that wait to be asked for. A node may send any number; what they say is read anew after the first.
const MOST_EVENTS: usize = 1_000;

/// A connection, plain or TLS. No data path: a call through a pointer is nothing beside what it is asked for.
pub trait Socket: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin> Socket for T {}

/// Wraps a new connection in TLS.
///
/// Implemented by the owner of certificates and keys, so that the client needs no TLS library.
pub trait Handshake: Debug + Send + Sync {
    /// Does the handshake with a node that has just been connected to.
    ///
    /// # Errors
    /// The connection's, or why node and client do not agree.
    fn handshake(&self, node: TcpStream) -> Handshaking<'_>;
}

/// A handshake that is under way.
pub type Handshaking<'h> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send + 'h>>;

/// Is shown new connections, and refuses those that lead where they must not.
pub trait Watch: Debug + Send + Sync {
    /// Notes a connection as long as what it gives lives.
    ///
    /// # Errors
    /// Why the connection is not to be used.
    fn opened(&self, node: &TcpStream) -> io::Result<Watched>;
}

/// The note of a connection.
pub type Watched = Box<dyn Debug + Send + Sync>;

const READ_LEN: usize = 64 << 10;

impl Client {
    /// Connects with the newest version that the server takes: 5, 4, then 3.
    ///
    /// # Errors
    /// The last version's error.
    pub async fn negotiate(
        address: impl ToSocketAddrs + Display + Copy,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        Self::negotiate_up_to(Version::V5, address, options).await
    }

    /// As [`negotiate`](Self::negotiate), with no version above `highest`. Snappy is left out where it is not
    /// known.
    ///
    /// # Errors
    /// The last version's error.
    pub async fn negotiate_up_to(
        highest: Version,
        address: impl ToSocketAddrs + Display + Copy,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let with = |version: Version| ClientOptions {
            version,
            compression: match options.compression {
                Compression::Snappy if version.uses_segments() => Compression::None,
                compression => compression,
            },
            ..options.clone()
        };
        let mut result = Self::connect(address, &with(highest)).await;
        let lower = [Version::V4, Version::V3].into_iter();
        for version in lower.filter(|version| version.number() < highest.number()) {
            match result {
                Err(
                    ClientError::Server {
                        code: ErrorCode::PROTOCOL_ERROR,
                        ..
                    }
                    | ClientError::Closed,
                ) => {
                    result = Self::connect(address, &with(version)).await;
                }
                other => return other,
            }
        }
        result
    }

    /// Connects, sends STARTUP and authenticates.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn connect(
        address: impl ToSocketAddrs + Display,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect {
            address: address.to_string(),
            error,
        };
        let connecting = timeout(options.timeout, open(&address, options)).await;
        let (socket, peer, watched) = connecting
            .unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        let negotiated = Arc::new(Negotiated::new());
        let mut client = Self {
            socket,
            peer,
            watched,
            dialect: Dialect::new(options.version),
            incoming: EnvelopeStream::new(Direction::Response, Arc::clone(&negotiated))
                .with_max_body(options.max_answer_bytes),
            outgoing: Outgoing::new(Arc::clone(&negotiated)),
            next_stream: 0,
            events: VecDeque::new(),
            events_dropped: 0,
            max_answer_bytes: options.max_answer_bytes,
            timeout: options.timeout,
        };
        client.start(options, &negotiated).await?;
        Ok(client)
    }

    /// Where the node was reached; none if it was gone at once.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The connection itself, for those who send many requests before they read the first response; events that
    /// wait are lost.
    pub fn into_connection(self) -> Connection {
        Connection {
            socket: self.socket,
            dialect: self.dialect,
            incoming: self.incoming,
            outgoing: self.outgoing,
            watched: self.watched,
        }
    }

    async fn start(&mut self, options: &ClientOptions, negotiated: &Negotiated) -> Result<(), ClientError> {
        let mut startup = vec![
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", DRIVER_NAME),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
            ("APPLICATION_NAME", &options.application),
        ];
        startup.extend(options.compression.name().map(|name| ("COMPRESSION", name)));
        let answer = self.call(&Request::Startup(Startup { options: startup })).await?;
        // What the stream has seen in the answer, the sending side has to know as well.
        negotiated.set_compression(options.compression);
        if options.version.uses_segments() {
            negotiated.start_segments();
        }
        match answer.header.opcode {
            Opcode::READY => Ok(()),
            Opcode::AUTHENTICATE => self.authenticate(&answer, options).await,
            other => Err(ClientError::Unexpected(other.to_string())),
        }
    }

    /// `PasswordAuthenticator`'s exchange: SASL PLAIN.
    async fn authenticate(&mut self, asked: &Envelope, options: &ClientOptions) -> Result<(), ClientError> {
        let Some((user, password)) = &options.credentials else {
            return Err(match Response::decode(asked, Extensions::NONE)?.message {
                Response::Authenticate(asked) => {
                    ClientError::CredentialsMissing(asked.authenticator.to_owned())
                }
                other => ClientError::from_response(&other),
            });
        };
        if !may_send_password(options, self.peer) {
            return Err(ClientError::PlaintextPassword);
        }
        let token = [&[0], user.as_bytes(), &[0], password.as_bytes()].concat();
        let answer = self
            .call(&Request::AuthResponse(AuthToken { token: Some(&token) }))
            .await?;
        match answer.header.opcode {
            Opcode::AUTH_SUCCESS => Ok(()),
            other => Err(ClientError::Unexpected(other.to_string())),
        }
    }

    /// Events that found no room since the last call.
    pub fn take_events_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.events_dropped)
    }

    /// The version of the connection.
    pub fn version(&self) -> Version {
        self.dialect.version
    }

    /// Sends a request and waits for its response, which may be an ERROR.
    ///
    /// # Errors
    /// The connection's.
    pub async fn request(&mut self, request: &Request<'_>) -> Result<Envelope, ClientError> {
        self.request_with(request, &Extras::default()).await
    }

    /// As [`request`](Self::request), with what may stand before a message: asking for tracing, or a custom
    /// payload.
    ///
    /// # Errors
    /// The connection's.
    pub async fn request_with(
        &mut self,
        request: &Request<'_>,
        extras: &Extras<'_>,
    ) -> Result<Envelope, ClientError> {
        let stream_id = self.send_with(request, extras)?;
        self.flush().await?;
        self.receive(stream_id).await
    }

    /// As [`request`](Self::request), but an ERROR response is an error.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn call(&mut self, request: &Request<'_>) -> Result<Envelope, ClientError> {
        let response = self.request(request).await?;
        if response.header.opcode == Opcode::ERROR {
            return Err(ClientError::from_response(
                &Response::decode(&response, Extensions::NONE)?.message,
            ));
        }
        Ok(response)
    }

    /// Waits for an event that the client has registered for.
    ///
    /// # Errors
    /// The connection's.
    pub async fn next_event(&mut self) -> Result<Envelope, ClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let envelope = self.next_envelope().await?;
            self.keep_event(envelope);
        }
    }

    fn send(&mut self, request: &Request<'_>) -> Result<StreamId, ClientError> {
        self.send_with(request, &Extras::default())
    }

    fn send_with(&mut self, request: &Request<'_>, extras: &Extras<'_>) -> Result<StreamId, ClientError> {
        let stream_id = StreamId(self.next_stream);
        self.next_stream = self.next_stream.checked_add(1).unwrap_or(0);
        let envelope = request.to_envelope(self.dialect, stream_id, extras)?;
        self.outgoing.push(&envelope)?;
        Ok(stream_id)
    }

    async fn flush(&mut self) -> Result<(), ClientError> {
        let bytes = self.outgoing.take()?;
        self.socket.write_all(&bytes).await?;
        Ok(self.socket.flush().await?)
    }

    async fn receive(&mut self, stream_id: StreamId) -> Result<Envelope, ClientError> {
        match timeout(self.timeout, self.response(stream_id)).await {
            Ok(response) => response,
            Err(_elapsed) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    async fn response(&mut self, stream_id: StreamId) -> Result<Envelope, ClientError> {
        loop {
            let envelope = self.next_envelope().await?;
            if envelope.header.stream_id == stream_id {
                return Ok(envelope);
            }
            self.keep_event(envelope);
        }
    }

    fn keep_event(&mut self, envelope: Envelope) {
        if envelope.header.stream_id != StreamId::EVENT {
            return;
        }
        let (bytes, room) = (weight(&envelope), self.max_answer_bytes / 2);
        let taken: usize = self.events.iter().map(weight).sum();
        if self.events.len() == MOST_EVENTS || taken + bytes > room {
            self.events_dropped += 1;
            return;
        }
        self.events.push_back(Envelope {
            // Its body is a part of a larger buffer.
            body: Bytes::copy_from_slice(&envelope.body),
            ..envelope
        });
    }

    /// Cancel safe: what was read stays in the stream.
    async fn next_envelope(&mut self) -> Result<Envelope, ClientError> {
        loop {
            match self.incoming.next_item() {
                Some(StreamItem::Envelope(envelope)) => return Ok(envelope),
                Some(StreamItem::Long(long)) => return Ok(long.join()),
                Some(StreamItem::Skipped {
                    reason:
                        DecodeError {
                            kind: DecodeErrorKind::TooLarge { .. },
                            ..
                        },
                    ..
                })
                | Some(StreamItem::Head(_)) => {
                    return Err(ClientError::TooLarge {
                        limit: self.max_answer_bytes,
                    });
                }
                Some(
                    StreamItem::Skipped { reason, .. }
                    | StreamItem::Damaged(reason)
                    | StreamItem::Lost(reason),
                ) => return Err(reason.into()),
                None => {
                    let mut chunk = BytesMut::with_capacity(READ_LEN);
                    if self.socket.read_buf(&mut chunk).await? == 0 {
                        return Err(ClientError::Closed);
                    }
                    self.incoming.feed(chunk.freeze());
                }
            }
        }
    }
}

fn weight(event: &Envelope) -> usize {
    size_of::<Envelope>() + event.body.len()
}

async fn open(
    address: &impl ToSocketAddrs,
    options: &ClientOptions,
) -> io::Result<(Box<dyn Socket>, Option<SocketAddr>, Option<Watched>)> {
    let mut socket = TcpStream::connect(address).await?;
    let watch = options.watch.as_ref();
    let watched = watch.map(|watch| watch.opened(&socket)).transpose()?;
    socket.set_nodelay(true)?;
    let peer = socket.peer_addr().ok();
    socket.write_all(options.preamble).await?;
    let socket: Box<dyn Socket> = match &options.tls {
        None => Box::new(socket),
        Some(tls) => tls.handshake(socket).await?,
    };
    Ok((socket, peer, watched))
}

/// Whether the connection keeps a password secret: it uses TLS, or does not leave the machine.
fn may_send_password(options: &ClientOptions, peer: Option<SocketAddr>) -> bool {
    let is_local = |peer: SocketAddr| peer.ip().to_canonical().is_loopback();
    options.tls.is_some() || options.plaintext_passwords || peer.is_some_and(is_local)
}

#[cfg(test)]
mod password_tests {
    use super::*;

    #[test]
    fn a_password_does_not_leave_the_machine_without_tls_or_a_word() {
        let is_sent = |peer: &str, plaintext_passwords| {
            let options = ClientOptions {
                plaintext_passwords,
                ..ClientOptions::default()
            };
            may_send_password(&options, peer.parse().ok())
        };
        for local in [
            "127.0.0.1:9042",
            "127.1.2.3:9042",
            "[::1]:9042",
            "[::ffff:127.0.0.1]:9042",
        ] {
            assert!(is_sent(local, false), "{local}");
        }
        for remote in ["10.0.0.1:9042", "[2001:db8::1]:9042", "0.0.0.0:9042", "unknown"] {
            assert!(!is_sent(remote, false), "{remote}");
            assert!(is_sent(remote, true), "{remote}");
        }
    }
}

//! One connection: bytes to requests, answers to bytes, and the events that the client registered for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use cqlens_proto::cutter::Negotiated;
use cqlens_proto::envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version};
use cqlens_proto::error::{DecodeError, DecodeErrorKind, EncodeError};
use cqlens_proto::message::{Dialect, Extensions, Extras, Request, Response, Startup, Supported};
use cqlens_proto::stream::{DEFAULT_MAX_BODY, EnvelopeStream, StreamItem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, watch};

use super::answer::{self, Answer};
use super::database::{Database, News};
use super::failure::Failure;
use super::session::Session;
use cqlens_proto::outgoing::Outgoing;

/// Serves a client until it hangs up, sends what cannot be answered, or the node stops.
pub(super) async fn serve(
    mut socket: TcpStream,
    database: Arc<Mutex<Database>>,
    mut stopped: watch::Receiver<bool>,
) {
    // Answers are small: waiting to fill a packet would only add latency.
    let _ = socket.set_nodelay(true);
    let events = super::lock(&database).events();
    let mut connection = Connection::new(Session::new(database));
    let mut events = Some(events);
    let mut chunk = BytesMut::with_capacity(READ_LEN);
    loop {
        tokio::select! {
            read = socket.read_buf(&mut chunk) => {
                if !matches!(read, Ok(1..)) {
                    return;
                }
                connection.receive(chunk.split());
                chunk.reserve(READ_LEN);
            }
            event = next_event(&mut events) => connection.announce(&event),
            _ = stopped.changed() => return,
        }
        let Ok(bytes) = connection.outgoing.take() else {
            return;
        };
        if socket.write_all(&bytes).await.is_err() || connection.is_broken {
            return;
        }
    }
}

const READ_LEN: usize = 64 * 1024;

/// What happens next; what a slow connection missed is skipped.
async fn next_event(events: &mut Option<broadcast::Receiver<News>>) -> News {
    while let Some(receiver) = events {
        match receiver.recv().await {
            Ok(news) => return news,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *events = None,
        }
    }
    std::future::pending().await
}

const EVENTS: [&str; 3] = ["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"];

struct Connection {
    incoming: EnvelopeStream,
    negotiated: Arc<Negotiated>,
    outgoing: Outgoing,
    session: Session,
    /// The version of STARTUP.
    version: Option<Version>,
    /// The types of events that it registered for.
    wants: BTreeSet<&'static str>,
    is_broken: bool,
}

impl Connection {
    fn new(session: Session) -> Connection {
        let negotiated = Arc::new(Negotiated::new());
        Connection {
            incoming: EnvelopeStream::new(Direction::Request, Arc::clone(&negotiated)),
            outgoing: Outgoing::new(Arc::clone(&negotiated)),
            negotiated,
            session,
            version: None,
            wants: BTreeSet::new(),
            is_broken: false,
        }
    }

    fn receive(&mut self, chunk: BytesMut) {
        self.incoming.feed(chunk.freeze());
        while let Some(item) = self.incoming.next_item() {
            let sent = match item {
                StreamItem::Envelope(envelope) => self.answer(&envelope),
                StreamItem::Long(long) => self.answer(&long.join()),
                StreamItem::Skipped { header, reason, .. } => self.refuse(&header, &skipped(&header, reason)),
                StreamItem::Head(head) => {
                    let header = &head.envelope.header;
                    self.refuse(header, &too_big(header, DEFAULT_MAX_BODY))
                }
                StreamItem::Damaged(reason) | StreamItem::Lost(reason) => {
                    self.is_broken = true;
                    let header = Header::request(Version::V5, StreamId(0), Opcode::ERROR);
                    self.refuse(&header, &Failure::protocol(reason.to_string()))
                }
            };
            // What cannot be encoded was not answered: a client that waits for it is better off without us.
            self.is_broken |= sent.is_err();
        }
    }

    fn announce(&mut self, news: &News) {
        let Some(version) = self.version else { return };
        let (event_type, event) = match news {
            News::Schema(change) => ("SCHEMA_CHANGE", answer::event(change, version)),
            News::Nodes(announcement) => (announcement.event_type(), announcement.envelope(version)),
        };
        if self.wants.contains(event_type) {
            let sent = event.and_then(|event| self.outgoing.push(&event));
            self.is_broken |= sent.is_err();
        }
    }

    fn answer(&mut self, envelope: &Envelope) -> Result<(), EncodeError> {
        let header = &envelope.header;
        if let Err(failure) = check_version(header) {
            return self.refuse(header, &failure);
        }
        let request = match Request::decode(envelope, Extensions::NONE) {
            Ok(decoded) => decoded.message,
            Err(error) => return self.refuse(header, &Failure::protocol(error.to_string())),
        };
        match request {
            Request::Options => self.supported(header),
            Request::Startup(startup) => self.start(header, &startup),
            Request::AuthResponse(_) => self.refuse(
                header,
                &Failure::protocol("Unexpected message AUTH_RESPONSE, authentication is off"),
            ),
            _ if self.version.is_none() => {
                let message = format!(
                    "Unexpected message {}, expecting STARTUP or OPTIONS",
                    header.opcode
                );
                self.refuse(header, &Failure::protocol(message))
            }
            Request::Register(register) => {
                let known = EVENTS.iter().filter(|known| register.event_types.contains(known));
                self.wants.extend(known);
                self.outgoing
                    .push(&answer::ready(header.version, header.stream_id))
            }
            request => {
                let result = self.session.answer(&request, since_epoch());
                self.send(header, &result)
            }
        }
    }

    fn supported(&mut self, header: &Header) -> Result<(), EncodeError> {
        let options = vec![
            ("PROTOCOL_VERSIONS", vec!["3/v3", "4/v4", "5/v5"]),
            ("COMPRESSION", vec!["snappy", "lz4"]),
            ("CQL_VERSION", vec![super::system::CQL_VERSION]),
        ];
        let supported = Response::Supported(Supported { options });
        let dialect = Dialect::new(header.version);
        self.outgoing
            .push(&supported.to_envelope(dialect, header.stream_id, &Extras::default())?)
    }

    /// READY goes out as STARTUP came in; what follows is framed as the two agreed.
    fn start(&mut self, header: &Header, startup: &Startup<'_>) -> Result<(), EncodeError> {
        if let Some(name) = startup.get("COMPRESSION") {
            let is_known = startup.compression(header.version).name().is_some();
            if !is_known || (header.version == Version::V5 && name.eq_ignore_ascii_case("snappy")) {
                let message = format!("Unknown compression algorithm: {name}");
                return self.refuse(header, &Failure::protocol(message));
            }
        }
        if self.version.is_some() {
            return self.refuse(
                header,
                &Failure::protocol("Unexpected message STARTUP, already set up"),
            );
        }
        self.version = Some(header.version);
        self.outgoing
            .push(&answer::ready(header.version, header.stream_id))?;
        self.negotiated
            .set_compression(startup.compression(header.version));
        if header.version.uses_segments() {
            self.negotiated.start_segments();
        }
        Ok(())
    }

    fn refuse(&mut self, header: &Header, failure: &Failure) -> Result<(), EncodeError> {
        self.send(header, &Err(failure.clone()))
    }

    /// A version that the node does not speak is answered in the newest one that it does, as Cassandra does
    /// it.
    fn send(&mut self, header: &Header, result: &Result<Answer, Failure>) -> Result<(), EncodeError> {
        let version = if is_spoken(header.version) {
            header.version
        } else {
            Version::V5
        };
        let envelope = answer::envelope(result, version, header.stream_id)?;
        self.outgoing.push(&envelope)
    }
}

fn is_spoken(version: Version) -> bool {
    matches!(version, Version::V3 | Version::V4 | Version::V5)
}

fn check_version(header: &Header) -> Result<(), Failure> {
    let number = header.version.number();
    if is_spoken(header.version) {
        return Ok(());
    }
    if header.version == Version::V6Beta && !header.flags.contains(Flags::USE_BETA) {
        return Err(Failure::protocol(
            "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset",
        ));
    }
    Err(Failure::protocol(format!(
        "Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5)"
    )))
}

fn skipped(header: &Header, reason: DecodeError) -> Failure {
    match reason.kind {
        DecodeErrorKind::TooLarge { limit, .. } => too_big(header, limit),
        _ => Failure::protocol(reason.to_string()),
    }
}

fn too_big(header: &Header, limit: usize) -> Failure {
    Failure::invalid(format!(
        "Request is too big: length {} exceeds maximum allowed length {limit}.",
        header.body_len
    ))
}

/// The one place of the node that asks the clock.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

//! Refused clients: the error that they get, the line in the log, the count.
//!
//! A driver takes a bare close for a failing network, and its log does not say more. So the first request is
//! answered with an ERROR, which drivers print. That takes a socket and some time for each client, so only a
//! bounded number is answered at a time; beyond it, cqlens only closes the connection.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use cqlens_proto::envelope::{Direction, Flags, HEADER_LEN, Header, Opcode, Version};
use rustix::io::Errno;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{close::close_gently, transparent::NoDestination, upstream_health::Outage};
use crate::{
    throttle::{INTERVAL, Throttle},
    timers::timeout,
};
use cqlens_capture::{Queue, Refusal};

/// How many refused clients are answered at a time; each takes a file descriptor.
pub const ANSWERED_AT_A_TIME: usize = 64;

/// How long a refused client may take to send its first request and read the answer. Drivers send it at once,
/// and wait 5 seconds for its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Overloaded (v5 §8): drivers take it for a node without room, which it is, and try again later.
const OVERLOADED: u32 = 0x1001;

/// Bounds the work that refusals cause: answers at a time, and lines in the log.
#[derive(Debug)]
pub(super) struct Refusals {
    answers: Arc<Semaphore>,
    throttles: [Throttle; Refusal::ALL.len()],
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            answers: Arc::new(Semaphore::new(ANSWERED_AT_A_TIME)),
            throttles: Default::default(),
        }
    }
}

impl Refusals {
    /// Counts a refusal, and logs it unless the log has just said the same.
    pub(super) fn record(&self, client: SocketAddr, reason: &RefusalReason, queue: &Queue) {
        let refusal = reason.refusal();
        queue.count_refused(refusal);
        let throttle = self.throttles.get(refusal as usize);
        let later = move |clients| {
            let reason = refusal.name();
            tracing::warn!(clients, reason, "more clients were refused within {INTERVAL:?}");
        };
        if throttle.is_none_or(|throttle| throttle.is_new(later)) {
            tracing::warn!(%client, reason = refusal.name(), "{reason}");
        }
    }

    /// Permission to answer a client; none if too many are being answered.
    pub(super) fn try_acquire_answer(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).try_acquire_owned().ok()
    }
}

/// The limit that keeps a client from being admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitReached {
    pub(super) refusal: Refusal,
    pub(super) limit: usize,
    /// Whose limit it is, in words that follow "connections are open".
    pub(super) whose: &'static str,
}

/// The address of a node that leads back to cqlens.
#[derive(Debug)]
pub(super) struct OwnUpstream {
    /// The node, as `host:port`.
    pub(super) upstream: String,
    pub(super) address: SocketAddr,
}

impl fmt::Display for OwnUpstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, address } = self;
        write!(
            out,
            "the address of the node, {upstream}, leads back to a listener of cqlens ({address}); correct it in \
             the settings of cqlens (upstream), or in the node's cassandra.yaml (broadcast_rpc_address)"
        )
    }
}

/// Why a client is refused. Its text is the message that the client gets.
#[derive(Debug)]
pub(super) enum RefusalReason {
    LimitReached(LimitReached),
    /// There is no file descriptor for the connection to the node.
    NoDescriptor,
    /// The connection did not begin with a PROXY header.
    NoProxyHeader(String),
    /// Its original destination is not known, or leads back here.
    NoDestination(NoDestination),
    /// The node's address leads back to cqlens.
    OwnUpstream(OwnUpstream),
    /// It is a connection of cqlens itself, to this address.
    OwnConnection(SocketAddr),
    /// The node accepts no connections.
    UpstreamDown(Outage),
    /// The client has not logged in within this time.
    NoLogin(Duration),
}

impl RefusalReason {
    fn refusal(&self) -> Refusal {
        match self {
            Self::LimitReached(limit) => limit.refusal,
            Self::NoDescriptor => Refusal::Descriptors,
            Self::NoProxyHeader(_) => Refusal::ProxyHeader,
            Self::NoDestination(NoDestination::NotRedirected(_)) => Refusal::Destination,
            Self::NoDestination(NoDestination::Loop(_)) => Refusal::Loop,
            Self::OwnUpstream(_) | Self::OwnConnection(_) => Refusal::Loop,
            Self::UpstreamDown(_) => Refusal::UpstreamDown,
            Self::NoLogin(_) => Refusal::LoginTimeout,
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitReached {
            refusal,
            limit,
            whose,
        } = match self {
            Self::LimitReached(limit) => limit,
            Self::NoDescriptor => {
                return out.write_str("cqlens refuses the connection: it has no file descriptor for it");
            }
            Self::NoProxyHeader(what) => {
                return write!(out, "cqlens refuses the connection: {what}");
            }
            Self::NoDestination(why) => {
                return write!(out, "cqlens refuses the connection: {why}");
            }
            Self::OwnUpstream(own) => {
                return write!(out, "cqlens refuses the connection: {own}");
            }
            Self::OwnConnection(address) => {
                return write!(
                    out,
                    "cqlens refuses the connection: it is cqlens' own connection to {address}, which leads back to cqlens"
                );
            }
            Self::UpstreamDown(outage) => {
                return write!(out, "cqlens refuses the connection: {outage}");
            }
            Self::NoLogin(timeout) => {
                return write!(
                    out,
                    "cqlens closes the connection: the client has not logged in within {timeout:?} (login-timeout)"
                );
            }
        };
        let (one, many, when) = match refusal {
            Refusal::MaxConnectionRatePerClient => ("has come", "have come", " within a second"),
            _ => ("is open", "are open", ""),
        };
        let open = match limit {
            1 => format!("connection {one}"),
            _ => format!("connections {many}"),
        };
        let setting = refusal.name();
        write!(
            out,
            "cqlens refuses the connection: {limit} {open}{whose}{when}, and {setting} allows no more"
        )
    }
}

/// Whether `error` says that there are no file descriptors left, of the process or of the machine.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Answers the first request of a client with the reason, and closes.
///
/// Bytes that do not begin a request of a known version get no answer.
pub(super) async fn answer(client: &mut (impl AsyncRead + AsyncWrite + Unpin), reason: &RefusalReason) {
    // A client that has gone, or sends nothing, misses nothing.
    if let Ok(Ok(true)) = timeout(PATIENCE, answer_first(client, reason)).await {
        close_gently(client).await;
    }
}

/// Whether there was something to answer.
async fn answer_first(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    reason: &RefusalReason,
) -> io::Result<bool> {
    let mut header = [0; HEADER_LEN];
    client.read_exact(&mut header).await?;
    let request = Header::decode(&header);
    if request.direction != Direction::Request || !request.version.is_known() {
        return Ok(false);
    }
    client.write_all(&error(request, &reason.to_string())).await?;
    client.flush().await?;
    Ok(true)
}

/// An ERROR with `message`, in answer to `request`. The first response of a connection is never in a segment.
fn error(request: Header, message: &str) -> Vec<u8> {
    let message: Vec<u8> = message.bytes().take(usize::from(u16::MAX)).collect();
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let mut header = Header::response(request.version, request.stream_id, Opcode::ERROR);
    header.flags = beta(request.version);
    header.body_len = 4 + 2 + u32::from(length);
    let mut bytes = header.encode().to_vec();
    bytes.extend(OVERLOADED.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(message);
    bytes
}

/// Responses of a beta version carry its flag, too.
fn beta(version: Version) -> Flags {
    match version {
        Version::V6Beta => Flags::USE_BETA,
        _ => Flags::NONE,
    }
}

//! Notices that the other end of a connection has gone without a word: a machine without power, a cable that was cut.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::Policy;

/// Asks the kernel to look after `socket` as the settings have it. Where it cannot, the connection goes on without.
pub(super) fn set(socket: &TcpStream, policy: &Policy) {
    let socket = SockRef::from(socket);
    let keepalive = match policy.keepalive {
        None => Ok(()),
        Some(silence) => socket.set_tcp_keepalive(&probes(silence)),
    };
    let unacknowledged = match policy.unacknowledged_timeout {
        None => Ok(()),
        timeout => socket.set_tcp_user_timeout(timeout),
    };
    if let Err(error) = keepalive.and(unacknowledged) {
        tracing::debug!(%error, "keepalive cannot be set");
    }
}

/// After `silence` three questions, so that one that is lost costs no connection.
fn probes(silence: Duration) -> TcpKeepalive {
    let between = (silence / 6).clamp(Duration::from_secs(1), BETWEEN_PROBES);
    TcpKeepalive::new()
        // The kernel counts in seconds, and takes none for an error.
        .with_time(silence.max(Duration::from_secs(1)))
        .with_interval(between)
        .with_retries(PROBES)
}

const PROBES: u32 = 3;
/// No answer after so long is no answer.
const BETWEEN_PROBES: Duration = Duration::from_secs(10);

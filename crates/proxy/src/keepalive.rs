//! TCP keepalive: detects a peer that is gone without a FIN or reset, as after a power
//! failure or a cut cable.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::Policy;

/// Sets keepalive and `TCP_USER_TIMEOUT` of `socket` by the policy. Where that fails, the
/// connection goes on without.
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

/// Three probes after `silence`, so that a lost one costs no connection.
fn probes(silence: Duration) -> TcpKeepalive {
    let between = (silence / 6).clamp(Duration::from_secs(1), BETWEEN_PROBES);
    TcpKeepalive::new()
        // The kernel counts in seconds, and refuses 0.
        .with_time(silence.max(Duration::from_secs(1)))
        .with_interval(between)
        .with_retries(PROBES)
}

const PROBES: u32 = 3;
/// A probe that is not answered after so long is lost.
const BETWEEN_PROBES: Duration = Duration::from_secs(10);

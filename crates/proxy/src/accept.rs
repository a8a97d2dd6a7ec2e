//! Clients that could not be accepted.

use std::{io, time::Duration};

use tokio::time::sleep;

use crate::throttle::{INTERVAL, Throttle};

/// How a listener handles errors: it goes on. They pass (a client that has gone, no file descriptors left),
/// and do not affect open connections.
#[derive(Debug, Default)]
pub(super) struct AcceptErrors {
    throttle: Throttle,
}

impl AcceptErrors {
    /// Logs the error, unless the log has just said so, and pauses if the next accept would fail as well.
    pub(super) async fn after(&self, error: &io::Error) {
        if is_of_one_client(error) {
            tracing::debug!(%error, "a client left before it was accepted");
            return;
        }
        let later = |attempts| {
            tracing::warn!(attempts, "still accepting no clients, for {INTERVAL:?}");
        };
        if self.throttle.is_new(later) {
            tracing::warn!(%error, "\
                no clients can be accepted for now, they have to wait; open connections continue");
        }
        sleep(PAUSE).await;
    }
}

/// Errors of one client: the next one may be waiting already.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Without file descriptors every attempt fails at once; a pause keeps the loop from spinning.
const PAUSE: Duration = Duration::from_millis(50);

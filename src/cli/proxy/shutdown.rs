//! How a shutdown goes on: its phases, and its deadlines.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::args::Args;
use crate::cli::signals::EndPatience;

/// How far the shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// No shutdown has begun.
    Serving,
    /// Clients are still accepted until then, while `/readyz` already says 503 (`--drain-delay`).
    Delayed(Instant),
    /// Requests in flight may end, until then at most.
    Draining(Instant),
    /// The operator has asked twice: the process waits for nothing beyond this.
    AtOnce(Instant),
}

impl ShutdownPhase {
    /// What connections have not used of the grace period: it is for the audit of their last requests, and for what waits
    /// to be written.
    pub(super) fn unused_grace(self) -> Duration {
        match self {
            Self::Draining(until) => until.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        }
    }

    /// Waits for the next phase, if it comes by itself.
    pub(super) async fn due(self) {
        match self {
            Self::Delayed(at) | Self::AtOnce(at) => sleep_until(at).await,
            Self::Serving | Self::Draining(_) => std::future::pending().await,
        }
    }
}

/// How long the process may take to end, even if it is stuck.
pub(super) fn patience(args: &Args) -> EndPatience {
    EndPatience {
        first: args.drain_delay + args.grace + BEYOND_GRACE,
        again: AT_ONCE,
    }
}

/// Clients whose connection ends at once have so long to read the end of the stream.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);

/// When all connections have ended, auditors have so long, and what is left of `--grace`, to count what waits for them; the
/// rest is left out.
pub(super) const AUDITORS: Duration = Duration::from_secs(6);

/// The process ends at the latest so long after `--drain-delay` and `--grace`: [`AUDITORS`], and the
/// writing before and after that.
const BEYOND_GRACE: Duration = Duration::from_secs(15);

/// The process ends at the latest so long after a second signal: [`GOODBYE`], twice, and the last report.
const AT_ONCE: Duration = Duration::from_secs(4);

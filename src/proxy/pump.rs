//! The only place where bytes move.

use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::chunks::{Expected, next_chunk};
use crate::capture::Tap;

/// Why a direction, or a connection, came to its end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The reading side said that nothing more comes; the writing side was told.
    Finished,
    /// Reading failed: whoever sends has gone.
    ReadFailed(Side, io::Error),
    /// Writing failed: whoever receives has gone.
    WriteFailed(Side, io::Error),
    /// cqlens is shutting down.
    Drained,
    /// Nothing has passed for as long as the operator allows.
    Idle,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Upstream,
}

impl Ended {
    /// The same end, of the direction that reads from the client: pumps do not know which one they are.
    pub(super) fn of_requests(self) -> Self {
        match self {
            Self::ReadFailed(_, error) => Self::ReadFailed(Side::Client, error),
            Self::WriteFailed(_, error) => Self::WriteFailed(Side::Upstream, error),
            other => other,
        }
    }

    /// Which side has ended the connection without a goodbye, if one has: it would have reset the other one, were they connected
    /// with each other.
    pub(super) fn reset_by(&self) -> Option<Side> {
        let (Self::ReadFailed(side, error) | Self::WriteFailed(side, error)) = self else {
            return None;
        };
        let gone = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        gone.contains(&error.kind()).then_some(*side)
    }

    /// Whether the other direction cannot go on either.
    ///
    /// A node that no longer reads may still have responses on their way, so a failed write to it is no reason to
    /// stop reading from it.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Finished => false,
            Self::WriteFailed(side, _) => *side == Side::Client,
            Self::ReadFailed(..) | Self::Drained | Self::Idle => true,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, side, error) = match self {
            Self::Finished => return formatter.write_str("closed by both sides"),
            Self::Drained => return formatter.write_str("closed by cqlens"),
            Self::Idle => return formatter.write_str("closed by cqlens, nothing has passed for too long"),
            Self::ReadFailed(side, error) => ("reading from", side, error),
            Self::WriteFailed(side, error) => ("writing to", side, error),
        };
        let side = if *side == Side::Client {
            "client"
        } else {
            "upstream"
        };
        write!(formatter, "{verb} the {side} failed: {error}")
    }
}

/// Writes to `to` what it reads from `from`, unchanged and at once, until `from` ends; then ends `to`.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tap: Tap,
) -> Ended {
    let mut expected = Expected::default();
    loop {
        let chunk = match next_chunk(&mut from, &mut expected).await {
            Ok(chunk) if chunk.is_empty() => break,
            Ok(chunk) => chunk,
            // Only TLS says this: the connection ended without a goodbye. Many drivers close like that; and since envelopes
            // tell their length, a receiver cannot take what is cut off for the whole.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Ended::ReadFailed(Side::Upstream, error),
        };
        tap.offer(&chunk);
        if let Err(error) = write(&mut to, &chunk).await {
            return Ended::WriteFailed(Side::Client, error);
        }
    }
    match to.shutdown().await {
        Ok(()) => Ended::Finished,
        Err(error) => Ended::WriteFailed(Side::Client, error),
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), chunk: &[u8]) -> io::Result<()> {
    to.write_all(chunk).await?;
    // TLS keeps records that its socket has no room for, until it is asked to be done with them. Nothing to do elsewhere.
    to.flush().await
}

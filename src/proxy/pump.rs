//! The only place where bytes move.
//!
//! Where clients are shown the addresses of listeners instead of those of nodes, [`pump`] also shows requests to whoever follows them, and
//! responses move in [`pump_rewritten`]. The tap sees what was sent, not what became of it.

use std::{fmt, io};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{
    chunks::{Expected, next_chunk},
    topology::{Responses, Unreadable},
};
use cqlens_audit::capture::Tap;

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
    /// The same, after one side had finished.
    HalfClosed,
    /// The client has not logged in within the time that it had.
    NoLogin,
    /// The node sent what might lead the client around cqlens.
    Unreadable(Unreadable),
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

    /// Whether neither side has ended the connection.
    pub(super) fn is_ours(&self) -> bool {
        use Ended::{Drained, HalfClosed, Idle, NoLogin, Unreadable};
        matches!(self, Drained | Idle | HalfClosed | NoLogin | Unreadable(_))
    }

    /// Whether the other direction cannot go on either.
    ///
    /// A node that no longer reads may still have responses on their way, so a failed write to it is no reason to
    /// stop reading from it.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Finished => false,
            Self::WriteFailed(side, _) => *side == Side::Client,
            Self::ReadFailed(..) => true,
            _ => self.is_ours(),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, side, error) = match self {
            Self::Finished => return formatter.write_str("closed by both sides"),
            Self::Drained => return formatter.write_str("closed by cqlens"),
            Self::Idle => return formatter.write_str("closed by cqlens, nothing has passed for too long"),
            Self::HalfClosed => {
                return formatter.write_str(
                    "closed by cqlens, one side has finished and nothing has passed for too long",
                );
            }
            Self::NoLogin => return formatter.write_str("closed by cqlens, the client has not logged in"),
            Self::Unreadable(reason) => {
                return write!(
                    formatter,
                    "closed by cqlens, which cannot tell what addresses it may pass on: {reason}"
                );
            }
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

/// Writes to `to` what it reads from `from`, unchanged and at once, until `from` ends; then ends `to`. `follow` sees it before.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tap: Tap,
    mut follow: impl FnMut(&Bytes),
) -> Ended {
    let mut expected = Expected::default();
    loop {
        let chunk = match read(&mut from, &mut expected).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(ended) => return ended,
        };
        tap.offer(&chunk);
        follow(&chunk);
        if let Err(error) = write(&mut to, &chunk).await {
            return Ended::WriteFailed(Side::Client, error);
        }
    }
    end(to).await
}

/// Writes to `to` what becomes of what it reads from `from`, until `from` ends; then ends `to`.
pub(super) async fn pump_rewritten(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tap: Tap,
    mut responses: Responses<'_>,
) -> Ended {
    let mut expected = Expected::default();
    loop {
        let chunk = match read(&mut from, &mut expected).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(ended) => return ended,
        };
        tap.offer(&chunk);
        responses.feed(chunk);
        loop {
            let written = match responses.next().await {
                Ok(Some(bytes)) => write(&mut to, &bytes).await,
                Ok(None) => break,
                Err(unreadable) => return Ended::Unreadable(unreadable),
            };
            if let Err(error) = written {
                return Ended::WriteFailed(Side::Client, error);
            }
        }
    }
    end(to).await
}

/// The next chunk, none at the end.
async fn read(from: &mut (impl AsyncRead + Unpin), expected: &mut Expected) -> Result<Option<Bytes>, Ended> {
    match next_chunk(from, expected).await {
        Ok(chunk) => Ok(Some(chunk).filter(|chunk| !chunk.is_empty())),
        // Only TLS says this: the connection ended without a goodbye. Many drivers close like that; and since envelopes
        // tell their length, a receiver cannot take what is cut off for the whole.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Ended::ReadFailed(Side::Upstream, error)),
    }
}

async fn end(mut to: impl AsyncWrite + Unpin) -> Ended {
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

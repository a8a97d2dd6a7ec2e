//! The only place where bytes move.
//!
//! Where clients are shown the addresses of listeners in place of those of nodes, [`pump`] also passes
//! requests to a follower, and responses move in [`pump_rewritten`]. The tap sees the bytes as they were
//! sent, before they are rewritten.

use std::{fmt, io};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{
    chunks::{ReadSize, next_chunk},
    topology::{Responses, Unreadable},
};
use cqlens_capture::Tap;

/// Why a direction, or a connection, came to its end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The sender ended its stream, and the end was passed on to the receiver.
    Finished,
    /// Reading failed: the sender has gone.
    ReadFailed(FailedSide, io::Error),
    /// Writing failed: the receiver has gone.
    WriteFailed(FailedSide, io::Error),
    /// cqlens is shutting down.
    Drained,
    /// Nothing has passed for as long as the operator allows.
    Idle,
    /// The same, after one side had finished.
    HalfClosed,
    /// The client has not logged in by its deadline.
    NoLogin,
    /// The node sent a response whose addresses cannot be replaced: it might lead the client around cqlens.
    Unreadable(Unreadable),
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedSide {
    Client,
    Upstream,
}

impl Ended {
    /// The same end, for the direction that reads from the client. A pump does not know its direction.
    pub(super) fn of_requests(self) -> Self {
        match self {
            Self::ReadFailed(_, error) => Self::ReadFailed(FailedSide::Client, error),
            Self::WriteFailed(_, error) => Self::WriteFailed(FailedSide::Upstream, error),
            other => other,
        }
    }

    /// The side that has reset the connection, if one has. The reset is passed on to the other side.
    pub(super) fn reset_by(&self) -> Option<FailedSide> {
        let (Self::ReadFailed(side, error) | Self::WriteFailed(side, error)) = self else {
            return None;
        };
        let gone = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        gone.contains(&error.kind()).then_some(*side)
    }

    /// Whether cqlens ends the connection, and neither side has.
    pub(super) fn is_ours(&self) -> bool {
        use Ended::{Drained, HalfClosed, Idle, NoLogin, Unreadable};
        matches!(self, Drained | Idle | HalfClosed | NoLogin | Unreadable(_))
    }

    /// Whether the other direction cannot go on either.
    ///
    /// A node that no longer reads may still have responses on their way, so a failed write to it is no
    /// reason to stop reading from it.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Finished => false,
            Self::WriteFailed(side, _) => *side == FailedSide::Client,
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
            Self::Idle => return formatter.write_str("closed by cqlens, idle for too long"),
            Self::HalfClosed => {
                return formatter.write_str(
                    "closed by cqlens, one side has finished and the other was idle for too long",
                );
            }
            Self::NoLogin => return formatter.write_str("closed by cqlens, the client has not logged in"),
            Self::Unreadable(reason) => {
                return write!(
                    formatter,
                    "closed by cqlens, which cannot determine the addresses to pass on: {reason}"
                );
            }
            Self::ReadFailed(side, error) => ("reading from", side, error),
            Self::WriteFailed(side, error) => ("writing to", side, error),
        };
        let side = if *side == FailedSide::Client {
            "client"
        } else {
            "upstream"
        };
        write!(formatter, "{verb} the {side} failed: {error}")
    }
}

/// Writes to `to` what it reads from `from`, unchanged and at once, until `from` ends; then ends `to`. Each
/// chunk goes to `follow` before it is written.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tap: Tap,
    mut follow: impl FnMut(&Bytes),
) -> Ended {
    let mut size = ReadSize::default();
    loop {
        let chunk = match read(&mut from, &mut size).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(ended) => return ended,
        };
        tap.offer(&chunk);
        follow(&chunk);
        if let Err(error) = write(&mut to, &chunk).await {
            return Ended::WriteFailed(FailedSide::Client, error);
        }
        tap.sent();
    }
    end(to).await
}

/// Writes to `to` what `responses` makes of the bytes from `from`, until `from` ends; then ends `to`.
pub(super) async fn pump_rewritten(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tap: Tap,
    mut responses: Responses<'_>,
) -> Ended {
    let mut size = ReadSize::default();
    loop {
        let chunk = match read(&mut from, &mut size).await {
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
                return Ended::WriteFailed(FailedSide::Client, error);
            }
        }
        tap.sent();
    }
    end(to).await
}

/// The next chunk; none at the end of the stream.
async fn read(from: &mut (impl AsyncRead + Unpin), size: &mut ReadSize) -> Result<Option<Bytes>, Ended> {
    match next_chunk(from, size).await {
        Ok(chunk) => Ok(Some(chunk).filter(|chunk| !chunk.is_empty())),
        // Only TLS reports this: the connection ended without a close_notify. Many drivers close so. An
        // envelope has its length in its header, so a receiver cannot take a cut-off one for a whole one.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Ended::ReadFailed(FailedSide::Upstream, error)),
    }
}

async fn end(mut to: impl AsyncWrite + Unpin) -> Ended {
    match to.shutdown().await {
        Ok(()) => Ended::Finished,
        Err(error) => Ended::WriteFailed(FailedSide::Client, error),
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), chunk: &[u8]) -> io::Result<()> {
    to.write_all(chunk).await?;
    // TLS keeps records that its socket had no room for until it is flushed. Elsewhere this does nothing.
    to.flush().await
}

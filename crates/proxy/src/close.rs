//! How the data path ends a connection: with a reset, or so that the client reads what was sent.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::timers;

/// Passes a reset on: the other side must not take a cut-off stream for a finished one.
pub(super) fn reset(other: &TcpStream) {
    // A socket that cannot be set up so is closed in the usual way.
    let _ = other.set_zero_linger();
}

/// Sends the client the end of the stream and gives it a moment to read what came before.
///
/// Closing a socket that has unread bytes resets it, and a reset can destroy responses that
/// the client has not read yet.
pub(super) async fn close_gently(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    if client.shutdown().await.is_err() {
        return;
    }
    // On the heap: in the task, every open connection would keep room for it.
    let mut ignored = vec![0; 4096];
    let until_closed = async { while matches!(client.read(&mut ignored).await, Ok(n) if n > 0) {} };
    // A client that never closes loses nothing: the end of the stream was sent.
    let _ = timers::timeout(LINGER, until_closed).await;
}

const LINGER: Duration = Duration::from_millis(500);

//! One client and the node it talks to.

use std::{io, sync::Arc};

use cqlens_proto::envelope::Direction;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    Drain, Route,
    pump::{Ended, pump},
};
use crate::capture::{Clock, Connection, Queue, Tap};

/// Forwards until both directions have ended, one of them has failed, or the drain lets go of the connection.
pub(super) async fn run(
    mut client: TcpStream,
    connection: &Arc<Connection>,
    route: &Route,
    queue: Arc<Queue>,
    clock: Clock,
    drain: Drain,
) {
    let mut upstream = match connect(route).await {
        Ok(upstream) => upstream,
        Err(error) => {
            tracing::warn!(client = %connection.client, upstream = %route.upstream, %error,
                "upstream refused the connection, the client's is closed");
            return;
        }
    };
    if let Err(error) = client.set_nodelay(true) {
        tracing::debug!(client = %connection.client, %error, "client has gone");
        return;
    }
    if let Ok(address) = upstream.peer_addr() {
        connection.reaches(address);
    }
    tracing::debug!(client = %connection.client, "connection opened");
    let ended = {
        let (client_read, client_write) = client.split();
        let (upstream_read, upstream_write) = upstream.split();
        let requests = Tap::new(
            Arc::clone(connection),
            Direction::Request,
            Arc::clone(&queue),
            clock,
        );
        let responses = Tap::new(Arc::clone(connection), Direction::Response, queue, clock);
        tokio::select! {
            ended = both(pump(client_read, upstream_write, requests), pump(upstream_read, client_write, responses)) => ended,
            () = drain.releases(connection) => Ended::Drained,
        }
    };
    tracing::debug!(client = %connection.client, %ended, bytes = connection.bytes(), "connection closed");
    if matches!(ended, Ended::Drained) {
        close_gently(&mut client).await;
    }
}

/// Waits for both directions to end; a direction that fails ends the connection at once.
async fn both(requests: impl Future<Output = Ended>, responses: impl Future<Output = Ended>) -> Ended {
    tokio::pin!(requests, responses);
    let (mut requests_ended, mut responses_ended) = (None, None);
    loop {
        tokio::select! {
            ended = &mut requests, if requests_ended.is_none() => requests_ended = Some(ended.of_requests()),
            ended = &mut responses, if responses_ended.is_none() => responses_ended = Some(ended),
        }
        match (requests_ended.take(), responses_ended.take()) {
            (Some(failed), _) | (_, Some(failed)) if failed.ends_connection() => return failed,
            (Some(_), Some(ended)) => return ended,
            (requests, responses) => (requests_ended, responses_ended) = (requests, responses),
        }
    }
}

async fn connect(route: &Route) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect(&route.upstream);
    let upstream = tokio::time::timeout(route.connect_timeout, connecting)
        .await
        .map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
    upstream.set_nodelay(true)?;
    Ok(upstream)
}

/// Tells the client that nothing more comes and gives it a moment to read what did.
///
/// Closing a socket that has unread bytes resets it, and a reset can destroy responses that the client has not
/// read yet.
async fn close_gently(client: &mut TcpStream) {
    if client.shutdown().await.is_err() {
        return;
    }
    let mut ignored = [0; 4096];
    let until_closed = async { while matches!(client.read(&mut ignored).await, Ok(n) if n > 0) {} };
    // A client that never closes loses nothing: it has been told.
    let _ = tokio::time::timeout(LINGER, until_closed).await;
}

const LINGER: std::time::Duration = std::time::Duration::from_millis(500);

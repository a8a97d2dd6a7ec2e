//! The connections below the routes: HTTP/1.1, few at a time, none for long.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::{
    Admin,
    routes::{Peer, routes},
};

/// Answers on `listener`; never returns. Drop the future to stop; answers under way are still given.
///
/// No more than 64 connections at a time: others wait to be accepted. A request's head comes within 5 seconds and has no more
/// than 16 KiB and 64 lines; bodies are not read; a connection ends after a minute.
pub async fn serve(listener: TcpListener, admin: Admin) {
    let routes = routes(Arc::new(admin));
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // A semaphore that nobody closes gives places for ever.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((socket, peer)) => {
                tokio::spawn(connection(socket, peer, routes.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener could not accept");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, peer: SocketAddr, routes: Router, place: OwnedSemaphorePermit) {
    let service = TowerToHyperService::new(routes.layer(Extension(Peer(peer))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(socket), service);
    if let Ok(Err(error)) = timeout(LONGEST, connection).await {
        tracing::debug!(%peer, %error, "a connection of the admin listener failed");
    }
    drop(place);
}

const MOST_CONNECTIONS: usize = 64;
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 16 << 10;
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

//! The connections below the routes: HTTP/1.1, few at a time, none for long.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    middleware::{self, Next},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::AbortHandle,
    time::{Instant, interval, sleep, timeout},
};

use super::{
    Admin,
    routes::{Peer, routes},
};

/// Where operators and probes connect.
#[derive(Debug)]
pub enum Listener {
    /// From any machine.
    Tcp(TcpListener),
    /// From this machine, as far as the socket's permissions allow.
    Unix(UnixListener),
}

/// Answers on `listener`; never returns. Drop the future to stop; answers under way are still given.
///
/// No more than 64 connections at a time: one more costs the one its place that has kept cqlens waiting for the longest time, so that
/// a probe always gets in. A connection that asks nothing for 5 seconds is closed. A request's head has no more than 16 KiB and 64 lines;
/// bodies are not read; a connection ends after a minute.
pub async fn serve(listener: Listener, admin: Admin) {
    let routes = routes(Arc::new(admin));
    let mut connections = Connections::default();
    let mut sweep = interval(SWEEP);
    loop {
        tokio::select! {
            accepted = connections.accept(&listener, &routes) => if let Err(error) = accepted {
                tracing::warn!(%error, "the admin listener could not accept");
                sleep(ACCEPT_PAUSE).await;
            },
            _ = sweep.tick() => connections.close_idle(Instant::now()),
        }
    }
}

/// Those that are open.
#[derive(Default)]
struct Connections(Vec<Open>);

struct Open {
    task: AbortHandle,
    activity: Arc<Activity>,
}

impl Open {
    fn idle_since(&self) -> Option<Instant> {
        *self.activity.0.lock()
    }
}

/// Since when a connection asks nothing; none while it waits for an answer.
struct Activity(Mutex<Option<Instant>>);

impl Connections {
    /// Accepts the next one. Nothing is lost if the future is dropped.
    async fn accept(&mut self, listener: &Listener, routes: &Router) -> io::Result<()> {
        match listener {
            Listener::Tcp(listener) => {
                let (socket, from) = listener.accept().await?;
                let to = socket.local_addr()?;
                self.open(socket, Peer::Tcp { from, to }, routes);
            }
            Listener::Unix(listener) => {
                let (socket, _unnamed) = listener.accept().await?;
                self.open(socket, Peer::Unix, routes);
            }
        }
        Ok(())
    }

    fn open<S>(&mut self, socket: S, peer: Peer, routes: &Router)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if !self.make_room() {
            return;
        }
        let activity = Arc::new(Activity(Mutex::new(Some(Instant::now()))));
        let own = Arc::clone(&activity);
        let routes = routes
            .clone()
            .layer(middleware::from_fn(move |request, next| {
                answer(Arc::clone(&own), request, next)
            }))
            .layer(Extension(peer));
        let task = tokio::spawn(connection(socket, peer, routes)).abort_handle();
        self.0.push(Open { task, activity });
    }

    /// Closes the connection that asks nothing for the longest time, if there are too many; false where all wait for answers.
    fn make_room(&mut self) -> bool {
        self.0.retain(|open| !open.task.is_finished());
        if self.0.len() < MOST_CONNECTIONS {
            return true;
        }
        let idle = self.0.iter().enumerate();
        let idle = idle.filter_map(|(index, open)| Some((open.idle_since()?, index)));
        let Some((_, index)) = idle.min() else {
            return false;
        };
        self.0.swap_remove(index).task.abort();
        true
    }

    fn close_idle(&mut self, now: Instant) {
        self.0.retain(|open| {
            let is_idle = open
                .idle_since()
                .is_some_and(|since| now.duration_since(since) >= IDLE);
            if is_idle {
                open.task.abort();
            }
            !is_idle && !open.task.is_finished()
        });
    }
}

/// Notes that a request is being answered.
async fn answer(activity: Arc<Activity>, request: Request, next: Next) -> axum::response::Response {
    *activity.0.lock() = None;
    let response = next.run(request).await;
    *activity.0.lock() = Some(Instant::now());
    response
}

async fn connection<S>(socket: S, peer: Peer, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(LARGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(routes));
    if let Ok(Err(error)) = timeout(LONGEST, connection).await {
        tracing::debug!(?peer, %error, "a connection of the admin listener failed");
    }
}

const MOST_CONNECTIONS: usize = 64;
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 16 << 10;
/// Without a whole request.
const IDLE: Duration = Duration::from_secs(5);
const SWEEP: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

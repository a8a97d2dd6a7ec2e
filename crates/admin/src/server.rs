//! The connections below the routes: HTTP/1.1, few at a time, none for long.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

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
    time::{interval, sleep, timeout},
};

use super::{access::Peer, routes::routes, status::Admin};
use cqlens_proxy::tls::Acceptor;

/// Where operators and probes connect.
#[derive(Debug)]
pub enum AdminListener {
    /// From any machine.
    Tcp(TcpListener),
    /// From any machine, with TLS.
    Tls(TcpListener, Acceptor),
    /// From this machine, as far as the socket's permissions allow.
    Unix(UnixListener),
}

/// Answers on `listener`; never returns. Drop the future to stop; answers under way are still given.
///
/// At most 64 connections at a time: one more closes the one that has been idle for the longest time, so that
/// a probe always gets in. A connection that is idle for 5 seconds is closed, and any after a minute. A
/// request's head has at most 16 KiB and 64 lines; of bodies at most 1 KiB is read.
pub async fn serve(listener: AdminListener, admin: Admin) {
    let routes = routes(Arc::new(admin));
    let mut connections = Connections::default();
    let mut sweep = interval(SWEEP);
    loop {
        tokio::select! {
            accepted = connections.accept(&listener, &routes) => if let Err(error) = accepted {
                tracing::warn!(%error, "the admin listener could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            },
            _ = sweep.tick() => connections.close_idle(),
        }
    }
}

/// Those that are open.
#[derive(Default)]
struct Connections {
    open: Vec<Open>,
    /// Counts the actions of connections, to order them.
    turns: Arc<AtomicU64>,
}

struct Open {
    task: AbortHandle,
    activity: Arc<Activity>,
    /// The turn since which it was idle at the last check, and at how many checks in a row.
    seen: (Option<u64>, u32),
}

/// The turn since which a connection is idle; none while it waits for an answer.
struct Activity {
    idle_since: Mutex<Option<u64>>,
    turns: Arc<AtomicU64>,
}

impl Activity {
    fn idle_since(&self) -> Option<u64> {
        *self.idle_since.lock()
    }

    fn is_idle(&self) {
        *self.idle_since.lock() = Some(self.turns.fetch_add(1, Ordering::Relaxed));
    }

    fn is_busy(&self) {
        *self.idle_since.lock() = None;
    }
}

impl Connections {
    /// Accepts the next one. Nothing is lost if the future is dropped.
    async fn accept(&mut self, listener: &AdminListener, routes: &Router) -> io::Result<()> {
        match listener {
            AdminListener::Tcp(listener) => {
                let (socket, from) = listener.accept().await?;
                let to = socket.local_addr()?;
                let peer = Peer::Tcp { from, to };
                self.open(peer, routes, |routes| connection(socket, peer, routes));
            }
            AdminListener::Tls(listener, acceptor) => {
                let (socket, from) = listener.accept().await?;
                let to = socket.local_addr()?;
                let peer = Peer::Tcp { from, to };
                let acceptor = acceptor.clone();
                self.open(peer, routes, |routes| async move {
                    match acceptor.accept(socket).await {
                        Ok(stream) => connection(stream, peer, routes).await,
                        Err(fault) => tracing::debug!(?peer, %fault, "no TLS on the admin listener"),
                    }
                });
            }
            AdminListener::Unix(listener) => {
                let (socket, _unnamed) = listener.accept().await?;
                self.open(Peer::Unix, routes, |routes| {
                    connection(socket, Peer::Unix, routes)
                });
            }
        }
        Ok(())
    }

    /// Serves a connection, which `serve` does with the routes that know its peer. A handshake counts as idle.
    fn open<F>(&mut self, peer: Peer, routes: &Router, serve: impl FnOnce(Router) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if !self.make_room() {
            return;
        }
        let activity = Arc::new(Activity {
            idle_since: Mutex::default(),
            turns: Arc::clone(&self.turns),
        });
        activity.is_idle();
        let own = Arc::clone(&activity);
        let routes = routes
            .clone()
            .layer(middleware::from_fn(move |request, next| {
                answer(Arc::clone(&own), request, next)
            }))
            .layer(Extension(peer));
        let task = tokio::spawn(serve(routes)).abort_handle();
        self.open.push(Open {
            task,
            activity,
            seen: (None, 0),
        });
    }

    /// Closes the connection that has been idle for the longest time, if there are too many.
    /// False if all wait for answers.
    fn make_room(&mut self) -> bool {
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() < MOST_CONNECTIONS {
            return true;
        }
        let idle = self.open.iter().enumerate();
        let idle = idle.filter_map(|(index, open)| Some((open.activity.idle_since()?, index)));
        let Some((_, index)) = idle.min() else {
            return false;
        };
        self.open.swap_remove(index).task.abort();
        true
    }

    /// Closes connections that were idle the last few times, too.
    fn close_idle(&mut self) {
        self.open.retain_mut(|open| {
            let idle_since = open.activity.idle_since();
            let looks = match open.seen {
                (since @ Some(_), looks) if since == idle_since => looks + 1,
                _ => 0,
            };
            open.seen = (idle_since, looks);
            if looks >= MOST_LOOKS {
                open.task.abort();
            }
            looks < MOST_LOOKS && !open.task.is_finished()
        });
    }
}

/// Notes that a request is being answered.
async fn answer(activity: Arc<Activity>, request: Request, next: Next) -> axum::response::Response {
    activity.is_busy();
    let response = next.run(request).await;
    activity.is_idle();
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
/// Looks at a connection that is idle, of which the first finds that it has become so.
const MOST_LOOKS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

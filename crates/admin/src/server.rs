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
    task::{AbortHandle, yield_now},
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
/// At most 64 connections at a time: one more closes the one that has been idle for the longest time after an
/// answer, or else before its first request, so that a probe always gets in. A connection that is idle for 5
/// seconds is closed, and any after a minute. A request's head has at most 16 KiB and 64 lines; of bodies at
/// most 1 KiB is read.
pub async fn serve(listener: AdminListener, admin: Admin) {
    serve_routes(listener, &routes(Arc::new(admin))).await;
}

async fn serve_routes(listener: AdminListener, routes: &Router) {
    let mut connections = Connections::default();
    let mut sweep = interval(SWEEP);
    loop {
        tokio::select! {
            accepted = connections.accept(&listener, routes) => match accepted {
                // Connections that have already sent a request are answered before the next one can displace them.
                Ok(()) => yield_now().await,
                Err(error) => {
                    tracing::warn!(%error, "the admin listener could not accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
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
    /// How it was idle at the last check, and at how many checks in a row.
    seen: (Option<Idle>, u32),
}

/// Since when a connection is idle. Where there are too many, the first in this order is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Idle {
    /// No request has arrived yet. On a busy machine a probe may need a moment between connecting and sending its
    /// request, while many others connect.
    is_new: bool,
    /// The turn since which it is idle.
    turn: u64,
}

/// Whether a connection is idle; it is not while it waits for an answer.
struct Activity {
    idle: Mutex<Option<Idle>>,
    turns: Arc<AtomicU64>,
}

impl Activity {
    fn idle(&self) -> Option<Idle> {
        *self.idle.lock()
    }

    fn begin_idle(&self, is_new: bool) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        *self.idle.lock() = Some(Idle { is_new, turn });
    }

    fn end_idle(&self) {
        *self.idle.lock() = None;
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
            idle: Mutex::default(),
            turns: Arc::clone(&self.turns),
        });
        activity.begin_idle(true);
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

    /// Closes the first idle connection, in the order of [`Idle`], if there are too many. False if all wait for
    /// answers.
    fn make_room(&mut self) -> bool {
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() < MOST_CONNECTIONS {
            return true;
        }
        let idle = self.open.iter().enumerate();
        let idle = idle.filter_map(|(index, open)| Some((open.activity.idle()?, index)));
        let Some((_, index)) = idle.min() else {
            return false;
        };
        self.open.swap_remove(index).task.abort();
        true
    }

    /// Closes connections that were idle the last few times, too.
    fn close_idle(&mut self) {
        self.open.retain_mut(|open| {
            let idle = open.activity.idle();
            let looks = match open.seen {
                (seen @ Some(_), looks) if seen == idle => looks + 1,
                _ => 0,
            };
            open.seen = (idle, looks);
            if looks >= MOST_LOOKS {
                open.task.abort();
            }
            looks < MOST_LOOKS && !open.task.is_finished()
        });
    }
}

/// Notes that a request is being answered.
async fn answer(activity: Arc<Activity>, request: Request, next: Next) -> axum::response::Response {
    activity.end_idle();
    let response = next.run(request).await;
    activity.begin_idle(false);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    /// More than there is room for, and fewer than wait to be accepted by default.
    const MANY: usize = 120;

    async fn listener() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn serve_at(listener: TcpListener) {
        let routes = Router::new().route("/livez", get(|| async { "alive\n" }));
        tokio::spawn(async move { serve_routes(AdminListener::Tcp(listener), &routes).await });
    }

    async fn ask(connection: &mut TcpStream) {
        let request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        connection.write_all(request).await.unwrap();
    }

    async fn is_answered(connection: &mut TcpStream) -> bool {
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200"
    }

    #[tokio::test]
    async fn who_has_asked_is_answered_however_many_connect_at_once() {
        let (listener, address) = listener().await;
        let mut connections = Vec::new();
        for _ in 0..MANY {
            let mut connection = TcpStream::connect(address).await.unwrap();
            ask(&mut connection).await;
            connections.push(connection);
        }
        serve_at(listener);
        for (number, connection) in connections.iter_mut().enumerate() {
            assert!(is_answered(connection).await, "{number} of {MANY}");
        }
    }

    #[tokio::test]
    async fn who_is_slow_to_ask_keeps_its_place_among_those_that_were_answered() {
        let (listener, address) = listener().await;
        serve_at(listener);
        let mut slow = TcpStream::connect(address).await.unwrap();
        let mut answered = Vec::new();
        for _ in 0..MANY {
            let mut connection = TcpStream::connect(address).await.unwrap();
            ask(&mut connection).await;
            assert!(is_answered(&mut connection).await);
            answered.push(connection);
        }
        ask(&mut slow).await;
        assert!(is_answered(&mut slow).await);
    }

    #[tokio::test]
    async fn who_says_nothing_gives_way_to_who_asks() {
        let (listener, address) = listener().await;
        serve_at(listener);
        let mut silent = Vec::new();
        for _ in 0..MANY {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut connection = TcpStream::connect(address).await.unwrap();
        ask(&mut connection).await;
        assert!(is_answered(&mut connection).await);
    }
}

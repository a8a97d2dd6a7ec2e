//! One client and the node it talks to.

use std::{
    future::{pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use cqlens_proto::envelope::Direction;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    Drain, Notice, Policy, Proxy, Route,
    arrival::{Guest, Visit},
    drain::Release,
    gate::Seat,
    idle, login,
    path::{Path, Rewritten, Unchanged},
    pump::{Ended, Side},
    refusal::{self, Refused},
    socket::{self, Halves, NoUpstream, Socket},
    topology::Shared,
    transparent::{self, Own},
    turns::Turn,
    watched::Watched,
};
use crate::{timers, tls};
use cqlens_audit::capture::{Clock, Connection, Queue, Tap, TlsFailure};

/// A connection whose two sides are ready for bytes.
pub(super) struct Opened {
    connection: Arc<Connection>,
    client: Socket,
    upstream: Socket,
    policy: Arc<Policy>,
    route: Arc<Route>,
    seat: Seat,
    /// Boxed, because there is seldom one.
    own: Option<Box<Own>>,
}

/// Lets a client in and connects to the node for it; none if nothing can be forwarded, which has been said.
pub(super) async fn open(guest: Guest, seat: Seat, proxy: Proxy, drain: Drain) -> Option<Opened> {
    let Visit {
        socket,
        mut origin,
        policy,
        route,
        seat,
    } = guest.enter(seat, &proxy, &drain).await?;
    let (socket, route) = match &proxy.transparent {
        None => (socket, route),
        Some(transparent) => transparent::route(transparent, socket, route, &origin, &proxy).await?,
    };
    let connection = Arc::new(proxy.connection(origin.client));
    let destination = socket.local_addr().ok();
    let client = socket::of_client(socket, &connection, &route, &proxy, &drain).await?;
    if let Some(name) = client.peer_name().or(origin.certificate.take()) {
        connection.certified(&name);
    }
    let header = policy.send_proxy_protocol.then(|| origin.header(destination));
    let upstream = match socket::of_upstream(&connection, &route, &policy, header, &proxy).await {
        Ok(upstream) => upstream,
        Err(why) => {
            let refused = match why {
                NoUpstream::Said => return None,
                NoUpstream::NoDescriptor => Refused::NoDescriptor,
                NoUpstream::Down(outage) => Refused::UpstreamDown(outage),
            };
            turn_away(client, &connection, &refused, &proxy).await;
            return None;
        }
    };
    let own = match (&proxy.transparent, upstream.tcp().local_addr()) {
        (Some(transparent), Ok(address)) => Some(Box::new(transparent.own(address))),
        _ => None,
    };
    Some(Opened {
        connection,
        client,
        upstream,
        policy,
        route,
        seat,
        own,
    })
}

/// Forwards until both directions have ended, one of them has failed, the connection has been idle for too long, or the drain
/// lets go of it.
pub(super) async fn forward(opened: Opened, proxy: &Proxy, drain: &Drain) {
    let Opened {
        connection,
        client,
        upstream,
        policy,
        route,
        seat: _seat,
        own: _own,
    } = opened;
    tracing::debug!(client = %connection.client, "connection opened");
    let link = Link {
        connection: &connection,
        queue: &proxy.queue,
        clock: proxy.clock,
        drain,
        policy: &policy,
    };
    let ended = match &route.topology {
        None => link.connect(client, upstream, Unchanged).await,
        // Boxed, so that connections with nothing to rewrite need not make room for it.
        Some(pairing) => {
            let shared = Shared::new(pairing.clone());
            Box::pin(link.connect(client, upstream, Rewritten(&shared))).await
        }
    };
    tracing::debug!(client = %connection.client, %ended, bytes = connection.bytes(), "connection closed");
    let failure = tls_failure(&ended);
    let notice = match (&ended, failure) {
        (Ended::Unreadable(_), _) => Some(Notice::Unreadable),
        (_, Some(TlsFailure::Upstream)) => Some(Notice::UpstreamTls),
        (_, Some(_)) => Some(Notice::ClientTls),
        _ => None,
    };
    if let Some(notice) = notice {
        proxy.entrance.notices().say(notice, || {
            tracing::warn!(client = %connection.client, upstream = %route.upstream, "{ended}");
        });
    }
    if let Some(failure) = failure {
        proxy.queue.count_tls_failure(failure);
    }
    if let (Ended::NoLogin, Some(timeout)) = (&ended, policy.login_timeout) {
        let refusals = proxy.entrance.refusals();
        refusals.note(connection.client, &Refused::NoLogin(timeout), &proxy.queue);
    }
    connection.close();
}

/// Tells a client that its connection cannot go on, if not too many are being told such things.
async fn turn_away(client: Socket, connection: &Connection, refused: &Refused, proxy: &Proxy) {
    let refusals = proxy.entrance.refusals();
    refusals.note(connection.client, refused, &proxy.queue);
    let Some(_permit) = refusals.answer() else { return };
    match client {
        Socket::Plain(mut client) => refusal::answer(&mut client, refused).await,
        Socket::Tls(mut client) => refusal::answer(&mut client, refused).await,
    }
}

/// What stands between the two sides of a connection.
#[derive(Clone, Copy)]
struct Link<'a> {
    connection: &'a Arc<Connection>,
    queue: &'a Arc<Queue>,
    clock: Clock,
    drain: &'a Drain,
    policy: &'a Policy,
}

impl Link<'_> {
    /// Boxed where there is TLS, so that plain connections need not make room for it.
    async fn connect(self, client: Socket, upstream: Socket, path: impl Path) -> Ended {
        match (client, upstream) {
            (Socket::Plain(client), Socket::Plain(upstream)) => self.forward(client, upstream, path).await,
            (Socket::Plain(client), Socket::Tls(upstream)) => {
                Box::pin(self.forward(client, upstream, path)).await
            }
            (Socket::Tls(client), Socket::Plain(upstream)) => {
                Box::pin(self.forward(client, upstream, path)).await
            }
            (Socket::Tls(client), Socket::Tls(upstream)) => {
                Box::pin(self.forward(client, upstream, path)).await
            }
        }
    }

    async fn forward<C: Halves, U: Halves>(self, mut client: C, mut upstream: U, path: impl Path) -> Ended {
        let turns = [(); 2].map(|()| Turn::new(C::ARE_APART && U::ARE_APART));
        let ended = {
            let (client_read, client_write) = client.halves();
            let (upstream_read, upstream_write) = upstream.halves();
            let requests = path.requests(client_read, upstream_write, self.tap(Direction::Request));
            let (over, stalled) = (AtomicBool::new(false), AtomicBool::new(false));
            let client_write = Watched::new(client_write, &stalled);
            let mut responses =
                pin!(path.responses(upstream_read, client_write, self.tap(Direction::Response)));
            let forwarded = both(requests, responses.as_mut(), &turns, &over, || self.abandoned());
            let must_ask = || self.policy.idle_timeout.is_some() || self.drain.has_begun();
            let login = login::Deadline::new(self.connection, self.policy.login_timeout);
            match until(forwarded, self.told_to_end(&stalled), must_ask, login).await {
                Told::End(ended) => ended,
                // The pump of requests is gone: what the client sends from now on is not taken.
                Told::LastAnswers if !over.load(Ordering::Relaxed) => tokio::select! {
                    () = self.drain.last_answers(self.connection, &stalled) => Ended::Drained,
                    _ended = responses => Ended::Drained,
                },
                Told::LastAnswers => Ended::Drained,
            }
        };
        match ended.reset_by() {
            Some(Side::Client) => reset(upstream.tcp()),
            Some(Side::Upstream) => reset(client.tcp()),
            None if ended.is_ours() => close_gently(&mut client).await,
            None => {}
        }
        ended
    }

    /// Waits until there is a reason to end the connection that does not come from its two sides. `stalled` says whether an answer
    /// waits to be written.
    async fn told_to_end(&self, stalled: &AtomicBool) -> Told {
        let Some(timeout) = self.policy.idle_timeout else {
            return self.drain.releases(self.connection, stalled).await.into();
        };
        // Boxed, because there is seldom one.
        let idle = Box::pin(idle::reached(self.connection, timeout));
        tokio::select! {
            release = self.drain.releases(self.connection, stalled) => release.into(),
            () = idle => Told::End(Ended::Idle),
        }
    }

    /// Waits until nothing has passed for too long on a connection one of whose sides has finished.
    async fn abandoned(self) {
        match self.policy.half_closed_timeout {
            Some(timeout) => idle::reached(self.connection, timeout).await,
            None => pending().await,
        }
    }

    fn tap(&self, direction: Direction) -> Tap {
        Tap::new(
            Arc::clone(self.connection),
            direction,
            Arc::clone(self.queue),
            self.clock,
        )
    }
}

/// Which side's TLS ended a connection, if that is what did: an alert, a record that was damaged on its way.
///
/// With TLS 1.3 a node tells in this way that it does not like the certificate of cqlens.
fn tls_failure(ended: &Ended) -> Option<TlsFailure> {
    let (Ended::ReadFailed(side, error) | Ended::WriteFailed(side, error)) = ended else {
        return None;
    };
    tls::is_failure(error).then_some(match side {
        Side::Client => TlsFailure::Client,
        Side::Upstream => TlsFailure::Upstream,
    })
}

/// What is to become of a connection.
enum Told {
    /// It has come to its end, or is to end.
    End(Ended),
    /// It may pass on the answers to the requests that it has taken.
    LastAnswers,
}

impl From<Release> for Told {
    fn from(release: Release) -> Self {
        match release {
            Release::Close => Self::End(Ended::Drained),
            Release::LastAnswers => Self::LastAnswers,
        }
    }
}

/// Waits for `forwarded` to end, for the client to miss its `login`, or for `told`, which is asked where `must_ask` says so.
///
/// This is polled for every chunk. `told` is asked once, so that it can wake the task, and again only when there is something to
/// ask it; a task has one waker for all its life.
async fn until(
    forwarded: impl Future<Output = Ended>,
    told: impl Future<Output = Told>,
    must_ask: impl Fn() -> bool,
    mut login: login::Deadline<'_>,
) -> Told {
    let (mut forwarded, mut told) = (pin!(forwarded), pin!(told));
    let mut is_asked = false;
    poll_fn(|context| {
        if let Poll::Ready(ended) = forwarded.as_mut().poll(context) {
            return Poll::Ready(Told::End(ended));
        }
        if login.is_over(context) {
            return Poll::Ready(Told::End(Ended::NoLogin));
        }
        if is_asked && !must_ask() {
            return Poll::Pending;
        }
        is_asked = true;
        told.as_mut().poll(context)
    })
    .await
}

/// Waits for both directions to end; a direction that fails ends the connection at once. `responses_over` is set when `responses`
/// has ended, which must not be polled again then. Once one has, the other is waited for until it is `abandoned`.
async fn both<A: Future<Output = ()>>(
    requests: impl Future<Output = Ended>,
    responses: impl Future<Output = Ended>,
    [of_requests, of_responses]: &[Turn; 2],
    responses_over: &AtomicBool,
    abandoned: impl Fn() -> A,
) -> Ended {
    let (mut requests, mut responses) = (pin!(requests), pin!(responses));
    let (mut requests_go_on, mut responses_go_on) = (true, true);
    // Boxed, because there is seldom one.
    let mut half_closed: Option<Pin<Box<A>>> = None;
    poll_fn(|context| {
        if requests_go_on && let Poll::Ready(ended) = of_requests.poll(context, requests.as_mut()) {
            requests_go_on = false;
            let ended = ended.of_requests();
            if ended.ends_connection() || !responses_go_on {
                return Poll::Ready(ended);
            }
        }
        if responses_go_on && let Poll::Ready(ended) = of_responses.poll(context, responses.as_mut()) {
            responses_go_on = false;
            responses_over.store(true, Ordering::Relaxed);
            if ended.ends_connection() || !requests_go_on {
                return Poll::Ready(ended);
            }
        }
        if requests_go_on != responses_go_on {
            let abandoned = half_closed.get_or_insert_with(|| Box::pin(abandoned()));
            return abandoned.as_mut().poll(context).map(|()| Ended::HalfClosed);
        }
        Poll::Pending
    })
    .await
}

/// Passes a reset on: the other side must not take what was cut off for the end.
fn reset(other: &tokio::net::TcpStream) {
    // A socket that cannot be set up so is closed in the usual way.
    let _ = other.set_zero_linger();
}

/// Tells the client that nothing more comes and gives it a moment to read what did.
///
/// Closing a socket that has unread bytes resets it, and a reset can destroy responses that the client has not
/// read yet.
pub(super) async fn close_gently(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    if client.shutdown().await.is_err() {
        return;
    }
    // Not in the task: all connections would have room for it as long as they are open.
    let mut ignored = vec![0; 4096];
    let until_closed = async { while matches!(client.read(&mut ignored).await, Ok(n) if n > 0) {} };
    // A client that never closes loses nothing: it has been told.
    let _ = timers::timeout(LINGER, until_closed).await;
}

const LINGER: Duration = Duration::from_millis(500);

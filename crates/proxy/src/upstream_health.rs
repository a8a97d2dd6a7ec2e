//! Passive health checks: which nodes accept no connections, found out once for all clients.
//!
//! Each client of a node that does not answer would wait for `--connect-timeout`. After a few such failures
//! in a row the node counts as down: clients are refused at once, and one active check tries the node
//! again, with growing pauses, until it accepts. A connection that the node refuses at once costs no time
//! and is no failure here: the client sees what it would see without cqlens. Nor is a TLS error: a node
//! that accepts is not down.

use std::{
    collections::HashMap,
    error, fmt,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{net::TcpStream, time::Instant};

use super::{own::OwnSockets, resolve::Resolver};
use crate::{
    throttle::{INTERVAL, Throttle},
    timers::{sleep, timeout_at},
};

/// Failures in a row after which a node counts as down: a single one may be a lost packet.
const FAILURES: u32 = 3;

/// A failure that comes sooner does not count.
const SLOW: Duration = Duration::from_millis(500);

/// Pauses between the checks of a node that is down: each is twice the one before, give or take a quarter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A node that no client has wanted in this time is no longer checked.
const CHECKED_FOR: Duration = Duration::from_secs(300);

/// Nodes whose failures are remembered. Only a transparent proxy can meet more: those
/// are tried for each client.
const MOST_NODES: usize = 1_024;

/// Nodes that do not answer, by `host:port`. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct UpstreamHealth(Arc<HealthTable>);

#[derive(Debug)]
struct HealthTable {
    /// The size of the table: where it is 0, a connection costs one load.
    unhealthy: AtomicUsize,
    resolver: Resolver,
    /// What a node's address must not be.
    own: OwnSockets,
    table: Mutex<HashMap<String, NodeHealth>>,
    changes: Throttle,
}

impl Default for HealthTable {
    fn default() -> Self {
        Self {
            unhealthy: AtomicUsize::new(0),
            resolver: Resolver::default(),
            own: OwnSockets::default(),
            table: Mutex::default(),
            changes: Throttle::with_first(CHANGES),
        }
    }
}

/// Log lines within the interval of a throttle, where nodes go down and come back all the time.
const CHANGES: u64 = 10;

#[derive(Debug, Default)]
struct NodeHealth {
    failures: u32,
    down: Option<Down>,
}

#[derive(Debug, Clone, Copy)]
struct Down {
    since: Instant,
    wanted: Instant,
    error: io::ErrorKind,
}

/// A node that is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outage {
    upstream: String,
    lasts: Duration,
    error: io::ErrorKind,
}

/// Why there is no connection to a node.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The node is down, and was not tried.
    Down(Outage),
    /// The node's address is one of cqlens' own listeners, and was not tried.
    Own(SocketAddr),
    /// The node was tried.
    Failed(io::Error),
}

/// The address of a node that is one of cqlens' own listeners.
#[derive(Debug, Clone, Copy)]
struct OwnAddress(SocketAddr);

impl fmt::Display for OwnAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is a listener of cqlens itself", self.0)
    }
}

impl error::Error for OwnAddress {}

/// What a connection changes in the health of a node, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthChange {
    Nothing,
    IsDown(Instant),
    IsBack(Duration),
}

impl fmt::Display for Outage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            upstream,
            lasts,
            error,
        } = self;
        let seconds = lasts.as_secs();
        write!(
            out,
            "the node {upstream} has accepted no connection for {seconds} s ({error})"
        )
    }
}

impl UpstreamHealth {
    /// Connects to a node, unless it is down.
    pub(super) async fn connect(&self, upstream: &str, deadline: Instant) -> Result<TcpStream, ConnectError> {
        if let Some(outage) = self.outage(upstream) {
            return Err(ConnectError::Down(outage));
        }
        let begun = Instant::now();
        match timeout_at(deadline, self.try_connect(upstream)).await {
            Ok(stream) => {
                self.say(upstream, self.accepted(upstream));
                Ok(stream)
            }
            Err(error) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
                if let Some(OwnAddress(address)) = inner {
                    return Err(ConnectError::Own(*address));
                }
                if begun.elapsed() >= SLOW {
                    let change = self.failed(upstream, error.kind());
                    self.say(upstream, change);
                    if let HealthChange::IsDown(since) = change {
                        let check = self
                            .clone()
                            .check_until_up(upstream.to_owned(), since, deadline - begun);
                        tokio::spawn(check);
                    }
                }
                Err(ConnectError::Failed(error))
            }
        }
    }

    async fn try_connect(&self, upstream: &str) -> io::Result<TcpStream> {
        let addresses = self.0.resolver.resolve(upstream).await?;
        let (own, others): (Vec<_>, Vec<_>) = addresses
            .iter()
            .copied()
            .partition(|address| self.own().listens_at(*address));
        match own.first() {
            Some(address) if others.is_empty() => Err(io::Error::other(OwnAddress(*address))),
            _ => TcpStream::connect(&*others).await,
        }
    }

    /// The listeners and connections of the process.
    pub(super) fn own(&self) -> &OwnSockets {
        &self.0.own
    }

    /// The nodes that are down.
    pub(super) fn outages(&self) -> Vec<Outage> {
        let table = self.table();
        let outage = |(upstream, node): (&String, &NodeHealth)| Some(node.down?.outage(upstream));
        let mut outages: Vec<_> = table.iter().filter_map(outage).collect();
        outages.sort_by(|one, other| one.upstream.cmp(&other.upstream));
        outages
    }

    /// Records that a client wants to be connected to a node. Returns its outage, if it is down.
    fn outage(&self, upstream: &str) -> Option<Outage> {
        if self.0.unhealthy.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut table = self.table();
        let down = table.get_mut(upstream)?.down.as_mut()?;
        down.wanted = Instant::now();
        Some(down.outage(upstream))
    }

    fn failed(&self, upstream: &str, error: io::ErrorKind) -> HealthChange {
        let mut table = self.table();
        if table.len() >= MOST_NODES && !table.contains_key(upstream) {
            table.retain(|_, node| node.down.is_some());
            if table.len() >= MOST_NODES {
                return HealthChange::Nothing;
            }
        }
        let node = table.entry(upstream.to_owned()).or_default();
        node.failures += 1;
        let is_new = node.failures >= FAILURES && node.down.is_none();
        let since = Instant::now();
        if is_new {
            node.down = Some(Down {
                since,
                wanted: since,
                error,
            });
        }
        self.0.unhealthy.store(table.len(), Ordering::Relaxed);
        if is_new {
            HealthChange::IsDown(since)
        } else {
            HealthChange::Nothing
        }
    }

    fn accepted(&self, upstream: &str) -> HealthChange {
        if self.0.unhealthy.load(Ordering::Relaxed) == 0 {
            return HealthChange::Nothing;
        }
        match self.forget(&mut self.table(), upstream) {
            Some(NodeHealth { down: Some(down), .. }) => HealthChange::IsBack(down.since.elapsed()),
            _ => HealthChange::Nothing,
        }
    }

    fn forget(&self, table: &mut HashMap<String, NodeHealth>, upstream: &str) -> Option<NodeHealth> {
        let forgotten = table.remove(upstream);
        self.0.unhealthy.store(table.len(), Ordering::Relaxed);
        forgotten
    }

    /// Tries a node that is down `since` then until it accepts a connection, or no client
    /// has wanted it for a while.
    async fn check_until_up(self, upstream: String, since: Instant, patience: Duration) {
        let mut pause = PAUSES.0;
        loop {
            sleep(jittered(pause)).await;
            if !self.is_worth_checking(&upstream, since) {
                return;
            }
            let deadline = Instant::now() + patience;
            if timeout_at(deadline, self.try_connect(&upstream)).await.is_ok() {
                return self.say(&upstream, self.accepted(&upstream));
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Whether the outage still lasts, and a client has wanted the node; forgets the outage if none has.
    fn is_worth_checking(&self, upstream: &str, since: Instant) -> bool {
        let mut table = self.table();
        let down = table.get(upstream).and_then(|node| node.down);
        let Some(down) = down.filter(|down| down.since == since) else {
            return false;
        };
        let is_wanted = down.wanted.elapsed() < CHECKED_FOR;
        if !is_wanted {
            self.forget(&mut table, upstream);
        }
        is_wanted
    }

    fn say(&self, upstream: &str, change: HealthChange) {
        let later = |suppressed| {
            tracing::warn!(
                suppressed,
                "more upstreams went down or came back within {INTERVAL:?}"
            );
        };
        if change == HealthChange::Nothing || !self.0.changes.is_new(later) {
            return;
        }
        match change {
            HealthChange::Nothing => {}
            HealthChange::IsDown(_) => tracing::warn!(
                upstream,
                "the upstream accepts no connections: clients are refused immediately until a check succeeds"
            ),
            HealthChange::IsBack(after) => {
                tracing::info!(upstream, ?after, "the upstream accepts connections again");
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, NodeHealth>> {
        // Nothing that holds it can panic.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Down {
    fn outage(self, upstream: &str) -> Outage {
        Outage {
            upstream: upstream.to_owned(),
            lasts: self.since.elapsed(),
            error: self.error,
        }
    }
}

/// Processes that found a node down at the same time do not try it at the same time.
fn jittered(pause: Duration) -> Duration {
    // Each new state of the standard library's hash has other keys.
    let part = RandomState::new().hash_one(()) % 512;
    pause.mul_f64(0.75 + part as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LOST: io::ErrorKind = io::ErrorKind::TimedOut;

    #[test]
    fn a_node_is_down_after_failures_in_a_row_and_back_with_the_first_connection() {
        let upstreams = UpstreamHealth::default();
        for _ in 1..FAILURES {
            assert_eq!(upstreams.failed("a:1", LOST), HealthChange::Nothing);
        }
        assert_eq!(upstreams.accepted("a:1"), HealthChange::Nothing);
        for _ in 1..FAILURES {
            assert_eq!(upstreams.failed("a:1", LOST), HealthChange::Nothing);
            assert_eq!(upstreams.failed("b:1", LOST), HealthChange::Nothing);
        }
        assert_eq!(upstreams.outage("a:1"), None);
        assert!(matches!(upstreams.failed("a:1", LOST), HealthChange::IsDown(_)));
        // Connections that were under way.
        assert_eq!(upstreams.failed("a:1", LOST), HealthChange::Nothing);
        let outage = upstreams.outage("a:1").map(|outage| outage.to_string());
        assert_eq!(
            outage.as_deref(),
            Some("the node a:1 has accepted no connection for 0 s (timed out)")
        );
        assert_eq!((upstreams.outage("b:1"), upstreams.outages().len()), (None, 1));
        assert!(matches!(upstreams.accepted("a:1"), HealthChange::IsBack(_)));
        assert_eq!((upstreams.outage("a:1"), upstreams.outages().len()), (None, 0));
    }

    #[tokio::test]
    async fn a_listener_of_cqlens_is_no_node_however_it_is_named() {
        let upstreams = UpstreamHealth::default();
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let _own = upstreams.own().listening(&listener);
        let deadline = Instant::now() + Duration::from_secs(60);
        for host in ["127.0.0.1", "127.0.0.9", "0.0.0.0", "[::ffff:127.0.0.1]"] {
            let upstream = format!("{host}:{port}");
            let refused = upstreams.connect(&upstream, deadline).await;
            assert!(
                matches!(refused, Err(ConnectError::Own(_))),
                "{upstream}: {refused:?}"
            );
        }
        assert_eq!(upstreams.outages(), []);
    }

    #[test]
    fn a_check_of_an_outage_that_is_over_ends() {
        let upstreams = UpstreamHealth::default();
        let outage = || {
            (0..FAILURES).find_map(|_| match upstreams.failed("a:1", LOST) {
                HealthChange::IsDown(since) => Some(since),
                _ => None,
            })
        };
        let first = outage();
        upstreams.accepted("a:1");
        let second = outage();
        let is_checked =
            |since: Option<Instant>| since.is_some_and(|since| upstreams.is_worth_checking("a:1", since));
        assert!(!is_checked(first) && is_checked(second));
    }

    #[test]
    fn nodes_that_fail_now_and_then_take_bounded_memory() {
        let upstreams = UpstreamHealth::default();
        for number in 0..3 * MOST_NODES {
            upstreams.failed(&format!("a:{number}"), LOST);
        }
        assert!(upstreams.table().len() <= MOST_NODES);
    }

    #[test]
    fn pauses_are_not_those_of_others() {
        let pauses: std::collections::BTreeSet<_> = (0..20).map(|_| jittered(PAUSES.1)).collect();
        assert!(pauses.len() > 1, "{pauses:?}");
        assert!(
            pauses
                .iter()
                .all(|pause| (1_500..=2_500).contains(&pause.as_millis()))
        );
    }
}

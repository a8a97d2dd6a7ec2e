//! Who may come in: counts the connections of the process, of each listener and of each client, and keeps to the limits.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::{
    Policy,
    notices::{Notice, Notices},
    rate::Bucket,
    refusal::Refusals,
    upstreams::Upstreams,
};
use crate::timers::sleep;
use cqlens_audit::capture::Refusal;

/// The edge of a process; its clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    policy: ArcSwap<Policy>,
    open: AtomicUsize,
    /// Connections accepted lately.
    accepted: Mutex<Bucket>,
    clients: Mutex<Clients>,
    refusals: Refusals,
    notices: Notices,
    upstreams: Upstreams,
}

/// Clients by network. Not a quick hash: clients with many addresses could choose those that collide.
#[derive(Debug, Default)]
struct Clients {
    by_network: HashMap<IpAddr, Client>,
    /// With so many, those that are kept for their rate alone are looked for.
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Client {
    open: usize,
    accepted: Bucket,
}

impl Clients {
    /// The client at `network`. Clients without a connection are kept as long as their rate matters, a second or so, and forgotten when
    /// there are as many of them as of others.
    fn at(&mut self, network: IpAddr, now: Instant) -> &mut Client {
        if self.by_network.len() >= self.sweep_at {
            self.by_network
                .retain(|_, client| client.open > 0 || !client.accepted.is_full(|| now));
            self.sweep_at = FEW_CLIENTS.max(2 * self.by_network.len());
        }
        self.by_network.entry(network).or_default()
    }

    fn leaves(&mut self, network: IpAddr) {
        let Some(client) = self.by_network.get_mut(&network) else {
            return;
        };
        client.open = client.open.saturating_sub(1);
        if client.open == 0 && client.accepted.is_full(Instant::now) {
            self.by_network.remove(&network);
        }
    }
}

const FEW_CLIENTS: usize = 1_024;

impl Gate {
    /// A gate through which nobody has come.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(Shared {
            policy: ArcSwap::from_pointee(policy),
            ..Shared::default()
        }))
    }

    /// The settings in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.policy.load_full()
    }

    /// Other settings, for the connections that come from now on. Who is in stays in, and is counted.
    pub fn replace_policy(&self, policy: Policy) {
        self.0.policy.store(Arc::new(policy));
    }

    /// Connections of clients that are in.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Which nodes accept no connections, since when and why, in words.
    pub fn outages(&self) -> Vec<String> {
        let outages = self.0.upstreams.outages();
        outages.iter().map(ToString::to_string).collect()
    }

    /// A way in of its own, with a count of its own: one for each listener.
    pub(super) fn entrance(&self) -> Entrance {
        Entrance {
            gate: self.clone(),
            open: Arc::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.0.clients)
    }
}

/// One listener's way in; its clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Entrance {
    gate: Gate,
    open: Arc<AtomicUsize>,
}

/// Why a client is not let in, and the limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) refusal: Refusal,
    pub(super) limit: usize,
    /// Whose limit it is, in words that follow "connections are open".
    pub(super) whose: &'static str,
}

impl Entrance {
    /// Another way in through the same gate.
    pub(super) fn another(&self) -> Self {
        self.gate.entrance()
    }

    pub(super) fn policy(&self) -> Arc<Policy> {
        self.gate.policy()
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.gate.0.refusals
    }

    pub(super) fn notices(&self) -> &Notices {
        &self.gate.0.notices
    }

    pub(super) fn upstreams(&self) -> &Upstreams {
        &self.gate.0.upstreams
    }

    /// Waits until the process may accept another connection. Listeners that wait together each accept one.
    pub(super) async fn pace(&self) {
        while let Some(rate) = self.policy().max_connection_rate {
            let wait = lock(&self.gate.0.accepted).wait(rate, Instant::now());
            if wait.is_zero() {
                return;
            }
            self.notices().say(Notice::Paced, || {
                tracing::warn!(
                    max_connection_rate = rate,
                    "new clients wait: they come faster than max-connection-rate allows"
                );
            });
            sleep(wait).await;
        }
    }

    /// Lets somebody in whose address need not be known yet.
    pub(super) fn admit(&self, policy: &Policy) -> Result<Seat, Full> {
        if let Some(rate) = policy.max_connection_rate {
            lock(&self.gate.0.accepted).take(rate, Instant::now());
        }
        take(&self.gate.0.open, policy.max_connections).map_err(full(Refusal::MaxConnections, ""))?;
        let limit = policy.max_connections_per_listener.unwrap_or(usize::MAX);
        if let Err(limit) = take(&self.open, limit) {
            self.gate.0.open.fetch_sub(1, Ordering::Relaxed);
            return Err(full(Refusal::MaxConnectionsPerListener, " through this listener")(limit));
        }
        Ok(Seat {
            entrance: self.clone(),
            client: None,
        })
    }
}

/// A connection that is in, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    entrance: Entrance,
    /// The network that counts as one client.
    client: Option<IpAddr>,
}

impl Seat {
    /// Counts it for the client at `address`, if the client may have one more. Also where there is no limit: there may be one later.
    pub(super) fn claim(&mut self, address: IpAddr, policy: &Policy) -> Result<(), Full> {
        let whose = policy.client_networks.whose(address);
        let network = policy.client_networks.of(address);
        let limit = policy.max_connections_per_client.unwrap_or(usize::MAX);
        let now = Instant::now();
        let mut clients = self.entrance.gate.clients();
        let client = clients.at(network, now);
        if client.open >= limit {
            return Err(full(Refusal::MaxConnectionsPerClient, whose)(limit));
        }
        if let Some(rate) = policy.max_connection_rate_per_client {
            if !client.accepted.wait(rate, now).is_zero() {
                let limit = usize::try_from(rate.get()).unwrap_or(usize::MAX);
                return Err(full(Refusal::MaxConnectionRatePerClient, whose)(limit));
            }
            client.accepted.take(rate, now);
        }
        client.open += 1;
        drop(clients);
        self.client = Some(network);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Entrance { gate, open } = &self.entrance;
        gate.0.open.fetch_sub(1, Ordering::Relaxed);
        open.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        gate.clients().leaves(client);
    }
}

/// Counts one more, unless there are `limit` already.
fn take(open: &AtomicUsize, limit: usize) -> Result<(), usize> {
    let more = |open| (open < limit).then_some(open + 1);
    match open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
        Ok(_before) => Ok(()),
        Err(_full) => Err(limit),
    }
}

fn full(refusal: Refusal, whose: &'static str) -> impl Fn(usize) -> Full {
    move |limit| Full {
        refusal,
        limit,
        whose,
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds one can panic.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::num::NonZeroU32;

    fn policy(all: usize, listener: Option<usize>, client: Option<usize>) -> Policy {
        Policy {
            max_connections: all,
            max_connections_per_listener: listener,
            max_connections_per_client: client,
            ..Policy::default()
        }
    }

    fn refused(refusal: Refusal, limit: usize) -> (Refusal, usize) {
        (refusal, limit)
    }

    impl Full {
        fn limit(self) -> (Refusal, usize) {
            (self.refusal, self.limit)
        }
    }

    #[test]
    fn a_listener_may_have_fewer_than_the_process() {
        let policy = policy(3, Some(2), None);
        let gate = Gate::new(policy.clone());
        let (one, other) = (gate.entrance(), gate.entrance());
        let first = one.admit(&policy).unwrap();
        let _second = one.admit(&policy).unwrap();
        assert_eq!(
            one.admit(&policy).unwrap_err().limit(),
            refused(Refusal::MaxConnectionsPerListener, 2)
        );
        // Who was refused is not counted.
        assert_eq!(gate.open(), 2);
        let _third = other.admit(&policy).unwrap();
        assert_eq!(
            other.admit(&policy).unwrap_err().limit(),
            refused(Refusal::MaxConnections, 3)
        );
        drop(first);
        assert!(one.admit(&policy).is_ok());
        assert_eq!(gate.open(), 2);
    }

    #[test]
    fn a_client_may_have_fewer_than_the_others_together() {
        let policy = policy(10, None, Some(1));
        let gate = Gate::new(policy.clone());
        let entrance = gate.entrance();
        let claim = |address: &str| {
            let mut seat = entrance.admit(&policy).unwrap();
            seat.claim(address.parse().unwrap(), &policy).map(|()| seat)
        };
        let seat = claim("10.0.0.1").unwrap();
        // The same client, however its address is written.
        let full = claim("::ffff:10.0.0.1").unwrap_err().limit();
        assert_eq!(full, refused(Refusal::MaxConnectionsPerClient, 1));
        let _other = claim("10.0.0.2").unwrap();
        assert_eq!(gate.open(), 2);
        drop(seat);
        let _again = claim("10.0.0.1").unwrap();
        assert_eq!(gate.clients().by_network.len(), 2);
    }

    #[test]
    fn a_limit_that_is_lowered_counts_who_is_in() {
        let before = policy(10, None, None);
        let gate = Gate::new(before.clone());
        let entrance = gate.entrance();
        let seats: Vec<_> = (0..3)
            .map(|_| {
                let mut seat = entrance.admit(&before).unwrap();
                seat.claim("10.0.0.1".parse().unwrap(), &before).unwrap();
                seat
            })
            .collect();
        gate.replace_policy(policy(10, None, Some(3)));
        let after = gate.policy();
        let mut seat = entrance.admit(&after).unwrap();
        assert!(seat.claim("10.0.0.1".parse().unwrap(), &after).is_err());
        drop((seats, seat));
        assert_eq!((gate.open(), gate.clients().by_network.len()), (0, 0));
    }

    #[test]
    fn a_network_counts_as_one_client() {
        let policy = policy(10, None, Some(1));
        let gate = Gate::new(policy.clone());
        let entrance = gate.entrance();
        let claim = |address: &str| {
            let mut seat = entrance.admit(&policy).unwrap();
            seat.claim(address.parse().unwrap(), &policy).map(|()| seat)
        };
        let _seat = claim("2001:db8:1:2::1").unwrap();
        let full = claim("2001:db8:1:2:ffff::9").unwrap_err();
        assert_eq!(full.limit(), refused(Refusal::MaxConnectionsPerClient, 1));
        assert_eq!(full.whose, " from this network");
        assert!(claim("2001:db8:1:3::1").is_ok());
    }

    #[tokio::test]
    async fn a_client_that_comes_too_fast_is_refused_and_forgotten_when_its_rate_no_longer_matters() {
        let policy = Policy {
            max_connection_rate_per_client: NonZeroU32::new(2),
            ..Policy::default()
        };
        let gate = Gate::new(policy.clone());
        let entrance = gate.entrance();
        let claim = |address: &str| {
            let mut seat = entrance.admit(&policy).unwrap();
            seat.claim(address.parse().unwrap(), &policy).map(|()| seat)
        };
        // Each is closed at once: only the rate limits them.
        for _ in 0..2 {
            drop(claim("10.0.0.1").unwrap());
        }
        let full = claim("10.0.0.1").unwrap_err();
        assert_eq!(full.limit(), refused(Refusal::MaxConnectionRatePerClient, 2));
        assert!(claim("10.0.0.2").is_ok());
        sleep(std::time::Duration::from_millis(501)).await;
        drop(claim("10.0.0.1").unwrap());
        assert!(claim("10.0.0.1").is_err());
        // Any number of clients that come once.
        for number in 0..6_000_u32 {
            if number == 3_000 {
                sleep(std::time::Duration::from_millis(501)).await;
            }
            drop(claim(&std::net::Ipv4Addr::from_bits(number).to_string()));
        }
        let kept = gate.clients().by_network.len();
        assert!((3_000..=4_096).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn a_process_that_may_accept_no_more_in_this_second_waits() {
        let policy = Policy {
            max_connection_rate: NonZeroU32::new(100),
            ..Policy::default()
        };
        let gate = Gate::new(policy.clone());
        let (one, other) = (gate.entrance(), gate.entrance());
        let begun = Instant::now();
        for _ in 0..75 {
            for entrance in [&one, &other] {
                entrance.pace().await;
                drop(entrance.admit(&policy).unwrap());
            }
        }
        let took = begun.elapsed();
        assert!(took.as_millis() >= 480, "{took:?}");
    }
}

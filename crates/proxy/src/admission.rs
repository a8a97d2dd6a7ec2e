//! Admission control: counts the connections of the process, of each listener and of each
//! client, and enforces the limits.

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
    own::OwnSockets,
    rate::RateBucket,
    refusal::{LimitReached, Refusals},
    upstream_health::UpstreamHealth,
};
use crate::timers::sleep;
use cqlens_capture::Refusal;

/// The limits of a process, and what is counted against them. Its clones are the same one.
///
/// It also holds what all listeners share at the edge: the limits of refusals and of log lines, and
/// the health of the upstreams.
#[derive(Debug, Clone, Default)]
pub struct AdmissionControl(Arc<ProcessCounts>);

#[derive(Debug, Default)]
struct ProcessCounts {
    policy: ArcSwap<Policy>,
    open: AtomicUsize,
    /// Connections accepted in the last second.
    accepted: Mutex<RateBucket>,
    clients: Mutex<Clients>,
    refusals: Refusals,
    notices: Notices,
    upstreams: UpstreamHealth,
}

/// Clients by network. The hash is the keyed one of the standard library: a client with many addresses could
/// choose those that collide under a faster one.
#[derive(Debug, Default)]
struct Clients {
    by_network: HashMap<IpAddr, ClientCounts>,
    /// The size at which entries that are kept for their rate alone are swept.
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct ClientCounts {
    open: usize,
    accepted: RateBucket,
}

impl Clients {
    /// The client at `network`. A client without a connection is kept while its rate matters, about a second,
    /// and swept once there are as many such clients as others.
    fn at(&mut self, network: IpAddr, now: Instant) -> &mut ClientCounts {
        if self.by_network.len() >= self.sweep_at {
            self.by_network
                .retain(|_, client| client.open > 0 || !client.accepted.is_full(|| now));
            self.sweep_at = FEW_CLIENTS.max(2 * self.by_network.len());
        }
        self.by_network.entry(network).or_default()
    }

    fn release(&mut self, network: IpAddr) {
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

impl AdmissionControl {
    /// Admission control of a process without connections.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(ProcessCounts {
            policy: ArcSwap::from_pointee(policy),
            ..ProcessCounts::default()
        }))
    }

    /// The settings in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.0.policy.load_full()
    }

    /// Replaces the settings, for new connections. Open connections stay open and still count.
    pub fn replace_policy(&self, policy: Policy) {
        self.0.policy.store(Arc::new(policy));
    }

    /// The listeners and connections of the process.
    pub fn own_sockets(&self) -> &OwnSockets {
        self.0.upstreams.own()
    }

    /// How many connections of clients are open.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// The nodes that accept no connections, since when and why, as sentences.
    pub fn outages(&self) -> Vec<String> {
        let outages = self.0.upstreams.outages();
        outages.iter().map(ToString::to_string).collect()
    }

    /// Admission through another listener, with a count of its own.
    pub(super) fn for_listener(&self) -> ListenerAdmission {
        ListenerAdmission {
            control: self.clone(),
            open: Arc::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.0.clients)
    }
}

/// Admission through one listener. Its clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct ListenerAdmission {
    control: AdmissionControl,
    open: Arc<AtomicUsize>,
}

impl ListenerAdmission {
    /// Admission through another listener of the same process.
    pub(super) fn for_another_listener(&self) -> Self {
        self.control.for_listener()
    }

    pub(super) fn policy(&self) -> Arc<Policy> {
        self.control.policy()
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.control.0.refusals
    }

    pub(super) fn own_sockets(&self) -> &OwnSockets {
        self.control.own_sockets()
    }

    pub(super) fn notices(&self) -> &Notices {
        &self.control.0.notices
    }

    pub(super) fn upstreams(&self) -> &UpstreamHealth {
        &self.control.0.upstreams
    }

    /// Waits until the process may accept another connection. Listeners that wait together each accept one.
    pub(super) async fn wait_for_rate(&self) {
        while let Some(rate) = self.policy().max_connection_rate {
            let wait = lock(&self.control.0.accepted).wait(rate, Instant::now());
            if wait.is_zero() {
                return;
            }
            self.notices().say(Notice::Paced, || {
                tracing::warn!(
                    max_connection_rate = rate,
                    "new clients have to wait: they arrive faster than max-connection-rate allows"
                );
            });
            sleep(wait).await;
        }
    }

    /// Counts one more connection of the process and of the listener. The client need not be known yet.
    pub(super) fn try_acquire(&self, policy: &Policy) -> Result<ConnectionPermit, LimitReached> {
        if let Some(rate) = policy.max_connection_rate {
            lock(&self.control.0.accepted).take(rate, Instant::now());
        }
        if !increment(&self.control.0.open, policy.max_connections) {
            return Err(LimitReached {
                refusal: Refusal::MaxConnections,
                limit: policy.max_connections,
                whose: "",
            });
        }
        let limit = policy.max_connections_per_listener.unwrap_or(usize::MAX);
        if !increment(&self.open, limit) {
            self.control.0.open.fetch_sub(1, Ordering::Relaxed);
            return Err(LimitReached {
                refusal: Refusal::MaxConnectionsPerListener,
                limit,
                whose: " through this listener",
            });
        }
        Ok(ConnectionPermit {
            listener: self.clone(),
            client: None,
        })
    }
}

/// One connection, counted until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    listener: ListenerAdmission,
    /// The network that counts as one client, once it is known.
    client: Option<IpAddr>,
}

impl ConnectionPermit {
    /// Counts the connection for the client at `address`, if the client may have one more. It counts without
    /// a limit, too: the next policy may have one.
    pub(super) fn try_acquire_for_client(
        &mut self,
        address: IpAddr,
        policy: &Policy,
    ) -> Result<(), LimitReached> {
        let refused = |refusal, limit| LimitReached {
            refusal,
            limit,
            whose: policy.client_networks.whose(address),
        };
        let network = policy.client_networks.network(address);
        let limit = policy.limit_per_client();
        let now = Instant::now();
        let mut clients = self.listener.control.clients();
        let client = clients.at(network, now);
        if client.open >= limit {
            return Err(refused(Refusal::MaxConnectionsPerClient, limit));
        }
        if let Some(rate) = policy.max_connection_rate_per_client {
            if !client.accepted.wait(rate, now).is_zero() {
                let limit = usize::try_from(rate.get()).unwrap_or(usize::MAX);
                return Err(refused(Refusal::MaxConnectionRatePerClient, limit));
            }
            client.accepted.take(rate, now);
        }
        client.open += 1;
        drop(clients);
        self.client = Some(network);
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let ListenerAdmission { control, open } = &self.listener;
        control.0.open.fetch_sub(1, Ordering::Relaxed);
        open.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        control.clients().release(client);
    }
}

/// Counts one more, unless there are `limit` already.
fn increment(open: &AtomicUsize, limit: usize) -> bool {
    let more = |open| (open < limit).then_some(open + 1);
    open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
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

    impl LimitReached {
        fn limit(self) -> (Refusal, usize) {
            (self.refusal, self.limit)
        }
    }

    #[test]
    fn a_listener_may_have_fewer_than_the_process() {
        let policy = policy(3, Some(2), None);
        let control = AdmissionControl::new(policy.clone());
        let (one, other) = (control.for_listener(), control.for_listener());
        let first = one.try_acquire(&policy).unwrap();
        let _second = one.try_acquire(&policy).unwrap();
        assert_eq!(
            one.try_acquire(&policy).unwrap_err().limit(),
            refused(Refusal::MaxConnectionsPerListener, 2)
        );
        // A refused connection does not count.
        assert_eq!(control.open(), 2);
        let _third = other.try_acquire(&policy).unwrap();
        assert_eq!(
            other.try_acquire(&policy).unwrap_err().limit(),
            refused(Refusal::MaxConnections, 3)
        );
        drop(first);
        assert!(one.try_acquire(&policy).is_ok());
        assert_eq!(control.open(), 2);
    }

    #[test]
    fn a_client_may_have_fewer_than_the_others_together() {
        let policy = policy(10, None, Some(1));
        let control = AdmissionControl::new(policy.clone());
        let listener = control.for_listener();
        let acquire = |address: &str| {
            let mut permit = listener.try_acquire(&policy).unwrap();
            let acquired = permit.try_acquire_for_client(address.parse().unwrap(), &policy);
            acquired.map(|()| permit)
        };
        let permit = acquire("10.0.0.1").unwrap();
        // The same client, however its address is written.
        let full = acquire("::ffff:10.0.0.1").unwrap_err().limit();
        assert_eq!(full, refused(Refusal::MaxConnectionsPerClient, 1));
        let _other = acquire("10.0.0.2").unwrap();
        assert_eq!(control.open(), 2);
        drop(permit);
        let _again = acquire("10.0.0.1").unwrap();
        assert_eq!(control.clients().by_network.len(), 2);
    }

    #[test]
    fn one_client_leaves_seats_for_others_without_a_limit_of_its_own() {
        let policy = policy(320, None, None);
        let control = AdmissionControl::new(policy.clone());
        let listener = control.for_listener();
        let acquire = |address: &str| {
            let mut permit = listener.try_acquire(&policy)?;
            let acquired = permit.try_acquire_for_client(address.parse().unwrap(), &policy);
            acquired.map(|()| permit)
        };
        let all: Vec<_> = (0..300).map(|_| acquire("10.0.0.1").unwrap()).collect();
        let full = acquire("10.0.0.1").unwrap_err().limit();
        assert_eq!(full, refused(Refusal::MaxConnectionsPerClient, 300));
        let _other = acquire("10.0.0.2").unwrap();
        drop(all);
    }

    #[test]
    fn a_limit_that_is_lowered_counts_who_is_in() {
        let before = policy(10, None, None);
        let control = AdmissionControl::new(before.clone());
        let listener = control.for_listener();
        let permits: Vec<_> = (0..3)
            .map(|_| {
                let mut permit = listener.try_acquire(&before).unwrap();
                permit
                    .try_acquire_for_client("10.0.0.1".parse().unwrap(), &before)
                    .unwrap();
                permit
            })
            .collect();
        control.replace_policy(policy(10, None, Some(3)));
        let after = control.policy();
        let mut permit = listener.try_acquire(&after).unwrap();
        assert!(
            permit
                .try_acquire_for_client("10.0.0.1".parse().unwrap(), &after)
                .is_err()
        );
        drop((permits, permit));
        assert_eq!((control.open(), control.clients().by_network.len()), (0, 0));
    }

    #[test]
    fn a_network_counts_as_one_client() {
        let policy = policy(10, None, Some(1));
        let control = AdmissionControl::new(policy.clone());
        let listener = control.for_listener();
        let acquire = |address: &str| {
            let mut permit = listener.try_acquire(&policy).unwrap();
            let acquired = permit.try_acquire_for_client(address.parse().unwrap(), &policy);
            acquired.map(|()| permit)
        };
        let _permit = acquire("2001:db8:1:2::1").unwrap();
        let full = acquire("2001:db8:1:2:ffff::9").unwrap_err();
        assert_eq!(full.limit(), refused(Refusal::MaxConnectionsPerClient, 1));
        assert_eq!(full.whose, " from this network");
        assert!(acquire("2001:db8:1:3::1").is_ok());
    }

    #[tokio::test]
    async fn a_client_that_comes_too_fast_is_refused_and_forgotten_when_its_rate_no_longer_matters() {
        let policy = Policy {
            max_connection_rate_per_client: NonZeroU32::new(2),
            ..Policy::default()
        };
        let control = AdmissionControl::new(policy.clone());
        let listener = control.for_listener();
        let acquire = |address: &str| {
            let mut permit = listener.try_acquire(&policy).unwrap();
            let acquired = permit.try_acquire_for_client(address.parse().unwrap(), &policy);
            acquired.map(|()| permit)
        };
        // Each is closed at once: only the rate limits them.
        for _ in 0..2 {
            drop(acquire("10.0.0.1").unwrap());
        }
        let full = acquire("10.0.0.1").unwrap_err();
        assert_eq!(full.limit(), refused(Refusal::MaxConnectionRatePerClient, 2));
        assert!(acquire("10.0.0.2").is_ok());
        sleep(std::time::Duration::from_millis(501)).await;
        drop(acquire("10.0.0.1").unwrap());
        assert!(acquire("10.0.0.1").is_err());
        // Any number of clients that come once.
        for number in 0..6_000_u32 {
            if number == 3_000 {
                sleep(std::time::Duration::from_millis(501)).await;
            }
            drop(acquire(&std::net::Ipv4Addr::from_bits(number).to_string()));
        }
        let kept = control.clients().by_network.len();
        assert!((3_000..=4_096).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn a_process_that_may_accept_no_more_in_this_second_waits() {
        let policy = Policy {
            max_connection_rate: NonZeroU32::new(100),
            ..Policy::default()
        };
        let control = AdmissionControl::new(policy.clone());
        let (one, other) = (control.for_listener(), control.for_listener());
        let begun = Instant::now();
        for _ in 0..75 {
            for listener in [&one, &other] {
                listener.wait_for_rate().await;
                drop(listener.try_acquire(&policy).unwrap());
            }
        }
        let took = begun.elapsed();
        assert!(took.as_millis() >= 480, "{took:?}");
    }
}

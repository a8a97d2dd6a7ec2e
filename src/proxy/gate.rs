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

use super::{Policy, refusal::Refusals};
use crate::capture::Refusal;

/// The edge of a process; its clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    policy: ArcSwap<Policy>,
    open: AtomicUsize,
    /// By address, never 0. Not a quick hash: clients with many addresses could choose those that collide.
    clients: Mutex<HashMap<IpAddr, usize>>,
    refusals: Refusals,
}

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

    /// A way in of its own, with a count of its own: one for each listener.
    pub(super) fn entrance(&self) -> Entrance {
        Entrance {
            gate: self.clone(),
            open: Arc::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing that holds it can panic.
        self.0.clients.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Lets somebody in whose address need not be known yet.
    pub(super) fn admit(&self, policy: &Policy) -> Result<Seat, Full> {
        take(&self.gate.0.open, policy.max_connections).map_err(full(Refusal::MaxConnections))?;
        let limit = policy.max_connections_per_listener.unwrap_or(usize::MAX);
        if let Err(limit) = take(&self.open, limit) {
            self.gate.0.open.fetch_sub(1, Ordering::Relaxed);
            return Err(full(Refusal::MaxConnectionsPerListener)(limit));
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
    client: Option<IpAddr>,
}

impl Seat {
    /// Counts it for the client at `address`, if the client may have one more. Also where there is no limit: there may be one later.
    pub(super) fn claim(&mut self, address: IpAddr, policy: &Policy) -> Result<(), Full> {
        let address = address.to_canonical();
        let limit = policy.max_connections_per_client.unwrap_or(usize::MAX);
        let mut clients = self.entrance.gate.clients();
        if clients.get(&address).is_some_and(|&open| open >= limit) {
            return Err(full(Refusal::MaxConnectionsPerClient)(limit));
        }
        *clients.entry(address).or_default() += 1;
        drop(clients);
        self.client = Some(address);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Entrance { gate, open } = &self.entrance;
        gate.0.open.fetch_sub(1, Ordering::Relaxed);
        open.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        let mut clients = gate.clients();
        match clients.get_mut(&client) {
            Some(open) if *open > 1 => *open -= 1,
            _ => drop(clients.remove(&client)),
        }
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

fn full(refusal: Refusal) -> impl Fn(usize) -> Full {
    move |limit| Full { refusal, limit }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn policy(all: usize, listener: Option<usize>, client: Option<usize>) -> Policy {
        Policy {
            max_connections: all,
            max_connections_per_listener: listener,
            max_connections_per_client: client,
            ..Policy::default()
        }
    }

    fn refused(refusal: Refusal, limit: usize) -> Full {
        Full { refusal, limit }
    }

    #[test]
    fn a_listener_may_have_fewer_than_the_process() {
        let policy = policy(3, Some(2), None);
        let gate = Gate::new(policy.clone());
        let (one, other) = (gate.entrance(), gate.entrance());
        let first = one.admit(&policy).unwrap();
        let _second = one.admit(&policy).unwrap();
        assert_eq!(
            one.admit(&policy).unwrap_err(),
            refused(Refusal::MaxConnectionsPerListener, 2)
        );
        // Who was refused is not counted.
        assert_eq!(gate.open(), 2);
        let _third = other.admit(&policy).unwrap();
        assert_eq!(
            other.admit(&policy).unwrap_err(),
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
        let full = claim("::ffff:10.0.0.1").unwrap_err();
        assert_eq!(full, refused(Refusal::MaxConnectionsPerClient, 1));
        let _other = claim("10.0.0.2").unwrap();
        assert_eq!(gate.open(), 2);
        drop(seat);
        let _again = claim("10.0.0.1").unwrap();
        assert_eq!(gate.clients().len(), 2);
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
        assert_eq!((gate.open(), gate.clients().len()), (0, 0));
    }
}

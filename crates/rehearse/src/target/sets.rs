//! Connections by keyspace, and which of them takes a request.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cqlens_client::ClientOptions;
use tokio::{runtime::Handle, sync::mpsc};

use super::{
    Core, Outcome,
    job::Job,
    slot::{self, Slot, SlotStatus},
};
use crate::{digest::ResponseDigest, skipped::Skipped};

/// All connections.
#[derive(Debug)]
pub(super) struct Sets {
    open: Mutex<Open>,
    runtime: Handle,
    /// Where the search for a connection begins, so that all are used.
    turn: AtomicUsize,
    this: Weak<Sets>,
}

/// Nodes, and the connections to them.
#[derive(Debug, Default)]
struct Open {
    nodes: Vec<TargetNode>,
    by_keyspace: SlotsByKeyspace,
}

/// A node that requests are sent to.
#[derive(Debug, Clone)]
pub(super) struct TargetNode {
    /// As in the settings, or as the cluster announces it.
    pub(super) address: Arc<str>,
    pub(super) options: ClientOptions,
    /// Whether it is one of the settings, which stays.
    pub(super) is_named: bool,
}

/// The connections that `USE` was sent on, and those without.
type SlotsByKeyspace = HashMap<Option<Arc<str>>, Arc<[Slot]>>;

/// More keyspaces have no connections of their own.
const MOST_SETS: usize = 32;
/// With as many connections, no further ones are opened to nodes that the cluster announces: it may announce any
/// number, and for older versions each keyspace has its own.
const MOST_CONNECTIONS: usize = 512;

impl Sets {
    /// Begins to connect, without a keyspace.
    pub(super) fn open(core: &Arc<Core>) -> Arc<Self> {
        let named = |(address, options): &(String, ClientOptions)| TargetNode {
            address: address.as_str().into(),
            options: options.clone(),
            is_named: true,
        };
        let open = Open {
            nodes: core.settings.nodes.iter().map(named).collect(),
            by_keyspace: HashMap::new(),
        };
        let sets = Arc::new_cyclic(|this| Self {
            open: Mutex::new(open),
            runtime: Handle::current(),
            turn: AtomicUsize::new(0),
            this: this.clone(),
        });
        sets.of(core, None);
        sets
    }

    /// Hands a request to the connection with the fewest in flight, to a node that holds its partition if any can be
    /// reached.
    pub(super) fn route(&self, core: &Arc<Core>, job: Job) {
        let left_out = match self.connections_for(core, &job) {
            None => Skipped::TooManyKeyspaces,
            Some(slots) => match self.choose(core, &slots, &job) {
                None => Skipped::Unreachable,
                Some(slot) => match slot.send(job) {
                    Ok(()) => return,
                    Err(job) => return core.abandon(job, Skipped::ConnectionLost),
                },
            },
        };
        core.abandon(job, left_out);
    }

    /// Whether any connection of any keyspace may take a request.
    pub(super) fn is_reachable(&self) -> bool {
        let open = self.lock();
        let mut all = open.by_keyspace.values().flat_map(|slots| slots.iter());
        all.any(|slot| slot.status.takes_requests())
    }

    /// The nodes that requests are sent to, and how many of them have no connection that takes one.
    pub(super) fn node_counts(&self) -> (u64, u64) {
        let open = self.lock();
        let is_reachable = |node: &&TargetNode| {
            let mut all = open.by_keyspace.values().flat_map(|slots| slots.iter());
            all.any(|slot| slot.address == node.address && slot.status.takes_requests())
        };
        let reachable = open.nodes.iter().filter(is_reachable).count();
        (open.nodes.len() as u64, (open.nodes.len() - reachable) as u64)
    }

    pub(super) fn nodes(&self) -> Vec<TargetNode> {
        self.lock().nodes.clone()
    }

    pub(super) fn has_several_nodes(&self) -> bool {
        self.lock().nodes.len() > 1
    }

    /// Connects to these nodes beside those that were named, and to no others: what is in flight on connections to
    /// others is lost.
    pub(super) fn use_nodes(&self, core: &Arc<Core>, found: impl Iterator<Item = TargetNode>) {
        let mut open = self.lock();
        let (named, before): (Vec<_>, Vec<_>) = std::mem::take(&mut open.nodes)
            .into_iter()
            .partition(|node| node.is_named);
        let found: Vec<_> = found.filter(|node| !node.is_named).collect();
        let is_known = |node: &&TargetNode| before.iter().any(|known| known.address == node.address);
        let new: Vec<_> = found.iter().filter(|node| !is_known(node)).cloned().collect();
        open.nodes = named.into_iter().chain(found).collect();
        let Open { nodes, by_keyspace } = &mut *open;
        let is_left = |slot: &&Slot| nodes.iter().any(|node| node.address == slot.address);
        for slots in by_keyspace.values_mut() {
            *slots = slots.iter().filter(is_left).cloned().collect();
        }
        let mut taken = connections(by_keyspace);
        for (keyspace, slots) in by_keyspace {
            let begun = self.begin(core, keyspace.as_ref(), &new, taken);
            taken += begun.len();
            *slots = slots.iter().cloned().chain(begun).collect();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections_for(&self, core: &Arc<Core>, job: &Job) -> Option<Arc<[Slot]>> {
        let without = self.of(core, None)?;
        let keyspace = &job.request.exchange.request.keyspace;
        // Until a connection is open it is not known: then it sends the request back here.
        let needs_own = keyspace.is_some() && without.iter().any(|slot| slot.status.lacks_keyspaces());
        match needs_own {
            true => self.of(core, keyspace.clone()),
            false => Some(without),
        }
    }

    fn of(&self, core: &Arc<Core>, keyspace: Option<Arc<str>>) -> Option<Arc<[Slot]>> {
        let mut open = self.lock();
        if let Some(slots) = open.by_keyspace.get(&keyspace) {
            return Some(Arc::clone(slots));
        }
        if open.by_keyspace.len() > MOST_SETS {
            return None;
        }
        let taken = connections(&open.by_keyspace);
        let slots: Arc<[Slot]> = self.begin(core, keyspace.as_ref(), &open.nodes, taken).into();
        open.by_keyspace.insert(keyspace, Arc::clone(&slots));
        Some(slots)
    }

    /// Begins to connect to these nodes, where so many connections are `taken`.
    fn begin(
        &self,
        core: &Arc<Core>,
        keyspace: Option<&Arc<str>>,
        nodes: &[TargetNode],
        taken: usize,
    ) -> Vec<Slot> {
        let each = nodes
            .iter()
            .flat_map(|node| std::iter::repeat_n(node, core.settings.connections_per_node.max(1)));
        let has_room = |place: usize, node: &TargetNode| node.is_named || taken + place < MOST_CONNECTIONS;
        let each = each.enumerate().filter(|(place, node)| has_room(*place, node));
        let begin = |node: &TargetNode| {
            let (sender, jobs) = mpsc::unbounded_channel();
            // Requests wait for a node of the settings. One that the cluster announces may be out of reach.
            let status = Arc::new(match node.is_named {
                true => SlotStatus::default(),
                false => SlotStatus::down(),
            });
            let kept = slot::KeptOpen {
                core: Arc::clone(core),
                sets: self.this.clone(),
                address: node.address.to_string(),
                options: node.options.clone(),
                keyspace: keyspace.cloned(),
                status: Arc::clone(&status),
                jobs,
            };
            self.runtime.spawn(kept.run());
            Slot {
                address: Arc::clone(&node.address),
                jobs: sender,
                status,
            }
        };
        each.map(|(_, node)| begin(node)).collect()
    }

    fn choose<'s>(&self, core: &Core, slots: &'s [Slot], job: &Job) -> Option<&'s Slot> {
        let replicas = core.replicas(job);
        if !replicas.is_empty()
            && let Some(slot) = self.least_busy(slots, |slot| replicas.contains(&slot.address))
        {
            core.counters.sent_to_replicas.fetch_add(1, Ordering::Relaxed);
            return Some(slot);
        }
        self.least_busy(slots, |_| true)
    }

    fn least_busy<'s>(&self, slots: &'s [Slot], is_fit: impl Fn(&Slot) -> bool) -> Option<&'s Slot> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % slots.len().max(1);
        let (before, from) = slots.split_at(turn);
        let open = from
            .iter()
            .chain(before)
            .filter(|slot| slot.status.takes_requests() && is_fit(slot));
        open.min_by_key(|slot| slot.status.in_flight())
    }
}

fn connections(by_keyspace: &SlotsByKeyspace) -> usize {
    by_keyspace.values().map(|slots| slots.len()).sum()
}

impl Core {
    /// Tells that the cluster refuses a request's keyspace.
    pub(super) fn refuse(&self, job: Job, code: i32) {
        if job.expects_page() {
            for next in self.pages().failed(job.request.exchange.number) {
                self.abandon(next, Skipped::NoFurtherPage);
            }
        }
        let (response, latency) = (ResponseDigest::Error(code), Duration::ZERO);
        self.finish(job, Outcome::Answered { response, latency });
    }

    /// Ends a request to which no response will come, and those that wait for its next page. A list of them and no call for each: a
    /// chain of pages is as long as its client makes it.
    pub(super) fn abandon(&self, job: Job, why: Skipped) {
        let mut left = vec![(job, why)];
        while let Some((job, why)) = left.pop() {
            if job.expects_page() {
                let waiting = self.pages().failed(job.request.exchange.number);
                left.extend(waiting.into_iter().map(|next| (next, Skipped::UnknownPage)));
            }
            self.finish(job, Outcome::Skipped(why));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::thread;

    use super::*;
    use crate::{
        digest::{DigestKey, RowsDigest},
        exchange::Page,
        target::{Completed, Extent, Purpose, TargetRequest, TargetSettings, pages::Found},
        testing::exchange,
    };

    /// A request for the page after that of the exchange before it, which has a page after it as well.
    fn page(number: u64) -> Job {
        let rows = RowsDigest {
            has_more: true,
            ..RowsDigest::default()
        };
        let mut page = exchange(number, "SELECT a FROM k.t", ResponseDigest::Rows(rows));
        page.request.page = number.checked_sub(1).map_or(Page::First, Page::After);
        Job::new(TargetRequest {
            exchange: Arc::new(page),
            extent: Extent::Page,
            purpose: Purpose::First,
        })
    }

    #[test]
    fn a_chain_of_pages_that_wait_ends_on_a_small_stack() {
        let pages = TargetSettings::new(Vec::new(), DigestKey(1)).most_waiting as u64;
        let (core, mut completed) = Core::new(TargetSettings::new(Vec::new(), DigestKey(1)));
        for number in 0..pages {
            assert!(core.pages().expect(number).is_empty());
            if number > 0 {
                assert!(matches!(
                    core.pages().take(number - 1, page(number)),
                    Found::Waiting
                ));
            }
        }
        let abandon = move || core.abandon(page(0), Skipped::ConnectionLost);
        let small = thread::Builder::new().stack_size(64 << 10).spawn(abandon);
        small.unwrap().join().unwrap();
        for number in 0..pages {
            let Completed { request, outcome } = completed.try_recv().unwrap();
            assert_eq!(request.exchange.number, number);
            let why = match number {
                0 => Skipped::ConnectionLost,
                _ => Skipped::UnknownPage,
            };
            assert_eq!(outcome, Outcome::Skipped(why));
        }
        assert!(completed.try_recv().is_err());
    }
}

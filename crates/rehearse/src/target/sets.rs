//! Connections by keyspace, and which of them takes a request.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

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
    by_keyspace: Mutex<SlotsByKeyspace>,
    runtime: Handle,
    /// Where the search for a connection begins, so that all are used.
    turn: AtomicUsize,
    this: Weak<Sets>,
}

/// The connections that `USE` was sent on, and those without.
type SlotsByKeyspace = HashMap<Option<Arc<str>>, Arc<[Slot]>>;

/// More keyspaces have no connections of their own.
const MOST_SETS: usize = 32;

impl Sets {
    /// Begins to connect, without a keyspace.
    pub(super) fn open(core: &Arc<Core>) -> Arc<Self> {
        let sets = Arc::new_cyclic(|this| Self {
            by_keyspace: Mutex::default(),
            runtime: Handle::current(),
            turn: AtomicUsize::new(0),
            this: this.clone(),
        });
        sets.of(core, None);
        sets
    }

    /// Hands a request to the connection with the fewest in flight.
    pub(super) fn route(&self, core: &Arc<Core>, job: Job) {
        let left_out = match self.connections_for(core, &job) {
            None => Skipped::TooManyKeyspaces,
            Some(slots) => match self.least_busy(&slots) {
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
        let sets = self.by_keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        sets.values()
            .any(|slots| slots.iter().any(|slot| slot.status.takes_requests()))
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
        let mut sets = self.by_keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = sets.get(&keyspace) {
            return Some(Arc::clone(slots));
        }
        if sets.len() > MOST_SETS {
            return None;
        }
        let slots: Arc<[Slot]> = self.begin(core, keyspace.as_ref()).into();
        sets.insert(keyspace, Arc::clone(&slots));
        Some(slots)
    }

    fn begin(&self, core: &Arc<Core>, keyspace: Option<&Arc<str>>) -> Vec<Slot> {
        let nodes = core.settings.nodes.iter();
        let each =
            nodes.flat_map(|node| std::iter::repeat_n(node, core.settings.connections_per_node.max(1)));
        let begin = |(address, options): &(String, _)| {
            let (sender, jobs) = mpsc::unbounded_channel();
            let status = Arc::new(SlotStatus::default());
            let kept = slot::KeptOpen {
                core: Arc::clone(core),
                sets: self.this.clone(),
                address: address.clone(),
                options: Clone::clone(options),
                keyspace: keyspace.cloned(),
                status: Arc::clone(&status),
                jobs,
            };
            self.runtime.spawn(kept.run());
            Slot { jobs: sender, status }
        };
        each.map(begin).collect()
    }

    fn least_busy<'s>(&self, slots: &'s [Slot]) -> Option<&'s Slot> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % slots.len().max(1);
        let (before, from) = slots.split_at(turn);
        let open = from
            .iter()
            .chain(before)
            .filter(|slot| slot.status.takes_requests());
        open.min_by_key(|slot| slot.status.in_flight())
    }
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

    /// Tells that no response will come, to those who wait for its next page too.
    pub(super) fn abandon(&self, job: Job, why: Skipped) {
        let number = job.request.exchange.number;
        let waiting = if job.expects_page() {
            self.pages().failed(number)
        } else {
            Vec::new()
        };
        self.finish(job, Outcome::Skipped(why));
        for next in waiting {
            self.abandon(next, Skipped::UnknownPage);
        }
    }
}

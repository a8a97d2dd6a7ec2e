//! Differences that wait to be looked at again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{
    budget::Share, compare::PendingDifference, digest::ResponseDigest, exchange::RecordedExchange,
    target::Extent,
};

/// Differences that wait to be looked at again, by the number of their exchange.
#[derive(Debug)]
pub(super) struct PendingDifferences {
    doubts: HashMap<u64, Waiting>,
    due: BTreeSet<(Instant, u64)>,
    /// Of their requests and responses.
    share: Share,
}

#[derive(Debug)]
struct Waiting {
    doubt: PendingDifference,
    first: Option<ResponseDigest>,
    other: Option<ResponseDigest>,
}

/// Who has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Other,
}

impl PendingDifferences {
    /// Each keeps a request with its values.
    const MOST: usize = 1_000;

    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            doubts: HashMap::new(),
            due: BTreeSet::new(),
            share,
        }
    }

    /// Adds one; whether there is room.
    pub(super) fn add(&mut self, doubt: PendingDifference, due: Instant) -> bool {
        let number = doubt.exchange.number;
        self.remove(number);
        if self.doubts.len() >= Self::MOST || !self.share.try_take(doubt.weight()) {
            return false;
        }
        self.due.insert((due, number));
        let waiting = Waiting {
            doubt,
            first: None,
            other: None,
        };
        self.doubts.insert(number, waiting);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.doubts.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// What is to be asked now, and for the nth time.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Arc<RecordedExchange>, Extent, u8)> {
        let &(due, number) = self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        let doubt = &self.doubts.get(&number)?.doubt;
        Some((Arc::clone(&doubt.exchange), doubt.extent, doubt.attempts + 1))
    }

    /// Asks again at another time.
    pub(super) fn again(&mut self, number: u64, due: Instant) {
        self.due.insert((due, number));
    }

    /// One of both has answered; gives the responses when all have.
    pub(super) fn answered(
        &mut self,
        number: u64,
        side: Side,
        response: ResponseDigest,
        is_other_alone: bool,
    ) -> Option<(&mut PendingDifference, Option<ResponseDigest>, ResponseDigest)> {
        let waiting = self.doubts.get_mut(&number)?;
        match side {
            Side::First => waiting.first = Some(response),
            Side::Other => waiting.other = Some(response),
        }
        if waiting.other.is_none() || (waiting.first.is_none() && !is_other_alone) {
            return None;
        }
        let other = waiting.other.take()?;
        Some((&mut waiting.doubt, waiting.first.take(), other))
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<PendingDifference> {
        let removed = self.doubts.remove(&number)?.doubt;
        self.share.give_back(removed.weight());
        Some(removed)
    }

    pub(super) fn take_all(&mut self) -> Vec<PendingDifference> {
        self.due.clear();
        self.share.give_back(self.share.used());
        self.doubts.drain().map(|(_, waiting)| waiting.doubt).collect()
    }
}

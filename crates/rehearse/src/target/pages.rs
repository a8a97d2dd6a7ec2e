//! Where the pages of this cluster go on: the paging states of two clusters are not the same.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::job::Job;
use crate::{budget::Share, skipped::Skipped};

/// The paging states that later requests may ask for, by the number of the exchange that gave them.
#[derive(Debug)]
pub(super) struct PagingStates {
    states: HashMap<u64, State>,
    order: VecDeque<u64>,
    /// Of the states that are known, and of those that requests hold.
    share: Arc<Share>,
}

/// Where a page begins. It counts as long as anybody holds it.
#[derive(Debug)]
pub(super) struct PagingState {
    bytes: Box<[u8]>,
    share: Arc<Share>,
}

impl PagingState {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PagingState {
    fn drop(&mut self) {
        self.share.give_back(self.bytes.len());
    }
}

#[derive(Debug)]
enum State {
    /// The response is still to come; those who wait for it.
    Expected(Vec<Job>),
    Known(Arc<PagingState>),
    Ended,
}

impl State {
    /// Those who waited for it.
    fn waiting(self) -> Vec<Job> {
        match self {
            Self::Expected(waiting) => waiting,
            Self::Known(_) | Self::Ended => Vec::new(),
        }
    }
}

/// What is known of the page that a request goes on from.
#[derive(Debug)]
pub(super) enum Found {
    /// The request, with its paging state.
    Ready(Job),
    /// The page before has not come yet.
    Waiting,
    /// There is nothing to go on from.
    Missing(Job, Skipped),
}

impl PagingStates {
    /// Paging states have some hundred bytes.
    const MOST: usize = 10_000;
    /// One that is longer is not kept.
    const LONGEST: usize = 8 << 10;

    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            states: HashMap::new(),
            order: VecDeque::new(),
            share: Arc::new(share),
        }
    }

    /// A response will come that a later request may go on from. Gives those who waited for one that is
    /// forgotten for it.
    pub(super) fn expect(&mut self, number: u64) -> Vec<Job> {
        if !self.states.contains_key(&number) {
            self.order.push_back(number);
        }
        let mut given_up = self.put(number, State::Expected(Vec::new()));
        if self.order.len() > Self::MOST {
            given_up.extend(self.evict_oldest());
        }
        given_up
    }

    fn evict_oldest(&mut self) -> Vec<Job> {
        let Some(oldest) = self.order.pop_front() else {
            return Vec::new();
        };
        self.share
            .count_evicted(usize::from(self.states.contains_key(&oldest)));
        self.remove(oldest)
    }

    /// Gives those who waited for what was there.
    fn put(&mut self, number: u64, state: State) -> Vec<Job> {
        let before = self.states.insert(number, state);
        before.map_or_else(Vec::new, State::waiting)
    }

    fn remove(&mut self, number: u64) -> Vec<Job> {
        let removed = self.states.remove(&number);
        removed.map_or_else(Vec::new, State::waiting)
    }

    fn count(&self, bytes: &[u8]) -> Arc<PagingState> {
        self.share.take(bytes.len());
        Arc::new(PagingState {
            bytes: bytes.into(),
            share: Arc::clone(&self.share),
        })
    }

    /// For a request that goes on at once; none if it is too long, or if there is no room.
    pub(super) fn hold(&self, bytes: &[u8]) -> Option<Arc<PagingState>> {
        if bytes.len() > Self::LONGEST {
            return None;
        }
        let state = self.count(bytes);
        let has_room = !self.share.is_over();
        self.share.count_evicted(usize::from(!has_room));
        has_room.then_some(state)
    }

    /// A response has come. Gives those who waited for it.
    pub(super) fn came(&mut self, number: u64, paging_state: Option<&[u8]>) -> Vec<Found> {
        if !self.states.contains_key(&number) {
            return Vec::new();
        }
        let waiting = match paging_state {
            Some(state) if state.len() > Self::LONGEST => self.remove(number),
            Some(state) => self.put(number, State::Known(self.count(state))),
            None => self.put(number, State::Ended),
        };
        let mut found: Vec<_> = waiting.into_iter().map(|job| self.take(number, job)).collect();
        while self.share.is_over() && !self.order.is_empty() {
            let given_up = self.evict_oldest().into_iter();
            found.extend(given_up.map(|job| Found::Missing(job, Skipped::UnknownPage)));
        }
        found
    }

    /// No response will come. Gives those who waited for it.
    pub(super) fn failed(&mut self, number: u64) -> Vec<Job> {
        self.remove(number)
    }

    /// The page after the one that exchange `before` gave.
    pub(super) fn take(&mut self, before: u64, mut job: Job) -> Found {
        match self.states.get_mut(&before) {
            Some(State::Expected(waiting)) => {
                waiting.push(job);
                Found::Waiting
            }
            Some(State::Known(paging_state)) => {
                job.paging_state = Some(Arc::clone(paging_state));
                Found::Ready(job)
            }
            Some(State::Ended) => Found::Missing(job, Skipped::NoFurtherPage),
            None => Found::Missing(job, Skipped::UnknownPage),
        }
    }
}

#[cfg(test)]
mod tests {
    use cqlens_capture::memory::Part;

    use super::*;
    use crate::{
        digest::ResponseDigest,
        target::{Extent, Purpose, TargetRequest},
        testing::exchange,
    };

    const STATE: &[u8] = &[0; PagingStates::LONGEST];

    #[test]
    fn paging_states_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut states = PagingStates::within(Share::of(&part, 4));
        for number in 0..9_000 {
            assert!(states.expect(number).is_empty());
            assert!(states.came(number, Some(STATE)).is_empty());
            assert!(part.used() <= 16 << 20);
        }
        assert!(!states.states.contains_key(&0) && states.states.contains_key(&8_999));
        states.expect(9_000);
        states.came(9_000, Some(&[0; PagingStates::LONGEST + 1]));
        assert!(!states.states.contains_key(&9_000));
        (0..9_001).for_each(|number| drop(states.failed(number)));
        assert_eq!(part.used(), 0);
        assert!(part.evicted() > 0);
    }

    #[test]
    fn paging_states_count_while_requests_hold_them() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut states = PagingStates::within(Share::of(&part, 4));
        assert!(states.hold(&[0; PagingStates::LONGEST + 1]).is_none());
        let held: Vec<_> = (0..9_000).map_while(|_| states.hold(STATE)).collect();
        assert_eq!(held.len(), (16 << 20) / STATE.len());
        assert_eq!((part.used(), part.evicted()), (16 << 20, 1));
        drop(held);
        assert_eq!(part.used(), 0);
        states.expect(0);
        states.came(0, Some(STATE));
        let read = exchange(1, "SELECT a FROM k.t", ResponseDigest::Missing);
        let found = states.take(
            0,
            Job::new(TargetRequest {
                exchange: Arc::new(read),
                extent: Extent::Page,
                purpose: Purpose::First,
            }),
        );
        states.failed(0);
        assert_eq!(part.used(), STATE.len(), "{found:?}");
        drop(found);
        assert_eq!(part.used(), 0);
    }
}

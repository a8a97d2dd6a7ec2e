//! Where the pages of this cluster go on: the paging states of two clusters are not the same.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::job::Job;
use crate::{budget::Share, skipped::Skipped};

/// The paging states that later requests may ask for, by the number of the exchange that gave them.
#[derive(Debug)]
pub(super) struct PagingStates {
    states: HashMap<u64, State>,
    order: VecDeque<u64>,
    /// Of the states that are known.
    share: Share,
}

#[derive(Debug)]
enum State {
    /// The response is still to come; those who wait for it.
    Expected(Vec<Job>),
    Known(Bytes),
    Ended,
}

impl State {
    fn bytes(&self) -> usize {
        match self {
            Self::Known(state) => state.len(),
            Self::Expected(_) | Self::Ended => 0,
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
    /// One that is longer is not kept: a request that is under way holds its own.
    const LONGEST: usize = 8 << 10;

    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            states: HashMap::new(),
            order: VecDeque::new(),
            share,
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
        self.share.take(state.bytes());
        let before = self.states.insert(number, state);
        self.let_go(before)
    }

    fn remove(&mut self, number: u64) -> Vec<Job> {
        let removed = self.states.remove(&number);
        self.let_go(removed)
    }

    fn let_go(&mut self, state: Option<State>) -> Vec<Job> {
        self.share.give_back(state.as_ref().map_or(0, State::bytes));
        match state {
            Some(State::Expected(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// A response has come. Gives those who waited for it.
    pub(super) fn came(&mut self, number: u64, paging_state: Option<Bytes>) -> Vec<Found> {
        if !self.states.contains_key(&number) {
            return Vec::new();
        }
        let waiting = match paging_state {
            Some(state) if state.len() > Self::LONGEST => self.remove(number),
            state => self.put(number, state.map_or(State::Ended, State::Known)),
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
                job.paging_state = Some(paging_state.clone());
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

    #[test]
    fn paging_states_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut states = PagingStates::within(Share::of(&part, 4));
        let state = Bytes::from(vec![0; PagingStates::LONGEST]);
        for number in 0..9_000 {
            assert!(states.expect(number).is_empty());
            assert!(states.came(number, Some(state.clone())).is_empty());
            assert!(part.used() <= 16 << 20);
        }
        assert!(!states.states.contains_key(&0) && states.states.contains_key(&8_999));
        states.expect(9_000);
        let longer = Bytes::from(vec![0; PagingStates::LONGEST + 1]);
        states.came(9_000, Some(longer));
        assert!(!states.states.contains_key(&9_000));
        (0..9_001).for_each(|number| drop(states.failed(number)));
        assert_eq!(part.used(), 0);
        assert!(part.evicted() > 0);
    }
}

//! Where the pages of this cluster go on: the paging states of two clusters are not the same.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::job::Job;
use crate::skipped::Skipped;

/// The paging states that later requests may ask for, by the number of the exchange that gave them.
#[derive(Debug, Default)]
pub(super) struct PagingStates {
    states: HashMap<u64, State>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
enum State {
    /// The response is still to come; those who wait for it.
    Expected(Vec<Job>),
    Known(Bytes),
    Ended,
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

    /// A response will come that a later request may go on from. Gives those who waited for one that is
    /// forgotten for it.
    pub(super) fn expect(&mut self, number: u64) -> Vec<Job> {
        if self.states.insert(number, State::Expected(Vec::new())).is_none() {
            self.order.push_back(number);
        }
        if self.order.len() <= Self::MOST {
            return Vec::new();
        }
        match self
            .order
            .pop_front()
            .and_then(|oldest| self.states.remove(&oldest))
        {
            Some(State::Expected(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// A response has come. Gives those who waited for it.
    pub(super) fn came(&mut self, number: u64, paging_state: Option<Bytes>) -> Vec<Found> {
        let Some(state) = self.states.get_mut(&number) else {
            return Vec::new();
        };
        let known = paging_state.map_or(State::Ended, State::Known);
        match std::mem::replace(state, known) {
            State::Expected(waiting) => waiting.into_iter().map(|job| self.take(number, job)).collect(),
            _ => Vec::new(),
        }
    }

    /// No response will come. Gives those who waited for it.
    pub(super) fn failed(&mut self, number: u64) -> Vec<Job> {
        match self.states.remove(&number) {
            Some(State::Expected(waiting)) => waiting,
            _ => Vec::new(),
        }
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

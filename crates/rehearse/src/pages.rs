//! Which exchange gave the paging state that a later one asks with.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
};

/// The exchanges that have given the last paging states, by hashes of these: a state may hold keys.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    numbers: HashMap<u64, u64>,
    /// The oldest first; may hold states that are there twice, once for each.
    given: VecDeque<u64>,
    key: RandomState,
}

/// Paging states that are remembered. A client asks for the next page a moment later, or never.
const MOST: usize = 1 << 16;

impl Pages {
    /// The exchange of that number gave the state.
    pub(crate) fn give(&mut self, state: &[u8], number: u64) {
        if self.given.len() >= MOST
            && let Some(oldest) = self.given.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        let hash = self.key.hash_one(state);
        self.numbers.insert(hash, number);
        self.given.push_back(hash);
    }

    /// The exchange that gave the state.
    pub(crate) fn giver(&self, state: &[u8]) -> Option<u64> {
        self.numbers.get(&self.key.hash_one(state)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_states_is_remembered() {
        let mut pages = Pages::default();
        for number in 0..2 * MOST as u64 {
            pages.give(&number.to_be_bytes(), number);
        }
        assert!(pages.numbers.len() <= MOST && pages.given.len() <= MOST);
        let last = 2 * MOST as u64 - 1;
        assert_eq!(pages.giver(&last.to_be_bytes()), Some(last));
        assert_eq!(pages.giver(&0_u64.to_be_bytes()), None);
    }
}

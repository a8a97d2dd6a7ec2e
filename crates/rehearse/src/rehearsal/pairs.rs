//! Responses of two clusters to one request that is sent to both at once.

use std::collections::HashMap;

use crate::digest::ResponseDigest;

/// Responses that wait for the other one. Bounded by what may wait for the clusters.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    halves: HashMap<u64, Half>,
    /// What the first cluster has answered before it was asked once more.
    noise: HashMap<u64, ResponseDigest>,
}

#[derive(Debug)]
enum Half {
    None,
    First(ResponseDigest),
    /// None: no further page.
    Other(Option<ResponseDigest>),
}

type Pair = (ResponseDigest, Option<ResponseDigest>);

impl Pairs {
    pub(super) fn expect(&mut self, number: u64) {
        self.halves.insert(number, Half::None);
    }

    /// Nothing will come of it any more; whether it was expected.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        self.halves.remove(&number).is_some()
    }

    pub(super) fn first(&mut self, number: u64, expected: ResponseDigest) -> Option<Pair> {
        match self.halves.remove(&number)? {
            Half::Other(actual) => Some((expected, actual)),
            Half::None | Half::First(_) => {
                self.halves.insert(number, Half::First(expected));
                None
            }
        }
    }

    pub(super) fn other(&mut self, number: u64, actual: Option<ResponseDigest>) -> Option<Pair> {
        match self.halves.remove(&number)? {
            Half::First(expected) => Some((expected, actual)),
            Half::None | Half::Other(_) => {
                self.halves.insert(number, Half::Other(actual));
                None
            }
        }
    }

    pub(super) fn expect_noise(&mut self, number: u64, before: ResponseDigest) {
        self.noise.insert(number, before);
    }

    pub(super) fn take_noise(&mut self, number: u64) -> Option<ResponseDigest> {
        self.noise.remove(&number)
    }
}

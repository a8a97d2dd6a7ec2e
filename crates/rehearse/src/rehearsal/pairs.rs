//! Responses of two clusters to one request that is sent to both at once.

use std::collections::HashMap;

use crate::{budget::Share, digest::ResponseDigest};

/// Responses that wait for the other one. Their number is bounded by what may wait for the clusters.
#[derive(Debug)]
pub(super) struct Pairs {
    halves: HashMap<u64, Half>,
    /// What the first cluster has answered before it was asked once more.
    noise: HashMap<u64, ResponseDigest>,
    /// Of the responses.
    share: Share,
}

#[derive(Debug)]
enum Half {
    None,
    First(ResponseDigest),
    /// None: no further page.
    Other(Option<ResponseDigest>),
}

type Pair = (ResponseDigest, Option<ResponseDigest>);

/// What is known when one of two responses has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    Both(Pair),
    /// The other one is still to come, or none was expected.
    One,
    /// There is no room to keep it until the other one comes.
    NoRoom,
}

impl Half {
    fn weight(&self) -> usize {
        match self {
            Self::None | Self::Other(None) => 0,
            Self::First(response) | Self::Other(Some(response)) => response.weight(),
        }
    }
}

impl Pairs {
    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            halves: HashMap::new(),
            noise: HashMap::new(),
            share,
        }
    }

    pub(super) fn expect(&mut self, number: u64) {
        self.forget(number);
        self.halves.insert(number, Half::None);
    }

    /// Nothing will come of it any more; whether it was expected.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        self.take(number).is_some()
    }

    fn take(&mut self, number: u64) -> Option<Half> {
        let half = self.halves.remove(&number)?;
        self.share.give_back(half.weight());
        Some(half)
    }

    fn keep(&mut self, number: u64, half: Half) -> Came {
        if !self.share.try_take(half.weight()) {
            return Came::NoRoom;
        }
        self.halves.insert(number, half);
        Came::One
    }

    pub(super) fn first(&mut self, number: u64, expected: ResponseDigest) -> Came {
        match self.take(number) {
            None => Came::One,
            Some(Half::Other(actual)) => Came::Both((expected, actual)),
            Some(Half::None | Half::First(_)) => self.keep(number, Half::First(expected)),
        }
    }

    pub(super) fn other(&mut self, number: u64, actual: Option<ResponseDigest>) -> Came {
        match self.take(number) {
            None => Came::One,
            Some(Half::First(expected)) => Came::Both((expected, actual)),
            Some(Half::None | Half::Other(_)) => self.keep(number, Half::Other(actual)),
        }
    }

    /// Without room for it nothing is compared.
    pub(super) fn expect_noise(&mut self, number: u64, before: ResponseDigest) {
        self.take_noise(number);
        if self.share.try_take(before.weight()) {
            self.noise.insert(number, before);
        }
    }

    pub(super) fn take_noise(&mut self, number: u64) -> Option<ResponseDigest> {
        let before = self.noise.remove(&number)?;
        self.share.give_back(before.weight());
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use cqlens_capture::memory::Part;

    use super::*;
    use crate::digest::RowsDigest;

    #[test]
    fn responses_that_wait_for_another_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 16 << 20);
        let mut pairs = Pairs::within(Share::of(&part, 16));
        let response = |number: u64| {
            ResponseDigest::Rows(RowsDigest {
                column_types: Some([(format!("{number}{}", "c".repeat(32 << 10)), "int".to_owned())].into()),
                ..RowsDigest::default()
            })
        };
        let keeps = |came: &Came| *came == Came::One;
        (0..200).for_each(|number| pairs.expect(number));
        let first: Vec<_> = (0..100)
            .map(|number| pairs.first(number, response(number)))
            .collect();
        let kept = first.iter().filter(|came| keeps(came)).count();
        assert!(
            (20..=31).contains(&kept) && first.contains(&Came::NoRoom),
            "{kept}"
        );
        assert_eq!(pairs.other(150, Some(response(150))), Came::NoRoom);
        assert!(part.used() <= 1 << 20 && part.evicted() > 0);
        // One that was not kept is no longer expected.
        assert_eq!(pairs.other(99, None), Came::One);
        assert!(!pairs.forget(99));
        assert_eq!(pairs.other(0, None), Came::Both((response(0), None)));
        pairs.expect_noise(7, response(7));
        pairs.expect_noise(8, response(8));
        assert!(pairs.take_noise(7).is_some() && pairs.take_noise(8).is_none());
        for number in 0..200 {
            pairs.forget(number);
        }
        assert_eq!(part.used(), 0);
    }
}

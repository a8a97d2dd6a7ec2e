//! Running totals by name for a bounded number of names, so that no client can make series without end.
//!
//! Everything is counted once: below its name, or among the others. What was counted among the others stays there when a name gets a
//! place, and what a name has counted goes with it when it loses its place; so no series ever falls as long as it is there.

use std::{cmp::Reverse, collections::BTreeMap};

/// What adds up.
pub(super) trait Total: Clone + Default {
    /// Adds `other`.
    fn merge(&mut self, other: &Self);

    /// How much it matters: executions, say.
    fn weight(&self) -> u64;
}

/// The totals of at most `limit` names, and of all others together.
#[derive(Debug, Clone)]
pub(super) struct Places<K, T> {
    limit: usize,
    named: BTreeMap<K, Place<T>>,
    others: T,
}

#[derive(Debug, Clone, Default)]
struct Place<T> {
    total: T,
    /// How much was added lately: what was added before the last window counts half, and half again with each further one.
    weight: u64,
}

impl<K: Ord + Clone, T: Total> Places<K, T> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            named: BTreeMap::new(),
            others: T::default(),
        }
    }

    /// Adds what one window has.
    pub(super) fn add(&mut self, window: BTreeMap<K, T>) {
        self.named.values_mut().for_each(|place| place.weight /= 2);
        let mut new = Vec::new();
        for (name, more) in window {
            match self.named.get_mut(&name) {
                Some(place) => place.add(&more),
                None => new.push((name, more)),
            }
        }
        new.sort_by_key(|(_, more)| Reverse(more.weight()));
        for (name, more) in new {
            match self.has_place_for(more.weight()) {
                true => self.named.entry(name).or_default().add(&more),
                false => self.others.merge(&more),
            }
        }
    }

    /// Adds to the others.
    pub(super) fn add_to_others(&mut self, more: &T) {
        self.others.merge(more);
    }

    /// Whether a new name of this weight gets a place; what is twice as busy takes that of the lightest.
    fn has_place_for(&mut self, weight: u64) -> bool {
        if self.named.len() < self.limit {
            return true;
        }
        let lightest = self.named.iter().min_by_key(|(_, place)| place.weight);
        let Some((name, _)) = lightest.filter(|(_, place)| place.weight < weight) else {
            return false;
        };
        let name = name.clone();
        self.named.remove(&name).is_some()
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (&K, &T)> {
        self.named.iter().map(|(name, place)| (name, &place.total))
    }

    pub(super) fn others(&self) -> &T {
        &self.others
    }
}

impl<T: Total> Place<T> {
    fn add(&mut self, more: &T) {
        self.total.merge(more);
        self.weight = self.weight.saturating_add(more.weight());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Total for u64 {
        fn merge(&mut self, other: &Self) {
            *self += other;
        }

        fn weight(&self) -> u64 {
            *self
        }
    }

    fn window(counts: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
        counts.iter().copied().collect()
    }

    fn named(places: &Places<&'static str, u64>) -> Vec<(&'static str, u64)> {
        places.named().map(|(name, total)| (*name, *total)).collect()
    }

    #[test]
    fn the_busiest_names_have_the_places_and_the_rest_is_counted_together() {
        let mut places = Places::new(2);
        places.add(window(&[("a", 5), ("b", 9), ("c", 7)]));
        assert_eq!(named(&places), [("b", 9), ("c", 7)]);
        assert_eq!(*places.others(), 5);
    }

    #[test]
    fn a_name_loses_its_place_to_one_that_is_twice_as_busy_and_to_no_other() {
        let mut places = Places::new(1);
        (0..20).for_each(|_| places.add(window(&[("steady", 100)])));
        places.add(window(&[("steady", 100), ("busy", 190)]));
        assert_eq!(named(&places), [("steady", 2_100)]);
        places.add(window(&[("steady", 100), ("busier", 300)]));
        assert_eq!(named(&places), [("busier", 300)]);
        assert_eq!(*places.others(), 190, "what was named is not counted again");
    }

    #[test]
    fn a_name_that_is_idle_gives_way() {
        let mut places = Places::new(1);
        places.add(window(&[("gone", 1_000)]));
        (0..11).for_each(|_| places.add(window(&[("here", 1)])));
        assert_eq!(named(&places), [("here", 2)]);
        assert_eq!(*places.others(), 9);
    }

    #[test]
    fn ten_thousand_names_take_no_more_than_their_places() {
        let mut places = Places::new(100);
        for round in 1..=3_u64 {
            places.add((0..10_000_u64).map(|name| (name, name * round)).collect());
        }
        assert_eq!(places.named().count(), 100);
    }
}

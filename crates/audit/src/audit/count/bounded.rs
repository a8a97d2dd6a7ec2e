//! A map with a limit: the oldest goes first.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Values by keyed hashes, at most so many.
///
/// Removing leaves a mark in the order of age behind; there are at most as many marks as values may be.
#[derive(Debug)]
pub(crate) struct BoundedMap<V> {
    limit: usize,
    values: FxHashMap<u64, Aged<V>>,
    /// (key, age) in the order of arrival; what is not in `values` any more, or is younger there, is a mark.
    order: VecDeque<(u64, u64)>,
    next_age: u64,
}

#[derive(Debug)]
struct Aged<V> {
    age: u64,
    value: V,
}

impl<V> BoundedMap<V> {
    /// An empty map with room for `limit` values.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            values: FxHashMap::default(),
            order: VecDeque::new(),
            next_age: 0,
        }
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        self.values.get(&key).map(|aged| &aged.value)
    }

    /// The value of `key`, to be changed; it grows no younger.
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        self.values.get_mut(&key).map(|aged| &mut aged.value)
    }

    /// The value of `key`, made if there is none; and what had to go for it.
    pub(crate) fn entry(&mut self, key: u64, make: impl FnOnce() -> V) -> (&mut V, Option<V>) {
        let evicted = if self.values.contains_key(&key) {
            None
        } else {
            self.make_room()
        };
        let (order, next_age) = (&mut self.order, &mut self.next_age);
        let aged = self.values.entry(key).or_insert_with(|| {
            *next_age += 1;
            order.push_back((key, *next_age));
            Aged {
                age: *next_age,
                value: make(),
            }
        });
        (&mut aged.value, evicted)
    }

    /// Puts `value` in, as the youngest; and gives what had to go for it: its predecessor is replaced
    /// silently.
    pub(crate) fn insert(&mut self, key: u64, value: V) -> Option<V> {
        self.remove(key);
        let mut value = Some(value);
        let evicted = self.make_room();
        self.next_age += 1;
        if let Some(value) = value.take() {
            self.order.push_back((key, self.next_age));
            let age = self.next_age;
            self.values.insert(key, Aged { age, value });
        }
        evicted
    }

    /// Takes the value of `key` out.
    pub(crate) fn remove(&mut self, key: u64) -> Option<V> {
        let removed = self.values.remove(&key)?;
        if self.order.len() > 2 * self.limit {
            let values = &self.values;
            self.order
                .retain(|(key, age)| values.get(key).is_some_and(|aged| aged.age == *age));
        }
        Some(removed.value)
    }

    /// Takes the oldest value out if it `is_due`.
    pub(crate) fn pop_oldest_if(&mut self, is_due: impl Fn(&V) -> bool) -> Option<V> {
        loop {
            let &(key, age) = self.order.front()?;
            match self.values.get(&key) {
                Some(aged) if aged.age == age && !is_due(&aged.value) => return None,
                Some(aged) if aged.age == age => {
                    self.order.pop_front();
                    return self.values.remove(&key).map(|aged| aged.value);
                }
                _ => drop(self.order.pop_front()),
            }
        }
    }

    fn make_room(&mut self) -> Option<V> {
        if self.values.len() < self.limit {
            return None;
        }
        self.pop_oldest_if(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_is_given_back() {
        let mut map = BoundedMap::new(2);
        assert_eq!(map.insert(1, 'a'), None);
        assert_eq!(map.insert(2, 'b'), None);
        assert_eq!(map.insert(1, 'c'), None, "replaced, and the youngest now");
        assert_eq!(map.insert(3, 'd'), Some('b'));
        assert_eq!(
            (map.get(1), map.get(2), map.get(3)),
            (Some(&'c'), None, Some(&'d'))
        );
        assert_eq!(map.pop_oldest_if(|value| *value == 'x'), None);
        assert_eq!(map.pop_oldest_if(|value| *value == 'c'), Some('c'));
    }

    #[test]
    fn an_entry_keeps_its_age() {
        let mut map = BoundedMap::new(2);
        map.insert(1, 'a');
        map.insert(2, 'b');
        *map.entry(1, || 'x').0 = 'c';
        assert_eq!(map.entry(3, || 'd'), (&mut 'd', Some('c')));
    }

    #[test]
    fn what_is_removed_leaves_no_memory_behind() {
        let mut map = BoundedMap::new(8);
        for key in 0..10_000 {
            map.insert(key, key);
            map.remove(key);
        }
        assert!(map.order.len() <= 17, "{}", map.order.len());
        assert_eq!(map.pop_oldest_if(|_| true), None);
    }
}

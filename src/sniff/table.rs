//! Connections by their ends, those of the latest packets at hand.

use foldhash::{HashMap, HashMapExt};

use super::{ends::Ends, flow::Flow};

/// Places of latest connections that are remembered, by the client's port: a power of two.
const REMEMBERED: usize = 1_024;

/// All connections, by client and server.
#[derive(Debug)]
pub(super) struct Table {
    flows: Vec<(Ends, Flow)>,
    /// Where each is.
    places: HashMap<Ends, usize>,
    /// Where those were that were found last: looked at first, and believed if they still are.
    remembered: Box<[usize; REMEMBERED]>,
}

impl Table {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            flows: Vec::new(),
            places: HashMap::new(),
            remembered: Box::new([0; REMEMBERED]),
        }
    }

    /// The connection with these ends.
    #[inline]
    pub(super) fn get_mut(&mut self, ends: &Ends) -> Option<&mut Flow> {
        let (client, _) = ends.ports();
        let slot = usize::from(client) % REMEMBERED;
        let mut place = self.remembered[slot];
        if self.flows.get(place).is_none_or(|(known, _)| known != ends) {
            place = *self.places.get(ends)?;
            self.remembered[slot] = place;
        }
        self.flows.get_mut(place).map(|(_, flow)| flow)
    }

    /// Whether there is one.
    pub(super) fn contains(&self, ends: &Ends) -> bool {
        self.places.contains_key(ends)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Ends, Flow)> {
        self.flows.iter()
    }

    /// All of them, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut().map(|(_, flow)| flow)
    }

    /// Adds one, in place of the one with the same ends if there is one.
    pub(super) fn insert(&mut self, ends: Ends, flow: Flow) {
        match self.get_mut(&ends) {
            Some(before) => *before = flow,
            None => {
                self.places.insert(ends, self.flows.len());
                self.flows.push((ends, flow));
            }
        }
    }

    /// Forgets those of which `keep` does not hold.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Flow) -> bool) {
        let before = self.flows.len();
        self.flows.retain_mut(|(_, flow)| keep(flow));
        if self.flows.len() < before {
            let places = (0..).zip(&self.flows).map(|(place, (ends, _))| (*ends, place));
            self.places = places.collect();
        }
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, ends: &Ends) -> Option<Flow> {
        let place = self.places.remove(ends)?;
        let (_, flow) = self.flows.swap_remove(place);
        if let Some((moved, _)) = self.flows.get(place) {
            self.places.insert(*moved, place);
        }
        Some(flow)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::BTreeMap, sync::Arc};

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::sniff::{losses::Losses, testing::Talk};
    use cqlens_audit::capture::{Connection, ConnectionId, Limits, Moment, Queue};

    /// One whose last segment was at that time.
    fn flow(at: i64) -> Flow {
        let mut talk = Talk::new((5, 6));
        let connection = Arc::new(Connection::recorded(ConnectionId(0), talk.client));
        let mut segment = talk.open().remove(0);
        segment.at = Moment::from_unix_nanoseconds(at);
        let queue = Arc::new(Queue::new(1, Limits::default()));
        Flow::new(
            connection,
            &segment,
            &queue,
            &cqlens_audit::memory::Part::new("test", 1 << 20),
            &mut Losses::default(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn each_is_found_by_its_ends_whatever_came_and_went(
            steps in vec((0_u8..6, 0_u32..12), 0..60),
        ) {
            let (mut table, mut expected) = (Table::new(), BTreeMap::new());
            for (at, (what, ports)) in (0..).zip(steps) {
                // Some have the same port of the client.
                let ends = Ends::V4(u64::from(ports % 3), (ports / 3) << 16);
                match what {
                    0 => {
                        let taken = table.remove(&ends).map(|flow| flow.last);
                        prop_assert_eq!(taken, expected.remove(&ends));
                    }
                    1 => {
                        let keeps = |last: Moment| last.unix_nanoseconds() % 4 != 0;
                        table.retain(|flow| keeps(flow.last));
                        expected.retain(|_, last| keeps(*last));
                    }
                    _ => {
                        table.insert(ends, flow(at));
                        expected.insert(ends, Moment::from_unix_nanoseconds(at));
                    }
                }
                prop_assert_eq!(table.len(), expected.len());
                for ports in 0..12 {
                    let ends = Ends::V4(u64::from(ports % 3_u32), (ports / 3) << 16);
                    prop_assert_eq!(table.contains(&ends), expected.contains_key(&ends));
                    prop_assert_eq!(table.get_mut(&ends).map(|flow| flow.last), expected.get(&ends).copied());
                }
            }
        }
    }
}

//! Prepared ids that the server has executed and that are not known: what the control connection looks for.
//!
//! A client can make ids up. So there is a limit, the newest ids come first, and an id that was not found is
//! not looked for again for a while; then it is, since the server's table is written some time after the
//! statement is prepared.

use std::collections::{HashSet, VecDeque};

/// An id as servers make them: Cassandra, ScyllaDB, DSE and YugabyteDB take the MD5 digest of keyspace and
/// text.
pub(super) type Id = [u8; 16];

/// The ids that wait to be looked for, and those that were not found.
#[derive(Debug, Default)]
pub(super) struct WantedIds {
    waiting: BoundedIds,
    /// Those that the look that is under way is for.
    looked_for: BoundedIds,
    /// How many it was begun for.
    looks: usize,
    missed: BoundedIds,
    /// Those of `missed` that were there already when it was last tidied up.
    missed_before: BoundedIds,
}

/// At most [`BoundedIds::MOST`] ids: the oldest goes first.
#[derive(Debug, Default)]
struct BoundedIds {
    /// Not a quick hash: clients choose the ids.
    known: HashSet<Id>,
    order: VecDeque<Id>,
}

impl BoundedIds {
    const MOST: usize = 4_096;

    fn insert(&mut self, id: Id) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    fn contains(&self, id: &Id) -> bool {
        self.known.contains(id)
    }

    fn remove(&mut self, id: &Id) {
        if self.known.remove(id) {
            self.order.retain(|other| other != id);
        }
    }
}

impl WantedIds {
    /// Adds an id; whether it is to be looked for and was not yet.
    pub(super) fn want(&mut self, id: Id) -> bool {
        let known = [&self.looked_for, &self.missed, &self.missed_before];
        !known.iter().any(|ids| ids.contains(&id)) && self.waiting.insert(id)
    }

    /// The statement with the id is known now.
    pub(super) fn found(&mut self, id: &[u8]) {
        let Ok(id) = Id::try_from(id) else { return };
        let all = [
            &mut self.waiting,
            &mut self.looked_for,
            &mut self.missed,
            &mut self.missed_before,
        ];
        all.into_iter().for_each(|ids| ids.remove(&id));
    }

    /// All that waits is looked for from now on; what comes later waits for the next look.
    pub(super) fn begin_look(&mut self) {
        self.looked_for = std::mem::take(&mut self.waiting);
        self.looks = self.looked_for.order.len();
    }

    /// The look is over; whether it was for any ids, and found none of them.
    pub(super) fn end_look(&mut self) -> bool {
        let missed = std::mem::take(&mut self.looked_for);
        for id in &missed.order {
            self.missed.insert(*id);
        }
        self.looks > 0 && missed.order.len() == self.looks
    }

    /// Forgets what was not found before the last call.
    pub(super) fn forget_missed(&mut self) {
        self.missed_before = std::mem::take(&mut self.missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> Id {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        id
    }

    fn look(wanted: &mut WantedIds, finds: &[Id]) -> bool {
        wanted.begin_look();
        finds.iter().for_each(|id| wanted.found(id));
        wanted.end_look()
    }

    #[test]
    fn an_id_that_was_not_found_is_looked_for_again_after_a_while() {
        let mut wanted = WantedIds::default();
        assert!(wanted.want(id(1)) && !wanted.want(id(1)));
        assert!(look(&mut wanted, &[]), "not found");
        assert!(!wanted.want(id(1)));
        wanted.forget_missed();
        assert!(!wanted.want(id(1)), "it may have been missed a moment ago");
        wanted.forget_missed();
        assert!(wanted.want(id(1)));
        assert!(!look(&mut wanted, &[id(1)]), "found");
        assert!(!look(&mut wanted, &[]), "nothing was wanted");
    }

    #[test]
    fn what_is_wanted_during_a_look_waits_for_the_next() {
        let mut wanted = WantedIds::default();
        wanted.begin_look();
        assert!(wanted.want(id(1)));
        wanted.end_look();
        assert!(look(&mut wanted, &[]), "it is the next look that misses it");
    }

    #[test]
    fn ids_that_are_made_up_do_not_keep_others_from_being_looked_for() {
        let mut wanted = WantedIds::default();
        for made_up in 0..100_000 {
            wanted.want(id(made_up));
            if made_up % 10_000 == 0 {
                look(&mut wanted, &[]);
            }
            let sets = [&wanted.waiting, &wanted.looked_for, &wanted.missed];
            assert!(sets.iter().all(|ids| ids.order.len() <= BoundedIds::MOST));
            assert!(sets.iter().all(|ids| ids.order.len() == ids.known.len()));
        }
        assert!(wanted.want(id(u32::MAX)), "the newest is always looked for");
        wanted.begin_look();
        assert!(wanted.looked_for.contains(&id(u32::MAX)));
    }
}

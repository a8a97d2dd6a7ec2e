//! Reads of the same in quick succession, also where many users share one session.
//!
//! A program that repeats itself reads the same several times in a moment, and not in the next one. What is popular is read by
//! one user after the other, as often in the next moment as in this one: that is what chance brings.

use super::{SOON, follow_ups::KeyedRequest, recent::Recent, repeats::SameRead};
use crate::{
    audit::count::bounded::BoundedMap,
    window::{Bursts, PatternId, RepeatedReads, Sequences, Window},
};

/// Finds bursts of reads.
#[derive(Debug)]
pub(super) struct BurstFinder {
    /// When a read was answered that was the only one in its moment, as most are: those leave nothing to be counted.
    single: Recent<i64>,
    open: BoundedMap<OpenBurst>,
}

/// The latest reads of the same, two at least.
#[derive(Debug)]
struct OpenBurst {
    pattern: PatternId,
    read: SameRead,
    now: Burst,
    /// The moment before, as long as what comes after it is counted.
    before: Option<Burst>,
}

/// A read, and those of the same that come after its answer.
#[derive(Debug, Clone, Copy)]
struct Burst {
    answered_at: i64,
    /// Itself, and those within [`SOON`].
    reads: u64,
    /// Those in as much time after that.
    later: u64,
}

impl Burst {
    fn after(answered_at: i64) -> Self {
        Self {
            answered_at,
            reads: 1,
            later: 0,
        }
    }

    fn is_over(&self, now: i64) -> bool {
        now.saturating_sub(self.answered_at) > 2 * SOON
    }
}

impl BurstFinder {
    /// Different reads of a moment that came again in it; of more the oldest are left out.
    const OPEN: usize = 4_096;

    pub(super) fn new() -> Self {
        Self {
            single: Recent::new(),
            open: BoundedMap::new(Self::OPEN),
        }
    }

    /// Takes a read that was answered to those before it.
    pub(super) fn note(
        &mut self,
        read: SameRead,
        request: KeyedRequest,
        is_first: bool,
        window: &mut Window,
    ) {
        self.end_of_old(request.at, window);
        let Some(reads) = self.open_mut(read, request) else {
            if is_first {
                self.single.put(read.unchanged, request.answered_at);
            }
            return;
        };
        let elapsed = request.at.saturating_sub(reads.now.answered_at);
        // Sent a second time while the first is in flight, as drivers do, or by another user.
        if elapsed < 0 {
            return;
        }
        if let Some(before) = &mut reads.before {
            before.later += u64::from(!before.is_over(request.at));
        }
        if elapsed <= SOON {
            reads.now.reads += 1;
            return;
        }
        reads.now.later += 1;
        if is_first && let Some(ended) = self.open.remove(read.unchanged) {
            if let Some(before) = ended.before {
                before.count(&ended, &mut window.sequences);
            }
            let now = Burst::after(request.answered_at);
            self.begin(read, request.pattern, now, Some(ended.now));
        }
    }

    /// The reads of the same, which a single one is as soon as another one comes.
    fn open_mut(&mut self, read: SameRead, request: KeyedRequest) -> Option<&mut OpenBurst> {
        if self.open.get(read.unchanged).is_none() {
            let single = Burst::after(*self.single.get_mut(read.unchanged)?);
            if single.is_over(request.at) {
                return None;
            }
            self.begin(read, request.pattern, single, None);
        }
        self.open.get_mut(read.unchanged)
    }

    /// What has to go for it is not seen to its end.
    fn begin(&mut self, read: SameRead, pattern: PatternId, now: Burst, before: Option<Burst>) {
        let reads = OpenBurst {
            pattern,
            read,
            now,
            before,
        };
        self.open.insert(read.unchanged, reads);
    }

    fn end_of_old(&mut self, now: i64, window: &mut Window) {
        while let Some(reads) = self.open.pop_oldest_if(|reads| reads.now.is_over(now)) {
            reads.count(now, &mut window.sequences);
        }
    }

    /// Nothing is seen after this time: what is not over by then is not counted.
    pub(super) fn end_at(&mut self, end: i64, window: &mut Window) {
        while let Some(reads) = self.open.pop_oldest_if(|_| true) {
            reads.count(end, &mut window.sequences);
        }
    }
}

impl OpenBurst {
    fn count(&self, now: i64, sequences: &mut Sequences) {
        let moments = [Some(self.now), self.before].into_iter().flatten();
        for moment in moments.filter(|moment| moment.is_over(now)) {
            moment.count(self, sequences);
        }
    }
}

impl Burst {
    fn count(self, of: &OpenBurst, sequences: &mut Sequences) {
        let is_burst = self.reads >= RepeatedReads::FEWEST;
        let is_by_chance = self.later + 1 >= RepeatedReads::FEWEST;
        if !is_burst && !is_by_chance {
            return;
        }
        let Some(repeated) = sequences.repeated(of.pattern) else {
            return;
        };
        let bursts: &mut Bursts = &mut repeated.bursts;
        if is_burst {
            bursts.runs += 1;
            bursts.reads += self.reads;
            repeated.keys.insert(of.read.key);
        }
        if is_by_chance {
            bursts.runs_by_chance += 1;
            bursts.reads_by_chance += self.later + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    const MILLISECOND: i64 = 1_000_000;

    fn same(key: u64) -> SameRead {
        SameRead { key, unchanged: key }
    }

    /// Runs and reads of one key, and those that are by chance, of reads at these milliseconds; each takes one.
    fn of(times: impl Iterator<Item = i64>) -> (u64, u64, u64) {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let mut bursts = BurstFinder::new();
        for at in times {
            let request = KeyedRequest {
                pattern: PatternId(1),
                at: at * MILLISECOND,
                answered_at: (at + 1) * MILLISECOND,
            };
            bursts.note(same(7), request, true, &mut window);
        }
        bursts.end_at(3_600_000 * MILLISECOND, &mut window);
        let repeated = window.sequences.repeats.get(&PatternId(1));
        let counted = repeated.map_or_else(Bursts::default, |repeated| repeated.bursts);
        (counted.runs, counted.reads, counted.runs_by_chance)
    }

    #[test]
    fn five_within_a_moment_are_a_burst() {
        assert_eq!(of([0, 10, 20, 30, 51].into_iter()), (1, 5, 0));
        assert_eq!(of([0, 10, 20, 30, 52].into_iter()), (0, 0, 0));
        assert_eq!(
            of([0, 0, 0, 0, 0, 0].into_iter()),
            (0, 0, 0),
            "in flight together"
        );
    }

    #[test]
    fn only_what_is_read_again_in_its_moment_is_open() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let mut bursts = BurstFinder::new();
        let mut note = |at: i64, key: u64| {
            let request = KeyedRequest {
                pattern: PatternId(1),
                at: at * MILLISECOND,
                answered_at: (at + 1) * MILLISECOND,
            };
            // Each has a place of its own.
            let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bursts.note(same(key), request, true, &mut window);
            bursts.open.get(key).is_some()
        };
        assert!((0..100).all(|key| !note(0, key)));
        assert!(note(101, 7), "in the moment of the first one");
        assert!(!note(102, 8), "after it");
    }

    #[test]
    fn what_goes_on_for_as_long_again_is_no_burst() {
        // Every ten milliseconds, for a second: by one user after the other.
        let (runs, _, by_chance) = of((0..100).map(|read| read * 10));
        assert_eq!((runs, by_chance), (16, 16));
        // Eight in a row, ten times a second.
        let (runs, reads, by_chance) = of((0..80).map(|read| read / 8 * 110 + read % 8 * 2));
        assert_eq!((runs, reads, by_chance), (10, 80, 0));
    }

    #[test]
    fn what_is_not_seen_to_its_end_is_not_counted() {
        let counted = |end: i64| {
            let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
            let mut bursts = BurstFinder::new();
            for at in 0..5 {
                let at = at * 5 * MILLISECOND;
                let request = KeyedRequest {
                    pattern: PatternId(1),
                    at,
                    answered_at: at + MILLISECOND,
                };
                bursts.note(same(7), request, at == 0, &mut window);
            }
            bursts.end_at(end * MILLISECOND, &mut window);
            window.sequences.repeats.len()
        };
        assert_eq!([101, 102].map(counted), [0, 1]);
    }
}

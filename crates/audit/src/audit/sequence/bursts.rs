//! Reads of the same in quick succession, also where many users share one session.
//!
//! A program that repeats itself reads the same several times in a moment, and not in the next one. What is popular is read by
//! one user after the other, as often in the next moment as in this one: that is what chance brings. The next moment is one in
//! which as much is sent: a client that is held up sends nothing, and catches up. Where the application stops reading before
//! that, only reads in a row are a burst: others may be popular, and nothing shows it.

use super::{
    SOON,
    flows::{Flow, Flows},
    follow_ups::KeyedRequest,
    recent::Recent,
    repeats::SameRead,
};
use crate::audit::count::bounded::BoundedMap;
use cqlens_window::{Bursts, PatternId, RepeatedReads, Sequences, Window};

/// Finds bursts of reads.
#[derive(Debug)]
pub(super) struct BurstFinder {
    /// When a read was answered that was the only one in its moment, as most are: those leave nothing to be counted.
    single: Recent<Burst>,
    open: BoundedMap<OpenBurst>,
}

/// After so much time without a read of its flow, in nanoseconds, a burst is over.
const STOPPED: i64 = 20 * SOON;

/// The latest reads of the same, two at least.
#[derive(Debug)]
struct OpenBurst {
    /// Of its [`Flow`].
    flow: u64,
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
    /// The same by the clock of its [`Flow`].
    answered_in_flow: i64,
    /// Itself, and those within [`SOON`].
    reads: u64,
    /// Of all reads of its [`Flow`] the numbers of the first and the last of these.
    numbers: (u64, u64),
    /// Those in as much time after that, by the clock of the flow.
    later: u64,
}

impl Burst {
    fn of(request: KeyedRequest, flow: Flow) -> Self {
        Self {
            answered_at: request.answered_at,
            answered_in_flow: flow.time + (request.answered_at - request.at),
            reads: 1,
            numbers: (flow.number, flow.number),
            later: 0,
        }
    }

    /// Whether it is most of what is read meanwhile.
    fn is_in_a_row(&self) -> bool {
        self.numbers.1.saturating_sub(self.numbers.0) < self.reads * 2
    }

    fn is_over(&self, flow: Flow) -> bool {
        flow.time - self.answered_in_flow > 2 * SOON
    }

    fn is_seen_to_its_end(&self, now: i64) -> bool {
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

    /// Takes a read that was answered to those before it; `pattern` stands for actor and statement, and `flow` is theirs at this read.
    pub(super) fn note(
        &mut self,
        (read, pattern): (SameRead, u64),
        (request, is_first): (KeyedRequest, bool),
        (flow, flows): (Flow, &Flows),
        window: &mut Window,
    ) {
        self.end_of_old(request.at, flows, window);
        let Some(reads) = self.open_mut((read, pattern), request.pattern, flow) else {
            if is_first {
                self.single.put(read.unchanged, Burst::of(request, flow));
            }
            return;
        };
        let elapsed = request.at.saturating_sub(reads.now.answered_at);
        // Sent a second time while the first is in flight, as drivers do, or by another user.
        if elapsed < 0 {
            return;
        }
        if let Some(before) = &mut reads.before {
            before.later += u64::from(!before.is_over(flow));
        }
        if elapsed <= SOON {
            reads.now.reads += 1;
            reads.now.numbers.1 = flow.number;
            return;
        }
        reads.now.later += u64::from(!reads.now.is_over(flow));
        if is_first && let Some(ended) = self.open.remove(read.unchanged) {
            if let Some(before) = ended.before {
                before.count(&ended, Some(flow), &mut window.sequences);
            }
            self.open.insert(
                read.unchanged,
                OpenBurst {
                    now: Burst::of(request, flow),
                    before: Some(ended.now),
                    ..ended
                },
            );
        }
    }

    /// The reads of the same, which a single one is as soon as another one comes. What has to go for it is not seen to its end.
    fn open_mut(
        &mut self,
        (read, pattern): (SameRead, u64),
        id: PatternId,
        flow: Flow,
    ) -> Option<&mut OpenBurst> {
        if self.open.get(read.unchanged).is_none() {
            let single = *self.single.get_mut(read.unchanged)?;
            if single.is_over(flow) {
                return None;
            }
            self.open.insert(
                read.unchanged,
                OpenBurst {
                    flow: pattern,
                    pattern: id,
                    read,
                    now: single,
                    before: None,
                },
            );
        }
        self.open.get_mut(read.unchanged)
    }

    fn end_of_old(&mut self, now: i64, flows: &Flows, window: &mut Window) {
        let is_over = |reads: &OpenBurst| match flows.get(reads.flow) {
            Some(flow) => now.saturating_sub(flow.last_at) > STOPPED || reads.now.is_over(*flow),
            None => true,
        };
        while let Some(reads) = self.open.pop_oldest_if(is_over) {
            let flow = flows.get(reads.flow).copied();
            reads.count(now, flow, &mut window.sequences);
        }
    }

    /// Nothing is seen after this time: what is not over by then is not counted.
    pub(super) fn end_at(&mut self, end: i64, flows: &Flows, window: &mut Window) {
        while let Some(reads) = self.open.pop_oldest_if(|_| true) {
            let flow = flows.get(reads.flow).copied();
            reads.count(end, flow, &mut window.sequences);
        }
    }
}

impl OpenBurst {
    fn count(&self, now: i64, flow: Option<Flow>, sequences: &mut Sequences) {
        let moments = [Some(self.now), self.before].into_iter().flatten();
        for moment in moments.filter(|moment| moment.is_seen_to_its_end(now)) {
            moment.count(self, flow, sequences);
        }
    }
}

impl Burst {
    fn count(self, of: &OpenBurst, flow: Option<Flow>, sequences: &mut Sequences) {
        let is_followed = flow.is_some_and(|flow| self.is_over(flow));
        let is_burst = self.reads >= RepeatedReads::FEWEST && (is_followed || self.is_in_a_row());
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

    fn note(
        (bursts, flows): (&mut BurstFinder, &mut Flows),
        key: u64,
        (request, is_first): (KeyedRequest, bool),
        window: &mut Window,
    ) {
        let flow = flows.read(1, request.at, is_first);
        bursts.note((same(key), 1), (request, is_first), (flow, flows), window);
    }

    /// Runs and reads of one key, and those that are by chance, of reads at these milliseconds; each takes one.
    fn of(times: impl Iterator<Item = i64>) -> (u64, u64, u64) {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
        for at in times {
            let request = KeyedRequest {
                pattern: PatternId(1),
                at: at * MILLISECOND,
                answered_at: (at + 1) * MILLISECOND,
            };
            note((&mut bursts, &mut flows), 7, (request, true), &mut window);
        }
        bursts.end_at(3_600_000 * MILLISECOND, &flows, &mut window);
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
        let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
        let mut read = |at: i64, key: u64| {
            let request = KeyedRequest {
                pattern: PatternId(1),
                at: at * MILLISECOND,
                answered_at: (at + 1) * MILLISECOND,
            };
            // Each has a place of its own.
            let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            note((&mut bursts, &mut flows), key, (request, true), &mut window);
            bursts.open.get(key).is_some()
        };
        // A read each millisecond.
        assert!((0..100_u64).all(|key| !read(key.cast_signed(), key)));
        assert!(read(100, 0), "in the moment of the first one");
        assert!(!read(103, 1), "after it");
    }

    #[test]
    fn what_goes_on_for_as_long_again_is_no_burst() {
        // Every ten milliseconds, for a second: by one user after the other.
        let (runs, _, by_chance) = of((0..100).map(|read| read * 10));
        assert_eq!((runs, by_chance), (16, 16));
    }

    #[test]
    fn eight_of_one_key_and_then_of_others_are_bursts() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
        for read in 0..80_i64 {
            let at = (read / 8 * 110 + read % 8 * 2) * MILLISECOND;
            let request = KeyedRequest {
                pattern: PatternId(1),
                at,
                answered_at: at + MILLISECOND,
            };
            let key = (read / 8 % 7).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
            note((&mut bursts, &mut flows), key, (request, true), &mut window);
        }
        bursts.end_at(3_600_000 * MILLISECOND, &flows, &mut window);
        let counted = window.sequences.repeats[&PatternId(1)].bursts;
        assert_eq!((counted.runs, counted.reads, counted.runs_by_chance), (10, 80, 0));
    }

    #[test]
    fn what_is_popular_is_no_burst_where_all_is_over_in_a_moment() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
        for read in 0..300_i64 {
            let at = read * MILLISECOND / 4;
            let request = KeyedRequest {
                pattern: PatternId(1),
                at,
                answered_at: at + MILLISECOND / 8,
            };
            let key = (read * 7 % 20)
                .cast_unsigned()
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            note((&mut bursts, &mut flows), key, (request, true), &mut window);
        }
        bursts.end_at(3_600_000 * MILLISECOND, &flows, &mut window);
        let counted = window.sequences.repeats.values();
        assert_eq!(counted.map(|repeated| repeated.bursts.runs).sum::<u64>(), 0);
    }

    #[test]
    fn what_is_popular_is_no_burst_where_the_client_is_held_up() {
        // Two of a hundred keys in each twenty reads, a read each millisecond: for 50 ms, or as long as a processor lasts.
        let counted = |runs_for: i64, stands_for: i64| {
            let at = |read: i64| read + read / runs_for * stands_for;
            let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
            let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
            let mut random = 1_u64;
            for read in 0..20_000 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let key = (random >> 33) % 20;
                let request = KeyedRequest {
                    pattern: PatternId(1),
                    at: at(read) * MILLISECOND,
                    answered_at: at(read) * MILLISECOND + MILLISECOND / 2,
                };
                let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                note((&mut bursts, &mut flows), key, (request, true), &mut window);
            }
            bursts.end_at(3_600_000 * MILLISECOND, &flows, &mut window);
            window.sequences.repeats[&PatternId(1)].bursts
        };
        for (runs_for, stands_for) in [(20_000, 0), (50, 450), (20, 20), (10, 90), (200, 800)] {
            let bursts = counted(runs_for, stands_for);
            assert!(
                bursts.runs_by_chance * 10 >= bursts.runs * 8,
                "{runs_for} of {stands_for} ms: {bursts:?}"
            );
        }
    }

    #[test]
    fn what_is_not_seen_to_its_end_is_not_counted() {
        let counted = |end: i64| {
            let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
            let (mut bursts, mut flows) = (BurstFinder::new(), Flows::new());
            for at in 0..5 {
                let at = at * 5 * MILLISECOND;
                let request = KeyedRequest {
                    pattern: PatternId(1),
                    at,
                    answered_at: at + MILLISECOND,
                };
                note((&mut bursts, &mut flows), 7, (request, at == 0), &mut window);
            }
            bursts.end_at(end * MILLISECOND, &flows, &mut window);
            window.sequences.repeats.len()
        };
        assert_eq!([101, 102].map(counted), [0, 1]);
    }
}

//! Reads that the same actor sends again and again: the same statement with the same values, one after the other.

use super::{follow_ups::KeyedRequest, recent::Recent};
use cqlens_window::{RepeatedReads, Window};

/// A read by its hashes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SameRead {
    /// Actor, statement and values.
    pub(super) key: u64,
    /// The same between two writes of the actor to the partition: after a write, a read may return something else.
    pub(super) unchanged: u64,
}

/// Writes to partitions, of which [`SameRead::unchanged`] is made.
#[derive(Debug)]
pub(super) struct PartitionWrites(Recent<u64>);

impl PartitionWrites {
    pub(super) fn new() -> Self {
        Self(Recent::new())
    }

    /// Partitions mean others from now on.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// A partition is written; `partition` stands for actor, table and key.
    pub(super) fn write(&mut self, partition: u64) {
        let writes = self.so_far(partition);
        self.0.put(partition, writes.wrapping_add(1));
    }

    /// Writes to a partition; 0 once others have taken its place.
    pub(super) fn so_far(&mut self, partition: u64) -> u64 {
        self.0.get_mut(partition).copied().unwrap_or(0)
    }
}

/// Finds repeated reads.
#[derive(Debug)]
pub(super) struct RepeatFinder {
    runs: Recent<Run>,
}

/// The same read, several times in a second.
#[derive(Debug, Clone, Copy)]
struct Run {
    began_at: i64,
    /// When the last one was answered.
    answered_at: i64,
    reads: u64,
    /// Of all reads of its actor by its pattern the number of the first one.
    first: u64,
    is_counted: bool,
}

/// How long a run is, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

impl RepeatFinder {
    pub(super) fn new() -> Self {
        Self { runs: Recent::new() }
    }

    /// Takes a read that was answered to those before it; `number` is its own among those of its actor and statement.
    pub(super) fn note(&mut self, read: SameRead, number: u64, request: KeyedRequest, window: &mut Window) {
        let run = self.runs.get_mut(read.unchanged);
        let Some(run) = run.filter(|run| request.at.saturating_sub(run.began_at) < SECOND) else {
            self.runs.put(
                read.unchanged,
                Run {
                    began_at: request.at,
                    answered_at: request.answered_at,
                    reads: 1,
                    first: number,
                    is_counted: false,
                },
            );
            return;
        };
        let overlaps = request.at < run.answered_at;
        run.answered_at = run.answered_at.max(request.answered_at);
        // Sent a second time while the first is in flight, as drivers do, or by another user.
        if overlaps {
            return;
        }
        run.reads += 1;
        // Where others come in between, users read what is popular, and no program repeats itself.
        let is_in_a_row = number.saturating_sub(run.first) < run.reads * 2;
        if run.reads < RepeatedReads::FEWEST || !is_in_a_row {
            return;
        }
        let Some(counted) = window.sequences.repeated(request.pattern) else {
            return;
        };
        if std::mem::replace(&mut run.is_counted, true) {
            counted.reads += 1;
        } else {
            counted.runs += 1;
            counted.reads += run.reads;
            counted.keys.insert(read.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_window::PatternId;
    use jiff::Timestamp;

    fn same(key: u64) -> SameRead {
        SameRead { key, unchanged: key }
    }

    /// Runs and reads of one read at these milliseconds, each answered after ten.
    fn of(times: &[i64]) -> (u64, u64) {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let mut repeats = RepeatFinder::new();
        for (number, at) in (0..).zip(times) {
            let at = at * 1_000_000;
            let request = KeyedRequest {
                pattern: PatternId(1),
                at,
                answered_at: at + 10_000_000,
            };
            repeats.note(same(7), number, request, &mut window);
        }
        let counted = window.sequences.repeats.get(&PatternId(1));
        counted.map_or((0, 0), |counted| (counted.runs, counted.reads))
    }

    #[test]
    fn five_in_a_second_are_a_run() {
        assert_eq!(of(&[5_000, 5_020, 5_040, 5_060]), (0, 0));
        assert_eq!(of(&[5_000, 5_020, 5_040, 5_060, 5_080]), (1, 5));
        assert_eq!(of(&[5_000, 5_020, 5_040, 5_060, 5_080, 5_200, 5_300]), (1, 7));
        assert_eq!(of(&[5_000, 5_300, 5_600, 5_900, 6_000, 6_100]), (0, 0));
    }

    #[test]
    fn what_is_popular_among_many_is_no_run() {
        let in_runs = |others: i64| {
            let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
            let mut repeats = RepeatFinder::new();
            for at in 0..10 * (1 + others) {
                let request = KeyedRequest {
                    pattern: PatternId(1),
                    at: 1_000_000_000 + at * 10_000_000,
                    answered_at: 1_000_000_000 + at * 10_000_000 + 1_000_000,
                };
                let key = match at % (1 + others) {
                    0 => 7,
                    _ => 1_000 + u64::try_from(at).unwrap_or(0),
                };
                let read = same(key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                repeats.note(read, at.cast_unsigned(), request, &mut window);
            }
            window
                .sequences
                .repeats
                .values()
                .map(|reads| reads.runs)
                .sum::<u64>()
        };
        assert_eq!(in_runs(0), 1);
        assert_eq!(in_runs(1), 1);
        assert_eq!(in_runs(2), 0);
    }

    #[test]
    fn what_is_sent_twice_at_once_counts_once() {
        assert_eq!(of(&[5_000, 5_001, 5_002, 5_003, 5_004, 5_005]), (0, 0));
    }
}

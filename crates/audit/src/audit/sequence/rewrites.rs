//! Writes into partitions that the same actor has read just before.
//!
//! A program that decides by what it reads writes at once. What is read of popular keys by others comes by chance: as
//! often in the time before that. And who asks for a key again and again waits for it, and does not write it.

use super::{SOON, follow_ups::KeyedRequest, recent::Recent};
use crate::window::{PatternId, Rewrites as Counted, Sequences, Window};

/// Finds writes of what was read.
#[derive(Debug)]
pub(super) struct Rewrites(Recent<ReadKey>);

/// The latest read of a key.
#[derive(Debug, Clone, Copy)]
struct ReadKey {
    pattern: PatternId,
    answered_at: i64,
    /// How often it was read without a break.
    reads: u32,
    /// What has written it since.
    written: Option<PatternId>,
}

/// Reads of a key without a break, from which on they are a poll.
const POLL: u32 = 3;

/// How long a read is remembered: what comes in the second half comes by chance.
const WAITS: i64 = 2 * SOON;

impl Rewrites {
    pub(super) fn new() -> Self {
        Self(Recent::new())
    }

    /// Keys mean others from now on.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// A partition is read; `key` stands for actor, table and partition.
    pub(super) fn read(&mut self, key: u64, request: KeyedRequest) {
        let before = self
            .0
            .get_mut(key)
            .filter(|read| read.written.is_none() && request.at.saturating_sub(read.answered_at) <= WAITS);
        let reads = before.map_or(0, |read| read.reads);
        self.0.put(
            key,
            ReadKey {
                pattern: request.pattern,
                answered_at: request.answered_at,
                reads: reads.saturating_add(1),
                written: None,
            },
        );
    }

    /// It is written.
    pub(super) fn write(&mut self, key: u64, request: KeyedRequest, window: &mut Window) {
        let Some(read) = self.0.get_mut(key) else { return };
        let elapsed = request.at.saturating_sub(read.answered_at);
        let is_again = read.written.replace(request.pattern) == Some(request.pattern);
        if !(0..=WAITS).contains(&elapsed) || read.reads >= POLL || is_again {
            return;
        }
        if let Some(writes) = counted(&mut window.sequences, (read.pattern, request.pattern)) {
            if elapsed > SOON {
                writes.late += 1;
            } else {
                writes.writes += 1;
                writes.elapsed_us.record(elapsed.unsigned_abs() / 1_000);
            }
        }
    }
}

/// Those of a read and a write; none where there are too many pairs.
fn counted(sequences: &mut Sequences, (read, write): (PatternId, PatternId)) -> Option<&mut Counted> {
    let known = sequences.rewrites.get(&write);
    let is_known = known.is_some_and(|reads| reads.contains_key(&read));
    let pairs = || {
        sequences
            .rewrites
            .values()
            .map(|reads| reads.len())
            .sum::<usize>()
    };
    if !is_known && pairs() >= Sequences::MOST_LINKS {
        return None;
    }
    let reads = sequences.rewrites.entry(write).or_default();
    Some(reads.entry(read).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    const MILLISECOND: i64 = 1_000_000;

    fn request(pattern: u64, at: i64) -> KeyedRequest {
        KeyedRequest {
            pattern: PatternId(pattern),
            at: at * MILLISECOND,
            answered_at: (at + 1) * MILLISECOND,
        }
    }

    /// What is counted of reads (1) and writes (2) of one key at these milliseconds.
    fn of(requests: &[(u64, i64)]) -> (u64, u64) {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let mut rewrites = Rewrites::new();
        for &(pattern, at) in requests {
            match pattern {
                1 => rewrites.read(7, request(1, at)),
                _ => rewrites.write(7, request(2, at), &mut window),
            }
        }
        let pairs = window.sequences.rewrites.get(&PatternId(2));
        let counted = pairs.and_then(|reads| reads.get(&PatternId(1)));
        counted.map_or((0, 0), |counted| (counted.writes, counted.late))
    }

    #[test]
    fn a_write_soon_after_a_read_goes_on_from_it() {
        assert_eq!(of(&[(1, 1_000), (2, 1_005)]), (1, 0));
        assert_eq!(of(&[(1, 1_000), (2, 1_005), (1, 1_010), (2, 1_015)]), (2, 0));
        assert_eq!(of(&[(1, 1_000), (1, 1_002), (2, 1_005)]), (1, 0), "read twice");
        assert_eq!(of(&[(1, 1_000), (2, 1_005), (2, 1_006)]), (1, 0), "written twice");
    }

    #[test]
    fn what_comes_later_comes_by_chance() {
        assert_eq!(of(&[(1, 1_000), (2, 1_090)]), (0, 1));
        assert_eq!(of(&[(1, 1_000), (2, 1_200)]), (0, 0));
        assert_eq!(of(&[(1, 1_000), (2, 1_000)]), (0, 0), "before the answer");
    }

    #[test]
    fn who_polls_does_not_write() {
        let polls: Vec<(u64, i64)> = (0..20).map(|at| (1, 1_000 + at * 20)).collect();
        assert_eq!(of(&[&polls[..], &[(2, 1_385)]].concat()), (0, 0));
    }
}

//! Writes into partitions that the same actor has read just before.
//!
//! A program that decides by what it reads writes at once. What is read of popular keys by others comes by chance: as
//! often in the time before that. And who asks for a key again and again waits for it, and does not write it.

use std::collections::BTreeMap;

use super::{SOON, follow_ups::KeyedRequest, recent::Recent};
use cqlens_window::{PairRoom, PatternId, Rewrites, Sequences, Window};

/// Finds writes of what was read.
#[derive(Debug)]
pub(super) struct RewriteFinder {
    reads: Recent<ReadKey>,
    room: PairRoom,
}

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

impl RewriteFinder {
    pub(super) fn new() -> Self {
        Self {
            reads: Recent::new(),
            room: PairRoom::default(),
        }
    }

    /// Keys mean others from now on.
    pub(super) fn forget(&mut self) {
        self.reads.clear();
    }

    /// A partition is read; `key` stands for actor, table and partition.
    pub(super) fn read(&mut self, key: u64, request: KeyedRequest) {
        let before = self
            .reads
            .get_mut(key)
            .filter(|read| read.written.is_none() && request.at.saturating_sub(read.answered_at) <= WAITS);
        let reads = before.map_or(0, |read| read.reads);
        self.reads.put(
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
        let Some(read) = self.reads.get_mut(key) else {
            return;
        };
        let elapsed = request.at.saturating_sub(read.answered_at);
        let is_again = read.written.replace(request.pattern) == Some(request.pattern);
        if !(0..=WAITS).contains(&elapsed) || read.reads >= POLL || is_again {
            return;
        }
        if let Some(writes) = counted(
            &mut window.sequences,
            (read.pattern, request.pattern),
            &mut self.room,
        ) {
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
fn counted<'s>(
    sequences: &'s mut Sequences,
    (read, write): (PatternId, PatternId),
    room: &mut PairRoom,
) -> Option<&'s mut Rewrites> {
    let all = &mut sequences.rewrites;
    if all.is_empty() {
        room.begin();
    }
    let is_known = all.get(&write).is_some_and(|reads| reads.contains_key(&read));
    if !is_known && !room.takes(|| all.values().map(BTreeMap::len).sum()) {
        return None;
    }
    Some(all.entry(write).or_default().entry(read).or_default())
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
        let mut rewrites = RewriteFinder::new();
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
    fn pairs_beyond_the_limit_are_left_out_until_the_next_window() {
        let mut rewrites = RewriteFinder::new();
        let pairs_of = |rewrites: &mut RewriteFinder, pairs: u64| {
            let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
            for pattern in 0..pairs {
                let key = pattern.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                rewrites.read(key, request(pattern * 2 % 100, 1_000));
                rewrites.write(key, request(pattern + 200, 1_005), &mut window);
            }
            let all = window.sequences.rewrites.values();
            all.map(BTreeMap::len).sum::<usize>()
        };
        assert_eq!(pairs_of(&mut rewrites, 3_000), Sequences::MOST_LINKS);
        assert_eq!(pairs_of(&mut rewrites, 100), 100);
    }

    #[test]
    fn who_polls_does_not_write() {
        let polls: Vec<(u64, i64)> = (0..20).map(|at| (1, 1_000 + at * 20)).collect();
        assert_eq!(of(&[&polls[..], &[(2, 1_385)]].concat()), (0, 0));
    }
}

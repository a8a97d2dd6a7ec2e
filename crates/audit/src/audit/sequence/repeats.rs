//! Reads that the same actor sends again and again: the same statement with the same values, one after the other.

use super::{follow_ups::KeyedRequest, recent::Recent};
use crate::window::{RepeatedReads, Sequences, Window};

/// Finds repeated reads.
#[derive(Debug)]
pub(super) struct Repeats(Recent<Run>);

/// The same read, several times in a second.
#[derive(Debug, Clone, Copy)]
struct Run {
    began_at: i64,
    /// When the last one was answered.
    answered_at: i64,
    reads: u64,
}

/// How long a run is, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

impl Repeats {
    pub(super) fn new() -> Self {
        Self(Recent::new())
    }

    /// Takes a read that was answered to those before it; `key` stands for actor, statement and values.
    pub(super) fn note(&mut self, key: u64, request: KeyedRequest, window: &mut Window) {
        let run = self.0.get_mut(key);
        let Some(run) = run.filter(|run| request.at.saturating_sub(run.began_at) < SECOND) else {
            self.0.put(
                key,
                Run {
                    began_at: request.at,
                    answered_at: request.answered_at,
                    reads: 1,
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
        let reads = run.reads;
        if reads < RepeatedReads::FEWEST {
            return;
        }
        let Some(counted) = counted(&mut window.sequences, request) else {
            return;
        };
        if reads == RepeatedReads::FEWEST {
            counted.runs += 1;
            counted.reads += reads;
            counted.keys.insert(key);
        } else {
            counted.reads += 1;
        }
    }
}

/// Those of a pattern; none where there are too many patterns.
fn counted(sequences: &mut Sequences, request: KeyedRequest) -> Option<&mut RepeatedReads> {
    let repeats = &mut sequences.repeats;
    let has_room = repeats.len() < Sequences::MOST_LINKS || repeats.contains_key(&request.pattern);
    has_room.then(|| repeats.entry(request.pattern).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::PatternId;
    use jiff::Timestamp;

    /// Runs and reads of one read at these milliseconds, each answered after ten.
    fn of(times: &[i64]) -> (u64, u64) {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "");
        let mut repeats = Repeats::new();
        for at in times {
            let at = at * 1_000_000;
            let request = KeyedRequest {
                pattern: PatternId(1),
                at,
                answered_at: at + 10_000_000,
            };
            repeats.note(7, request, &mut window);
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
    fn what_is_sent_twice_at_once_counts_once() {
        assert_eq!(of(&[5_000, 5_001, 5_002, 5_003, 5_004, 5_005]), (0, 0));
    }
}

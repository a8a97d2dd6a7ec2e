//! Windows with operations of several statements, for tests.

use cqlens_window::{Distribution, FollowedReads, Link, PatternId, Window};

/// How a step is taken.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Reads whose rows are remembered, which are all followed.
    pub times: u64,
    /// Keys for each of them.
    pub fan_out: u64,
    /// Requests that do not wait for the one before.
    pub overlapping: u64,
    /// Requests for several keys.
    pub lists: u64,
    /// Of an operation of the first read, in microseconds.
    pub operation_us: u64,
}

/// One read after the other, for a hundred reads that are followed.
pub fn taken(fan_out: u64) -> Taken {
    Taken {
        times: 100,
        fan_out,
        overlapping: 0,
        lists: 0,
        operation_us: 2_000 * (fan_out + 1),
    }
}

/// Lets reads of one pattern be followed by those of another one, by these columns.
pub fn follow(window: &mut Window, (from, to): (u64, u64), columns: (&str, &str), taken: Taken) {
    let Taken { times, fan_out, .. } = taken;
    let reads = window.sequences.followed.entry(PatternId(from)).or_default();
    *reads = FollowedReads {
        reads: times,
        rows: times * fan_out,
        operation_us: all(taken.operation_us, times),
        ..std::mem::take(reads)
    };
    let mut link = Link {
        keys: all(fan_out, times),
        rows: times * fan_out,
        requests: if taken.lists > 0 { times } else { times * fan_out },
        lists: taken.lists,
        overlapping: taken.overlapping,
        elapsed_us: all(2_000 * fan_out, times),
        compared: times * fan_out.saturating_sub(1),
        in_order: times * fan_out.saturating_sub(1),
        ..Link::default()
    };
    (0..times * fan_out).for_each(|value| {
        link.values
            .insert((value + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    });
    let keys = [(columns.1.to_owned(), times * fan_out)].into();
    link.columns.insert(columns.0.to_owned(), keys);
    reads.links.insert(PatternId(to), link);
}

fn all(each: u64, times: u64) -> Distribution {
    let mut all = Distribution::default();
    all.record_n(each, times);
    all
}

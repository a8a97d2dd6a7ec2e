//! Recognises reads that together cover the whole ring: drivers, Spark and export jobs read it token range by
//! token range.
//!
//! The ranges of one statement from one host belong together until they cover 99 % of the ring. What follows
//! completes the scan, as long as it is new; the first range that was read before begins the next one. Two
//! scans by one host at the same time are taken for one.

use crate::audit::count::bounded::BoundedMap;
use cqlens_window::{PatternId, RingCover, Window};

/// Full scans that are going on, at about 600 bytes each.
#[derive(Debug)]
pub(crate) struct FullRingScans(BoundedMap<RingScan>);

#[derive(Debug, Default)]
struct RingScan {
    cover: RingCover,
    reads: u64,
    is_complete: bool,
}

const MAX_SCANS: usize = 1_024;

/// The part of the ring that makes a full scan: a few ranges may have been left out of the audit.
const WHOLE: f64 = 0.99;

impl Default for FullRingScans {
    fn default() -> Self {
        Self(BoundedMap::new(MAX_SCANS))
    }
}

impl FullRingScans {
    /// A read of `host` covers the tokens between the two of `range`.
    pub(crate) fn note(&mut self, id: PatternId, host: u64, range: (i64, i64), window: &mut Window) {
        let key = (id.0 ^ host.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (scan, evicted) = self.0.entry(key, RingScan::default);
        if let Some(evicted) = evicted.filter(|evicted| !evicted.is_complete) {
            window.coverage.sweeps_forgotten += evicted.reads;
        }
        let (cells, new) = scan.cover.insert(range.0, range.1);
        if scan.is_complete && cells > 0 && new == 0 {
            *scan = RingScan::default();
            scan.cover.insert(range.0, range.1);
        }
        scan.reads += 1;
        let Some(pattern) = window.patterns.get_mut(&id) else {
            return;
        };
        let ranges = &mut pattern.token_ranges;
        ranges.cover.insert(range.0, range.1);
        if scan.is_complete {
            ranges.sweep_reads += 1;
        } else if scan.cover.share() >= WHOLE {
            scan.is_complete = true;
            ranges.sweeps += 1;
            ranges.sweep_reads += scan.reads;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::{PatternHead, TokenRanges};
    use jiff::Timestamp;

    const ID: PatternId = PatternId(9);

    fn window() -> Window {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let head = PatternHead {
            kind: StatementKind::Select,
            keyspace: None,
            table: None,
            cql: String::new(),
            system: false,
        };
        window.pattern_mut(ID, "", || (head, BTreeSet::new()));
        window
    }

    /// The ring in `count` ranges of very different widths.
    fn ranges(count: i64) -> Vec<(i64, i64)> {
        // Squares: the first ranges are narrow, the last ones wide.
        let end = |number: i64| {
            let position = i128::from(number) * i128::from(number) * (1 << 64) / i128::from(count * count);
            i64::try_from(position + i128::from(i64::MIN)).unwrap_or(i64::MAX)
        };
        (0..count).map(|number| (end(number), end(number + 1))).collect()
    }

    fn sweep(
        sweeps: &mut FullRingScans,
        host: u64,
        ranges: impl IntoIterator<Item = (i64, i64)>,
        window: &mut Window,
    ) {
        for range in ranges {
            sweeps.note(ID, host, range, window);
        }
    }

    fn seen(window: &Window) -> (u64, u64) {
        let TokenRanges {
            sweeps, sweep_reads, ..
        } = window.patterns[&ID].token_ranges;
        (sweeps, sweep_reads)
    }

    #[test]
    fn a_sweep_in_384_reads_is_one_sweep_whatever_their_order_and_how_often_it_comes() {
        let (mut sweeps, mut window) = (FullRingScans::default(), window());
        for time in 1..=50 {
            let mut ranges = ranges(384);
            ranges.rotate_left(time * 7 % 384);
            if time % 3 == 0 {
                ranges.reverse();
            }
            sweep(&mut sweeps, 1, ranges, &mut window);
            let time = u64::try_from(time).unwrap_or(0);
            assert_eq!(seen(&window).0, time);
        }
        // A narrow range at the end of a sweep may be taken for the beginning of the next one; no read counts
        // twice.
        let (_, reads) = seen(&window);
        assert!((50 * 384 - 50..=50 * 384).contains(&reads), "{reads}");
        assert!((window.patterns[&ID].token_ranges.cover.share() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn most_of_the_ring_is_not_all_of_it_and_two_hosts_do_not_share_a_sweep() {
        let (mut sweeps, mut window) = (FullRingScans::default(), window());
        let (lower, upper): (Vec<_>, Vec<_>) = ranges(100).into_iter().partition(|&(after, _)| after < 0);
        sweep(&mut sweeps, 1, lower.clone(), &mut window);
        sweep(&mut sweeps, 1, lower, &mut window);
        sweep(&mut sweeps, 2, upper.clone(), &mut window);
        assert_eq!(seen(&window), (0, 0));
        assert!((window.patterns[&ID].token_ranges.cover.share() - 1.0).abs() < 1e-9);
        sweep(&mut sweeps, 1, upper, &mut window);
        assert_eq!(seen(&window).0, 1);
    }

    #[test]
    fn sweeps_that_are_given_up_are_counted() {
        let (mut sweeps, mut window) = (FullRingScans::default(), window());
        for host in 0..1_030 {
            sweep(&mut sweeps, host, [(0, 1 << 60), (1 << 60, 1 << 61)], &mut window);
        }
        assert_eq!(window.coverage.sweeps_forgotten, 12);
    }
}

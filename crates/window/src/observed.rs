//! When the sources of a window watched.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::sketch::meter;

/// From when to when, in UTC; it never ends before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
}

impl Interval {
    /// Its length, in seconds.
    pub fn seconds(self) -> f64 {
        self.end.duration_since(self.start).as_secs_f64().max(0.0)
    }
}

/// The intervals in which each source watched, by its name: in order, apart from each other by more than a
/// second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed(#[serde(deserialize_with = "stored")] BTreeMap<String, Vec<Interval>>);

/// Windows of one source follow each other; the clocks that they are read from differ by less.
const TOUCHING: SignedDuration = SignedDuration::from_secs(1);

/// So many intervals of one source are told apart; from there on the shortest gap counts as watched.
const MOST_INTERVALS: usize = 1_000;

impl Observed {
    /// Whether nothing is known of when anybody watched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an interval in which `source` watched.
    pub fn add(&mut self, source: &str, interval: Interval) {
        let mine = self.0.entry(source.to_owned()).or_default();
        mine.push(interval);
        *mine = joined(std::mem::take(mine));
    }

    /// Adds the intervals of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (source, theirs) in &other.0 {
            let mine = self.0.entry(source.clone()).or_default();
            mine.extend(theirs);
            *mine = joined(std::mem::take(mine));
        }
    }

    /// The intervals of each source.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &[Interval])> {
        self.0
            .iter()
            .map(|(source, intervals)| (source.as_str(), intervals.as_slice()))
    }

    /// When at least one source watched.
    pub fn union(&self) -> Vec<Interval> {
        joined(self.0.values().flatten().copied().collect())
    }

    /// Seconds in which at least one source observed.
    pub fn seconds(&self) -> f64 {
        self.union().into_iter().map(Interval::seconds).sum()
    }

    /// Seconds in which at least one of these sources watched.
    pub fn seconds_of<'s>(&self, sources: impl IntoIterator<Item = &'s str>) -> f64 {
        let intervals = sources.into_iter().filter_map(|source| self.0.get(source));
        let union = joined(intervals.flatten().copied().collect());
        union.into_iter().map(Interval::seconds).sum()
    }

    /// When no source watched, between the first and the last time that one did.
    pub fn gaps(&self) -> Vec<Interval> {
        let union = self.union();
        let pairs = union.iter().zip(union.iter().skip(1));
        pairs
            .map(|(before, after)| Interval {
                start: before.end,
                end: after.start,
            })
            .collect()
    }

    /// A source that watched at the same time here and in `other`: whose traffic is in both.
    pub fn overlap<'o>(&self, other: &'o Self) -> Option<&'o str> {
        let overlaps = |source: &String, theirs: &[Interval]| {
            let mine = self.0.get(source).map(Vec::as_slice).unwrap_or_default();
            watched_at_once(mine, theirs)
        };
        let mut both = other.0.iter().filter(|(source, theirs)| overlaps(source, theirs));
        both.next().map(|(source, _)| source.as_str())
    }
}

/// Whether two sources, or one of two windows, watched at the same time. Both are in order, so that one look at each
/// interval is enough.
fn watched_at_once(mut mine: &[Interval], mut theirs: &[Interval]) -> bool {
    while let ([one, my_rest @ ..], [other, their_rest @ ..]) = (mine, theirs) {
        let both = one.end.min(other.end).duration_since(one.start.max(other.start));
        if both > TOUCHING {
            return true;
        }
        match one.end <= other.end {
            true => mine = my_rest,
            false => theirs = their_rest,
        }
    }
    false
}

/// The same time in as few intervals as possible, in order.
fn joined(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
    for next in intervals {
        match joined.last_mut() {
            Some(last) if next.start.duration_since(last.end) <= TOUCHING => {
                last.end = last.end.max(next.end)
            }
            _ => joined.push(next),
        }
    }
    match joined.len().checked_sub(MOST_INTERVALS) {
        None | Some(0) => joined,
        Some(too_many) => without_shortest_gaps(joined, too_many),
    }
}

/// The same intervals, with the shortest gaps between them closed; the earlier ones of those that are as long. All are found
/// with one search: closing one changes no other.
fn without_shortest_gaps(intervals: Vec<Interval>, closed: usize) -> Vec<Interval> {
    let pairs = intervals.iter().zip(intervals.iter().skip(1));
    let mut gaps: Vec<_> = pairs
        .map(|(before, after)| after.start.duration_since(before.end))
        .zip(1_usize..)
        .collect();
    let (shortest, last, _) = gaps.select_nth_unstable(closed - 1);
    let mut is_closed = vec![false; intervals.len()];
    for (_, at) in shortest.iter().chain([&*last]) {
        is_closed[*at] = true;
    }
    let mut left: Vec<Interval> = Vec::with_capacity(intervals.len() - closed);
    for (interval, is_closed) in intervals.into_iter().zip(is_closed) {
        match left.last_mut() {
            Some(before) if is_closed => before.end = interval.end,
            _ => left.push(interval),
        }
    }
    left
}

/// What is stored, if it is no more than merging keeps: in order, whatever the document has.
fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<Interval>>, D::Error> {
    let mut stored: BTreeMap<String, Vec<Interval>> = meter::nested(deserializer)?;
    for intervals in stored.values_mut() {
        if intervals.len() > MOST_INTERVALS {
            return Err(D::Error::custom("more intervals than a source has"));
        }
        if intervals.iter().any(|interval| interval.end < interval.start) {
            return Err(D::Error::custom("an interval that ends before it starts"));
        }
        *intervals = joined(std::mem::take(intervals));
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(start: i64, end: i64) -> Interval {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        Interval {
            start: at(start),
            end: at(end),
        }
    }

    fn observed(all: &[(&str, i64, i64)]) -> Observed {
        let mut observed = Observed::default();
        for &(source, start, end) in all {
            observed.add(source, interval(start, end));
        }
        observed
    }

    #[test]
    fn two_at_once_watch_as_long_as_one_and_one_after_the_other_as_long_as_both() {
        assert_eq!(observed(&[("a", 0, 60), ("b", 0, 60)]).seconds(), 60.0);
        assert_eq!(observed(&[("a", 0, 60), ("b", 60, 120)]).seconds(), 120.0);
        let pods: Vec<_> = (0..20).map(|pod| (format!("pod-{pod}"), pod * 3_600)).collect();
        let pods: Vec<_> = pods
            .iter()
            .map(|(name, start)| (name.as_str(), *start, start + 3_600))
            .collect();
        assert_eq!(observed(&pods).seconds(), 72_000.0);
        assert_eq!(
            observed(&[("week", 0, 604_800), ("hour", 7_200, 10_800)]).seconds(),
            604_800.0
        );
    }

    #[test]
    fn of_some_sources_only_their_time_counts() {
        let observed = observed(&[
            ("week", 0, 604_800),
            ("hour", 7_200, 10_800),
            ("pod", 10_800, 14_400),
        ]);
        assert_eq!(observed.seconds_of(["hour"]), 3_600.0);
        assert_eq!(observed.seconds_of(["hour", "pod"]), 7_200.0);
        assert_eq!(observed.seconds_of(["hour", "week"]), 604_800.0);
        assert_eq!(observed.seconds_of(["nobody"]), 0.0);
    }

    #[test]
    fn gaps_are_when_nobody_watched() {
        let observed = observed(&[("a", 0, 60), ("b", 30, 90), ("a", 300, 360)]);
        assert_eq!(observed.gaps(), [interval(90, 300)]);
        assert_eq!(observed.seconds(), 150.0);
    }

    #[test]
    fn the_same_source_at_the_same_time_overlaps_and_the_next_window_does_not() {
        let first = observed(&[("a", 0, 60)]);
        assert_eq!(first.overlap(&observed(&[("a", 30, 90)])), Some("a"));
        assert_eq!(first.overlap(&observed(&[("a", 0, 60)])), Some("a"));
        assert_eq!(first.overlap(&observed(&[("a", 60, 120)])), None);
        assert_eq!(first.overlap(&observed(&[("b", 30, 90)])), None);
    }

    fn many(intervals: i64) -> String {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let interval = |at: &[Timestamp; 2]| format!(r#"{{"start":"{}","end":"{}"}}"#, at[0], at[1]);
        let all: Vec<_> = (0..intervals)
            .map(|number| interval(&[at(number * 10), at(number * 10 + 1)]))
            .collect();
        format!(r#"{{"a":[{}]}}"#, all.join(","))
    }

    /// As many as windows that were merged have; more are made up, and would be joined one by one.
    #[test]
    fn more_intervals_than_a_source_has_are_refused() {
        let read = |intervals| serde_json::from_str::<Observed>(&many(intervals));
        assert_eq!(read(1_000).map(|read| read.union().len()).ok(), Some(1_000));
        assert!(read(1_001).is_err());
    }

    #[test]
    fn intervals_that_end_before_they_start_are_refused_and_others_are_put_in_order() {
        let text = |intervals: &[[&str; 2]]| {
            let intervals = intervals.iter();
            let intervals = intervals.map(|[start, end]| {
                format!(r#"{{"start":"1970-01-01T{start}Z","end":"1970-01-01T{end}Z"}}"#)
            });
            format!(r#"{{"a":[{}]}}"#, intervals.collect::<Vec<_>>().join(","))
        };
        let read = |text: String| serde_json::from_str::<Observed>(&text).ok();
        assert_eq!(read(text(&[["00:02:00", "00:01:00"]])), None);
        let mixed = text(&[
            ["00:02:00", "00:03:00"],
            ["00:00:00", "00:01:00"],
            ["00:02:30", "00:04:00"],
        ]);
        assert_eq!(read(mixed), Some(observed(&[("a", 0, 60), ("a", 120, 240)])));
    }

    /// Joined gap by gap, with a search for each, this does not end.
    #[test]
    fn the_intervals_of_many_sources_are_joined_with_one_search() {
        let mut observed = Observed::default();
        for source in 0..300 {
            let intervals = (0..1_000).map(|number| (number * 300 + source) * 10);
            let intervals = intervals.map(|start| interval(start, start + 1)).collect();
            observed.0.insert(source.to_string(), intervals);
        }
        assert_eq!(observed.union().len(), MOST_INTERVALS);
        assert_eq!(observed.overlap(&observed), None);
    }

    #[test]
    fn the_shortest_gaps_count_as_watched_the_earlier_ones_first() {
        let starts = (0..1_003_i64).map(|number| number * 100);
        let shorter = |start: i64| i64::from(start % 20_000 == 0);
        let intervals: Vec<_> = starts
            .map(|start| interval(start, start + 10 + shorter(start)))
            .collect();
        let gaps: Vec<_> = joined(intervals)
            .iter()
            .map(|one| one.end.duration_since(one.start).as_secs())
            .collect();
        assert_eq!(gaps.len(), MOST_INTERVALS);
        let long: Vec<_> = (0_usize..)
            .zip(&gaps)
            .filter(|(_, seconds)| **seconds > 11)
            .collect();
        assert_eq!(long, [(0, &110), (199, &110), (398, &110)]);
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_same_time_was_watched(
            parts in prop::collection::vec((0..4_u8, 0..2_000_i64, 2..500_i64), 1..40),
            at in any::<prop::sample::Index>(),
        ) {
            let named = |(source, start, length): &(u8, i64, i64)| (format!("s{source}"), *start, start + length);
            let all: Vec<_> = parts.iter().map(named).collect();
            let of = |parts: &[(String, i64, i64)]| {
                let mut observed = Observed::default();
                for (source, start, end) in parts {
                    observed.add(source, interval(*start, *end));
                }
                observed
            };
            let whole = of(&all);
            let (left, right) = all.split_at(at.index(all.len()));
            let (mut one, mut other) = (of(left), of(right));
            one.merge(&of(right));
            other.merge(&of(left));
            prop_assert_eq!(&one, &whole);
            prop_assert_eq!(&other, &whole);
            let second = |second: i64| all.iter().any(|(_, start, end)| (*start..*end).contains(&second));
            let watched = (0..2_500).filter(|&at| second(at)).count();
            // Gaps of a second count as watched.
            prop_assert!((whole.seconds() - watched as f64).abs() <= all.len() as f64);
        }
    }
}

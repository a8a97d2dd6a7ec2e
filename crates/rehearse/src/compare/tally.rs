//! What was found, by pattern.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use cqlens_capture::memory::Part;
use cqlens_report::{AskedTwice, DifferenceExample};

use super::{DifferenceKind, Latencies, NotCompared, cut};
use crate::{
    budget::Share,
    skipped::{Skipped, SkippedCounts},
};

/// What was found, by pattern.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    patterns: HashMap<Arc<str>, PatternTally>,
    /// Of the patterns that there was no room for.
    pub others: Option<Box<PatternTally>>,
    /// Where there is a limit in bytes.
    share: Option<Arc<Share>>,
}

/// What was found of one pattern.
#[derive(Debug, Clone, Default)]
pub struct PatternTally {
    /// The statement without its values.
    pub shape: Arc<str>,
    /// The keyspace of unqualified names.
    pub keyspace: Option<Arc<str>>,
    /// Requests of the first cluster.
    pub executions: u64,
    /// Requests that were not sent or got no response, by reason.
    pub skipped: SkippedCounts,
    /// Results that were compared: whole reads, whatever their pages.
    pub compared: u64,
    /// Of these, those that differed at first and no longer when both were asked again.
    pub agreed_later: u64,
    /// Results that were not compared, by reason.
    pub not_compared: BTreeMap<NotCompared, u64>,
    /// Results that differ, by kind.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// One of the most severe.
    pub example: Option<DifferenceExample>,
    /// Requests that the first cluster was sent twice, and those it answered differently.
    pub noise: AskedTwice,
    /// Latencies of the first cluster.
    pub first_latency: Latencies,
    /// Latencies of the other cluster.
    pub other_latency: Latencies,
}

/// Something to count of a pattern.
#[derive(Debug, Clone)]
pub enum Counted {
    /// A request of the first cluster.
    Execution,
    /// The first cluster's latency.
    FirstAnswered(Duration),
    /// It was not sent, or not answered.
    Skipped(Skipped),
    /// The other cluster's latency.
    Answered(Duration),
    /// A result was compared and is the same.
    Equal,
    /// It is the same now.
    AgreedLater,
    /// It was not compared.
    NotCompared(NotCompared),
    /// It differs.
    Differs(DifferenceExample),
    /// The first cluster was sent a request twice; whether its responses differed.
    Noise(bool),
}

impl Tally {
    const MOST_PATTERNS: usize = 2_000;
    /// Of a pattern beside its texts: its latencies.
    const EACH: usize = 20 << 10;
    /// And the example of a difference.
    pub(super) const OF_EXAMPLE: usize = 6 << 10;
    /// Bytes of a shape that is shown; the rest is cut.
    const LONGEST_SHAPE: usize = 8 << 10;

    /// Nothing yet, in a part of the budget.
    pub(crate) fn within(part: &Part) -> Self {
        Self {
            share: Some(Arc::new(Share::of(part, 2))),
            ..Self::default()
        }
    }

    /// Counts something of a pattern, which is described where it is new.
    pub fn count(
        &mut self,
        pattern: &Arc<str>,
        describe: impl FnOnce() -> (Arc<str>, Option<Arc<str>>),
        counted: Counted,
    ) {
        if let Some(known) = self.patterns.get_mut(pattern) {
            return known.count(counted);
        }
        let bytes = Self::EACH + Self::OF_EXAMPLE + pattern.len() + Self::LONGEST_SHAPE;
        let has_room = self.patterns.len() < Self::MOST_PATTERNS
            && self.share.as_ref().is_none_or(|share| share.try_take(bytes));
        if !has_room {
            return self.others.get_or_insert_default().count(counted);
        }
        let (shape, keyspace) = describe();
        let shape = shortened(shape, Self::LONGEST_SHAPE);
        let mut new = PatternTally {
            shape,
            keyspace,
            ..PatternTally::default()
        };
        new.count(counted);
        self.patterns.insert(Arc::clone(pattern), new);
    }

    /// Adds what was found elsewhere.
    pub fn merge(&mut self, other: Self) {
        for (pattern, tally) in other.patterns {
            let has_room = self.patterns.len() < Self::MOST_PATTERNS;
            match self.patterns.get_mut(&pattern) {
                Some(known) => known.merge(tally),
                None if has_room => {
                    self.patterns.insert(pattern, tally);
                }
                None => self.others.get_or_insert_default().merge(tally),
            }
        }
        if let Some(others) = other.others {
            self.others.get_or_insert_default().merge(*others);
        }
    }

    /// The patterns with their names, those that differ most often first.
    pub fn ranked(&self) -> Vec<(&Arc<str>, &PatternTally)> {
        let mut ranked: Vec<_> = self.patterns.iter().collect();
        ranked.sort_by_key(|(name, tally)| {
            let differing = tally.differing();
            (
                !tally.is_above_noise(),
                std::cmp::Reverse((differing, tally.executions)),
                Arc::clone(name),
            )
        });
        ranked
    }

    /// All patterns as one.
    pub fn total(&self) -> PatternTally {
        let mut total = PatternTally::default();
        let others = self.others.as_deref().into_iter();
        self.patterns
            .values()
            .chain(others)
            .for_each(|tally| total.merge(tally.clone()));
        total
    }
}

/// A shape with no more than so many bytes.
fn shortened(shape: Arc<str>, most: usize) -> Arc<str> {
    match shape.len() <= most {
        true => shape,
        false => cut(&shape, most).into(),
    }
}

impl PatternTally {
    fn count(&mut self, counted: Counted) {
        match counted {
            Counted::Execution => self.executions += 1,
            Counted::FirstAnswered(latency) => self.first_latency.record(latency),
            Counted::Skipped(why) => *self.skipped.entry(why).or_default() += 1,
            Counted::Answered(latency) => self.other_latency.record(latency),
            Counted::Equal => self.compared += 1,
            Counted::AgreedLater => {
                self.compared += 1;
                self.agreed_later += 1;
            }
            Counted::NotCompared(why) => *self.not_compared.entry(why).or_default() += 1,
            Counted::Differs(example) => {
                self.compared += 1;
                *self.differences.entry(example.difference.kind).or_default() += 1;
                self.keep(Some(example));
            }
            Counted::Noise(differed) => {
                self.noise.asked += 1;
                self.noise.differed += u64::from(differed);
            }
        }
    }

    fn keep(&mut self, example: Option<DifferenceExample>) {
        let rank = |example: &DifferenceExample| (example.difference.kind, example.exchange);
        let Some(example) = example else { return };
        if self
            .example
            .as_ref()
            .is_none_or(|kept| rank(&example) < rank(kept))
        {
            self.example = Some(example);
        }
    }

    fn merge(&mut self, other: Self) {
        self.executions += other.executions;
        self.compared += other.compared;
        self.agreed_later += other.agreed_later;
        self.noise.asked += other.noise.asked;
        self.noise.differed += other.noise.differed;
        add(&mut self.skipped, other.skipped);
        add(&mut self.not_compared, other.not_compared);
        add(&mut self.differences, other.differences);
        self.keep(other.example);
        self.first_latency.merge(&other.first_latency);
        self.other_latency.merge(&other.other_latency);
    }

    /// Results that differ.
    pub fn differing(&self) -> u64 {
        self.differences.values().sum()
    }

    /// Whether results differ more often than two of the first cluster do: by a fifth of that, and by three in
    /// ten thousand (the thresholds of Diffy).
    #[allow(clippy::cast_precision_loss, reason = "shares are not that precise")]
    pub fn is_above_noise(&self) -> bool {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let differing = share(self.differing(), self.compared);
        let noise = share(self.noise.differed, self.noise.asked);
        let is_noise = self.noise.differed > 0 && (differing <= noise * 1.2 || differing - noise <= 0.000_3);
        self.differing() > 0 && !is_noise
    }
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, counts: BTreeMap<K, u64>) {
    for (key, count) in counts {
        *sums.entry(key).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;

    fn example(exchange: u64, kind: DifferenceKind) -> DifferenceExample {
        DifferenceExample {
            difference: Difference {
                kind,
                expected: "1 row".to_owned(),
                actual: "2 rows".to_owned(),
                columns: Vec::new(),
            },
            at_us: 0,
            exchange,
        }
    }

    fn tally(counts: &[(&str, Counted)]) -> Tally {
        let mut tally = Tally::default();
        for (pattern, counted) in counts {
            tally.count(&Arc::from(*pattern), || ("SELECT".into(), None), counted.clone());
        }
        tally
    }

    #[test]
    fn merged_tallies_are_those_of_all() {
        let counts = [
            ("a", Counted::Differs(example(7, DifferenceKind::Rows))),
            ("a", Counted::FirstAnswered(Duration::from_millis(1))),
            ("b", Counted::Equal),
            ("a", Counted::Differs(example(9, DifferenceKind::RowCount))),
            ("b", Counted::Skipped(Skipped::TimedOut)),
        ];
        let whole = tally(&counts);
        let mut merged = tally(&counts[..2]);
        merged.merge(tally(&counts[2..]));
        for (name, tally) in whole.ranked() {
            let other = &merged.patterns[name];
            assert_eq!(tally.differences, other.differences);
            assert_eq!((tally.compared, &tally.example), (other.compared, &other.example));
        }
        let gravest = whole.total().example.map(|example| example.exchange);
        assert_eq!(
            gravest,
            Some(9),
            "another number of rows comes before other values"
        );
    }

    #[test]
    fn what_differs_no_more_often_than_the_first_cluster_itself_is_noise() {
        let counted = |differing: u64, noisy: u64| {
            let differs = Counted::Differs(example(1, DifferenceKind::Rows));
            let mut tally = PatternTally::default();
            (0..differing).for_each(|_| tally.count(differs.clone()));
            (differing..1_000).for_each(|_| tally.count(Counted::Equal));
            (0..100).for_each(|place| tally.count(Counted::Noise(place < noisy)));
            tally.is_above_noise()
        };
        assert!(!counted(0, 0));
        assert!(counted(1, 0));
        assert!(!counted(100, 10));
        assert!(!counted(119, 10));
        assert!(counted(130, 10));
    }
}

//! How a number is distributed: exact while few values differ, an HDR histogram afterwards.

mod stored;

use hdrhistogram::Histogram;

use super::meter;
use crate::counts;

/// A distribution of whole numbers (microseconds, rows, bytes, partitions, tombstones).
///
/// `count`, `min`, `max` and the sum are always exact. Quantiles are exact up to 16 different values (most
/// patterns only ever touch one partition, or return one row) and within 1 % of the value beyond that, where
/// an HDR histogram with two significant digits takes over. Merging is associative and commutative: the
/// representation depends on the set of recorded values alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    values: Values,
}

/// How many different values are kept as they are; a histogram costs more than such a list.
const EXACT_VALUES: usize = 16;

/// Values above this are recorded as this (but `max` and the sum stay exact): 2^42, 50 days in microseconds
/// or 4 TiB.
const CEILING: u64 = 1 << 42;

#[derive(Debug, Clone, PartialEq)]
enum Values {
    /// Sorted by value: (value, how often).
    Few(Vec<(u64, u64)>),
    Many(Box<Many>),
}

#[derive(Debug, Clone, PartialEq)]
struct Many {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Values {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Distribution {
    /// Records `value` once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records `value` `times` times.
    ///
    /// Part of its caller, since most values are among the first few that are known already.
    #[inline(always)]
    pub fn record_n(&mut self, value: u64, times: u64) {
        if let Values::Few(few) = &mut self.values
            && let Some(known) = few.iter_mut().find(|step| step.0 == value)
        {
            known.1 += times;
            return;
        }
        self.record_other(value, times);
    }

    /// Records a value that is not one of the few that are known.
    fn record_other(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        match &mut self.values {
            Values::Few(few) => {
                if few.len() == few.capacity() {
                    meter::grow(few.capacity().max(4) * size_of::<(u64, u64)>());
                }
                let at = few.partition_point(|step| step.0 < value);
                few.insert(at, (value, times));
                if few.len() > EXACT_VALUES {
                    self.values = Values::Many(Box::new(Many::of(few)));
                }
            }
            Values::Many(many) => many.record(value, times),
        }
    }

    /// Adds everything that `other` has recorded, unless both are more than is ever counted.
    pub fn merge(&mut self, other: &Self) {
        if self.count().saturating_add(other.count()) > counts::MOST {
            return;
        }
        match &other.values {
            Values::Few(few) => few.iter().for_each(|&(value, times)| self.record_n(value, times)),
            Values::Many(many) => match &mut self.values {
                Values::Few(few) => {
                    let mut merged = many.clone();
                    meter::grow(merged.bytes());
                    few.iter().for_each(|&(value, times)| merged.record(value, times));
                    self.values = Values::Many(merged);
                }
                Values::Many(mine) => mine.merge(many),
            },
        }
    }

    /// Keeps fewer steps of a histogram, so many to the power of two for each doubling of the values, seven at most. Each
    /// value counts as the middle of its step: within 1 / 2^(bits + 1) of it, beside the 1 % of a histogram.
    pub(crate) fn coarsen(&mut self, bits: u32) {
        if let Values::Many(many) = &mut self.values {
            many.coarsen(bits);
        }
    }

    /// Whether so many values may have been recorded, and have the sum.
    fn is_plausible(&self) -> bool {
        let count = match &self.values {
            Values::Few(few) => few.iter().map(|&(_, times)| times).fold(0, u64::saturating_add),
            Values::Many(many) => many.histogram.len(),
        };
        let sums = [self.min(), self.max()].map(|value| u128::from(value) * u128::from(count));
        count <= counts::MOST && (sums[0]..=sums[1]).contains(&self.sum())
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        match &self.values {
            Values::Few(few) => few.capacity() * size_of::<(u64, u64)>(),
            Values::Many(many) => many.bytes(),
        }
    }

    /// How many values have been recorded.
    pub fn count(&self) -> u64 {
        match &self.values {
            Values::Few(few) => few.iter().map(|&(_, times)| times).sum(),
            Values::Many(many) => many.histogram.len(),
        }
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The exact sum of all values.
    pub fn sum(&self) -> u128 {
        match &self.values {
            Values::Few(few) => sum(few),
            Values::Many(many) => many.sum,
        }
    }

    /// The exact sum, or `u64::MAX` where it does not fit.
    pub fn total(&self) -> u64 {
        u64::try_from(self.sum()).unwrap_or(u64::MAX)
    }

    /// The smallest value; 0 where there is none.
    pub fn min(&self) -> u64 {
        match &self.values {
            Values::Few(few) => few.first().map_or(0, |&(value, _)| value),
            Values::Many(many) => many.min,
        }
    }

    /// The largest value; 0 where there is none.
    pub fn max(&self) -> u64 {
        match &self.values {
            Values::Few(few) => few.last().map_or(0, |&(value, _)| value),
            Values::Many(many) => many.max,
        }
    }

    /// The exact mean; 0 where there is nothing.
    pub fn mean(&self) -> f64 {
        let count = self.count();
        if count == 0 {
            0.0
        } else {
            self.sum() as f64 / count as f64
        }
    }

    /// The smallest recorded value that at least the share `quantile` (0 to 1) of all values does not exceed.
    pub fn quantile(&self, quantile: f64) -> u64 {
        match &self.values {
            Values::Few(few) => {
                let wanted = rank(quantile, self.count());
                let mut seen = 0;
                for &(value, times) in few {
                    seen += times;
                    if seen >= wanted {
                        return value;
                    }
                }
                self.max()
            }
            Values::Many(many) => {
                let value = many.histogram.value_at_quantile(quantile);
                value.clamp(many.min, many.max)
            }
        }
    }

    /// The values between which the quantile of the traffic lies, 99 times of 100, where the recorded values are a
    /// sample of it and each came by itself: from its rank, which is binomial (Hahn and Meeker, *Statistical
    /// Intervals*, section 5.2).
    pub fn quantile_between(&self, quantile: f64) -> [u64; 2] {
        const DEVIATIONS: f64 = 2.576;
        let count = (self.count() as f64).max(1.0);
        let deviation = (quantile * (1.0 - quantile) / count).sqrt();
        let (low, high) = (
            quantile - DEVIATIONS * deviation,
            quantile + DEVIATIONS * deviation + 1.0 / count,
        );
        [low, high].map(|quantile| self.quantile(quantile.clamp(0.0, 1.0)))
    }

    /// How many values are this large or larger: exact up to 16 different values, else to 1 % of the value.
    pub fn at_least(&self, value: u64) -> u64 {
        let steps = self.steps().into_iter();
        steps
            .filter(|(highest, _)| *highest >= value)
            .map(|(_, times)| times)
            .sum()
    }

    /// The distribution as steps for a drawing: (highest value of the step, how often), ascending, empty
    /// steps left out.
    pub fn steps(&self) -> Vec<(u64, u64)> {
        match &self.values {
            Values::Few(few) => few.clone(),
            Values::Many(many) => {
                let steps = many.histogram.iter_recorded();
                steps
                    .map(|step| (step.value_iterated_to().min(many.max), step.count_at_value()))
                    .collect()
            }
        }
    }
}

/// How many values lie at or below the quantile, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count is a count"
)]
fn rank(quantile: f64, count: u64) -> u64 {
    ((quantile.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1)
}

/// Added up when it is asked for: values come far more often.
fn sum(few: &[(u64, u64)]) -> u128 {
    few.iter()
        .map(|&(value, times)| u128::from(value) * u128::from(times))
        .fold(0, u128::saturating_add)
}

impl Many {
    /// Of a few, at least one.
    fn of(few: &[(u64, u64)]) -> Self {
        let mut many = Self {
            histogram: new_histogram(),
            min: u64::MAX,
            max: 0,
            sum: 0,
        };
        meter::grow(many.bytes());
        few.iter().for_each(|&(value, times)| many.record(value, times));
        many
    }

    fn record(&mut self, value: u64, times: u64) {
        let before = self.histogram.distinct_values();
        self.histogram
            .record_n(value.min(CEILING), times)
            .expect("the histogram resizes up to the ceiling");
        if self.histogram.distinct_values() != before {
            meter::grow((self.histogram.distinct_values() - before) * size_of::<u64>());
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(times));
    }

    fn coarsen(&mut self, bits: u32) {
        let mut coarse = new_histogram();
        for step in self.histogram.iter_recorded() {
            let value = middle_of_step(step.value_iterated_to(), bits);
            coarse
                .record_n(value, step.count_at_value())
                .expect("the histogram resizes up to the ceiling");
        }
        self.histogram = coarse;
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.histogram.distinct_values() * size_of::<u64>()
    }

    fn merge(&mut self, other: &Self) {
        let before = self.bytes();
        self.histogram
            .add(&other.histogram)
            .expect("both histograms resize up to the same ceiling");
        meter::grow(self.bytes() - before);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

fn new_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new(2).expect("two significant digits are allowed");
    histogram.auto(true);
    histogram
}

/// The middle of the step that a value is in, of which there are 2^bits for each doubling. Small values have one each.
fn middle_of_step(value: u64, bits: u32) -> u64 {
    let Some(width) = value.checked_ilog2().and_then(|log| log.checked_sub(bits)) else {
        return value;
    };
    (value >> width << width) + (1 << width) / 2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn of(values: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        values.iter().for_each(|&value| distribution.record(value));
        distribution
    }

    fn merged(parts: &[&Distribution]) -> Distribution {
        let mut all = Distribution::default();
        parts.iter().for_each(|part| all.merge(part));
        all
    }

    #[test]
    fn few_values_have_exact_quantiles() {
        let one_to_ten = of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(
            (
                one_to_ten.quantile(0.5),
                one_to_ten.quantile(0.99),
                one_to_ten.max()
            ),
            (5, 10, 10)
        );
        assert_eq!(one_to_ten.mean().to_bits(), 5.5f64.to_bits());
    }

    #[test]
    fn values_beyond_the_ceiling_keep_the_exact_maximum() {
        let mut values: Vec<u64> = (0..100).collect();
        values.push(u64::MAX);
        assert_eq!(of(&values).max(), u64::MAX);
        assert_eq!(of(&values).quantile(0.5), 50);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn coarser_steps_change_no_sum_and_quantiles_by_half_a_step(
            a in vec(0u64..5_000_000, 0..300), b in vec(0u64..500, 0..300), bits in 4u32..6,
        ) {
            let (fine, mut coarse) = (of(&[a.clone(), b.clone()].concat()), of(&a));
            coarse.merge(&of(&b));
            coarse.coarsen(bits);
            let sums = |one: &Distribution| (one.count(), one.sum(), one.min(), one.max());
            prop_assert_eq!(sums(&fine), sums(&coarse));
            for quantile in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
                let (exact, said) = (fine.quantile(quantile) as f64, coarse.quantile(quantile) as f64);
                let most = exact * (0.5 / f64::from(1 << bits) + 0.01);
                prop_assert!((exact - said).abs() <= most, "{} for {} at {}", said, exact, quantile);
            }
            let (mut parts, mut other) = (of(&a), of(&b));
            parts.coarsen(bits);
            other.coarsen(bits + 1);
            parts.merge(&other);
            parts.coarsen(bits);
            prop_assert_eq!(parts.steps(), coarse.steps());
        }

        #[test]
        fn merging_in_any_order_equals_recording_everything(
            a in vec(0u64..5_000_000, 0..40), b in vec(0u64..50, 0..40), c in vec(any::<u64>(), 0..20),
        ) {
            let all: Vec<u64> = a.iter().chain(&b).chain(&c).copied().collect();
            let (x, y, z) = (of(&a), of(&b), of(&c));
            let whole = of(&all);
            for parts in [[&x, &y, &z], [&z, &y, &x], [&y, &z, &x]] {
                let merged = merged(&parts);
                prop_assert_eq!(merged.steps(), whole.steps());
                prop_assert_eq!((merged.count(), merged.sum(), merged.min(), merged.max()),
                                (whole.count(), whole.sum(), whole.min(), whole.max()));
            }
        }

        #[test]
        fn quantiles_are_within_one_percent(mut values in vec(1u64..1_000_000_000, 1..200)) {
            let distribution = of(&values);
            values.sort_unstable();
            for quantile in [0.5, 0.9, 0.99] {
                let exact = values[usize::try_from(rank(quantile, values.len() as u64)).unwrap() - 1] as f64;
                let found = distribution.quantile(quantile) as f64;
                prop_assert!((found - exact).abs() <= exact * 0.01, "{} instead of {}", found, exact);
            }
        }

        #[test]
        fn a_stored_distribution_comes_back(values in vec(any::<u64>(), 0..60)) {
            let distribution = of(&values);
            let back: Distribution = serde_json::from_str(&serde_json::to_string(&distribution).unwrap()).unwrap();
            prop_assert_eq!(back.steps(), distribution.steps());
            prop_assert_eq!((back.sum(), back.min(), back.max()), (distribution.sum(), distribution.min(), distribution.max()));
        }
    }

    #[test]
    fn large_values_are_counted_in_either_form() {
        let mut few = Distribution::default();
        [1, 10, 10, 100].into_iter().for_each(|value| few.record(value));
        assert_eq!([0, 10, 11, 101].map(|value| few.at_least(value)), [4, 3, 1, 0]);
        let mut many = Distribution::default();
        (1..=1_000).for_each(|value| many.record(value));
        let counted = many.at_least(901);
        assert!((95..=110).contains(&counted), "{counted}");
        assert_eq!(many.at_least(1_001), 0);
    }
}

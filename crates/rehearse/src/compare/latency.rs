//! Latencies of two clusters, each with how sure it is.

use std::time::Duration;

use cqlens_report::{ComparedLatency, ComparedQuantile};
use hdrhistogram::Histogram;

/// Latencies, to two digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u32>);

/// Longer ones count as a minute.
const LONGEST_US: u64 = 60_000_000;

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 2);
        Self(histogram.expect("these bounds are allowed"))
    }
}

impl Latencies {
    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.clamp(1, LONGEST_US));
    }

    /// Counts those of another place.
    pub fn merge(&mut self, other: &Self) {
        // Their bounds are the same.
        let _ = self.0.add(&other.0);
    }

    /// Some figures; none without a measurement.
    pub fn summary(&self) -> Option<ComparedLatency> {
        (!self.0.is_empty()).then(|| ComparedLatency {
            count: self.0.len(),
            mean: self.0.mean(),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
        })
    }

    /// How many of `count` measurements lie below a quantile is binomial: the interval goes from the value of
    /// one rank to that of another.
    #[allow(clippy::cast_precision_loss, reason = "ranks are not that large")]
    fn quantile(&self, quantile: f64) -> ComparedQuantile {
        const NORMAL_95: f64 = 1.96;
        let count = self.0.len() as f64;
        let reach = NORMAL_95 * (count * quantile * (1.0 - quantile)).sqrt();
        let (low, high) = (
            count.mul_add(quantile, -reach),
            count.mul_add(quantile, reach) + 1.0,
        );
        let at = |rank: f64| (rank >= 1.0 && rank <= count).then(|| self.0.value_at_quantile(rank / count));
        ComparedQuantile {
            value: self.0.value_at_quantile(quantile),
            low: at(low),
            high: at(high),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        micros
            .into_iter()
            .for_each(|micros| latencies.record(Duration::from_micros(micros)));
        latencies
    }

    #[test]
    fn a_quantile_of_few_measurements_has_no_upper_end() {
        let summary = of(1..=100).summary().unwrap();
        assert!(
            summary.p50.low.unwrap() < summary.p50.value && summary.p50.value < summary.p50.high.unwrap()
        );
        assert_eq!(
            summary.p99.high, None,
            "100 measurements say little of the slowest hundredth"
        );
        assert_eq!(Latencies::default().summary(), None);
    }

    #[test]
    fn merged_latencies_are_those_of_both() {
        let mut merged = of(1..=500);
        merged.merge(&of(501..=1_000));
        assert_eq!(merged.summary(), of(1..=1_000).summary());
    }
}

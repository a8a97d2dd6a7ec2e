//! Latencies of two clusters beside each other, each with how sure it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ReplayPace;
use cqlens_window::number;

/// Latencies of both clusters, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BothLatencies {
    /// Of the first; none if they were not measured.
    pub first: Option<ComparedLatency>,
    /// Of the other.
    pub other: Option<ComparedLatency>,
}

/// Some figures of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparedLatency {
    /// How many were measured.
    pub count: u64,
    /// Mean, in microseconds.
    pub mean: f64,
    /// Median.
    pub p50: ComparedQuantile,
    /// 99th percentile.
    pub p99: ComparedQuantile,
}

/// A quantile and the interval that holds it with a probability of 95 %, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparedQuantile {
    /// Of what was measured.
    pub value: u64,
    /// Lower bound; none if too little was measured.
    pub low: Option<u64>,
    /// Upper end; none where too little was measured.
    pub high: Option<u64>,
}

impl BothLatencies {
    pub(crate) fn are_measured(&self) -> bool {
        self.first.is_some() && self.other.is_some()
    }

    /// Medians of both, then 99th percentiles of both.
    pub(crate) fn cells(&self) -> [String; 4] {
        let cell = |latency: Option<ComparedLatency>, quantile: fn(&ComparedLatency) -> ComparedQuantile| {
            latency.map_or_else(|| "–".to_owned(), |latency| quantile(&latency).to_string())
        };
        [
            cell(self.first, |latency| latency.p50),
            cell(self.other, |latency| latency.p50),
            cell(self.first, |latency| latency.p99),
            cell(self.other, |latency| latency.p99),
        ]
    }

    /// How many times the first cluster's median the other one's is, where it is sure that they differ: their
    /// intervals have nothing in common.
    pub(crate) fn times(&self) -> Option<f64> {
        let (first, other) = (self.first?.p50, self.other?.p50);
        let are_apart = first.high? < other.low? || other.high? < first.low?;
        #[allow(clippy::cast_precision_loss, reason = "at most a minute in microseconds")]
        are_apart.then(|| other.value as f64 / first.value.max(1) as f64)
    }

    /// [`Self::times`] in a cell.
    pub(crate) fn times_cell(&self) -> String {
        self.times()
            .map_or_else(|| "–".to_owned(), |times| format!("{} ×", number::decimal(times)))
    }
}

impl fmt::Display for ComparedQuantile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<u64>| end.map_or_else(|| "?".to_owned(), number::micros);
        write!(
            formatter,
            "{} ({} to {})",
            number::micros(self.value),
            end(self.low),
            end(self.high)
        )
    }
}

impl fmt::Display for ReplayPace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "sent {} in {}, {}",
            number::plural(self.sent, "request", "requests"),
            number::seconds(self.seconds),
            number::rate(self.per_second)
        )?;
        match &self.late_us {
            Some(late) => write!(
                formatter,
                "; late by {} (median), {} (p99)",
                number::micros(late.p50.value),
                number::micros(late.p99.value)
            ),
            None => Ok(()),
        }
    }
}

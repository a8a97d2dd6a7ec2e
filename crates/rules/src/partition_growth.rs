//! How a partition grew and goes on at that rate, for a drawing: the figures that a rule has judged, no others.

use jiff::Timestamp;
use serde::Serialize;

/// A partition that collects rows until it has too many.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PartitionGrowth {
    /// Its keyed hash: `#` and 16 hex digits.
    pub partition: String,
    /// Its new rows, cumulative and in order: at most 32 points. Estimates if the rows are a sample.
    pub points: Vec<GrowthPoint>,
    /// What a row takes up, in bytes, uncompressed.
    pub row_bytes: u64,
    /// How many rows a partition of the table should have at most.
    pub limit_rows: u64,
    /// Their size; absent if their number decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Where this limit comes from.
    pub limit_origin: String,
    /// Seconds from the first point until it has so many new rows, at this rate: minimum and maximum, if the rate is
    /// an estimate.
    pub limit_after_seconds: [f64; 2],
    /// Seconds for which a partition collects rows; absent if neither its key nor a TTL limits that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collects_for_seconds: Option<f64>,
    /// What that comes to, in words: `100,000 rows in 41 days`.
    pub forecast: String,
}

/// So many rows at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GrowthPoint {
    /// When.
    pub at: Timestamp,
    /// New rows until then.
    pub rows: u64,
}

impl PartitionGrowth {
    /// Seconds from the first point to the last one.
    pub fn seen_seconds(&self) -> f64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return 0.0;
        };
        (last.at.as_millisecond() - first.at.as_millisecond()) as f64 / 1e3
    }
}

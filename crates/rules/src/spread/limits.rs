//! How large a partition should be at most, and when it is.

use super::{
    Findings, Threshold,
    growth::Growth,
    large_partition::{ABOUT, ROWS, SIZE},
};
use crate::{PartitionGrowth, partition_size::PartitionSize};
use cqlens_window::number::{self, rounded};

pub(super) const MIB: f64 = 1_048_576.0;

/// Seconds.
pub(super) const DAY: f64 = 86_400.0;

/// How many rows of a table a partition should have at most.
pub(super) struct PartitionLimits {
    pub(super) rows: f64,
    /// Its size, if that is what decides.
    size: Option<PartitionSize>,
    /// Where that comes from.
    origin: String,
}

impl PartitionLimits {
    /// By their number, or by their size if that is reached before.
    pub(super) fn of(size: PartitionSize, found: &Findings<'_>) -> Self {
        let by_number = found.threshold(&ABOUT, &ROWS);
        let by_size = size.rows(found.threshold(&ABOUT, &SIZE) * MIB);
        let decides = if by_size < by_number { &SIZE } else { &ROWS };
        Self {
            rows: by_number.min(by_size),
            size: (by_size < by_number).then_some(size),
            origin: origin(decides, found),
        }
    }

    /// How it grows to this limit, at so many rows a second; `forecast` says what comes of that.
    pub(super) fn line(
        &self,
        growth: &Growth,
        rate: f64,
        collects_for_seconds: Option<f64>,
        forecast: String,
    ) -> PartitionGrowth {
        PartitionGrowth {
            partition: format!("#{:016x}", growth.partition),
            points: growth.points(),
            row_bytes: rounded(growth.size.row_bytes()),
            limit_rows: rounded(self.rows),
            limit_bytes: self.size.map(|size| rounded(size.bytes(self.rows))),
            limit_origin: self.origin.clone(),
            limit_after_seconds: range(self.rows / rate, growth),
            collects_for_seconds,
            forecast,
        }
    }

    /// So many rows: their number, or the bytes that they take up.
    pub(super) fn in_words(&self, rows: f64) -> String {
        match self.size {
            Some(size) => number::bytes(rounded(size.bytes(rows))),
            // A projection of millions is not exact to the row.
            None if rows >= 1_000_000.0 => format!("{} rows", number::decimal(rows)),
            None => format!("{} rows", number::count(rounded(rows))),
        }
    }
}

/// Where a threshold comes from.
fn origin(threshold: &Threshold, found: &Findings<'_>) -> String {
    let is_default = found
        .threshold(&ABOUT, threshold)
        .total_cmp(&threshold.default)
        .is_eq();
    match is_default {
        true => threshold.origin.to_owned(),
        false => format!("set as `{}` of `{}`", threshold.name, ABOUT.id),
    }
}

/// The earliest and the latest, where the rate is an estimate.
fn range(time: f64, growth: &Growth) -> [f64; 2] {
    let off = growth.error / growth.rows.max(1.0);
    [time / (1.0 + off), time / (1.0 - off).max(0.1)]
}

/// When that is: a range, where the rate is an estimate.
pub(super) fn forecast(days: f64, growth: &Growth) -> String {
    let [from, to] = range(days, growth);
    // Nobody counts the hours of days that are forecast.
    let are_days = from >= 2.0;
    let [from, to] = [from, to].map(|days| if days >= 2.0 { days.round() } else { days });
    let [first, last] = [from, to].map(|days| number::seconds(days * DAY));
    match first == last {
        true => format!("in {first}"),
        false if are_days => format!("in {from} to {last}"),
        false => format!("in {first} to {last}"),
    }
}

//! How large a partition should be at most, and when it is.

use super::{
    Findings,
    growth::Growth,
    large_partition::{ABOUT, ROWS, SIZE},
};
use crate::{
    number::{self, rounded},
    rules::partition_size::PartitionSize,
};

pub(super) const MIB: f64 = 1_048_576.0;

/// Seconds.
pub(super) const DAY: f64 = 86_400.0;

/// How many rows of a table a partition should have at most.
pub(super) struct Limits {
    pub(super) rows: f64,
    /// Its size, if that is what decides.
    size: Option<PartitionSize>,
}

impl Limits {
    /// By their number, or by their size if that is reached before.
    pub(super) fn of(size: PartitionSize, found: &Findings<'_>) -> Self {
        let by_number = found.threshold(&ABOUT, &ROWS);
        let by_size = size.rows(found.threshold(&ABOUT, &SIZE) * MIB);
        Self {
            rows: by_number.min(by_size),
            size: (by_size < by_number).then_some(size),
        }
    }

    /// So many rows: their number, or the bytes that they take up.
    pub(super) fn in_words(&self, rows: f64) -> String {
        match self.size {
            Some(size) => number::bytes(rounded(size.bytes(rows))),
            None => format!("{} rows", number::count(rounded(rows))),
        }
    }
}

/// When that is: a range, where the rate is an estimate.
pub(super) fn forecast(days: f64, growth: &Growth) -> String {
    let off = growth.error / growth.rows.max(1.0);
    let (from, to) = (days / (1.0 + off), days / (1.0 - off).max(0.1));
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

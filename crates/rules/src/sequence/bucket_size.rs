//! How large the buckets of a key are, and how large fewer or more of them would be.

use super::{Context, bucket::Buckets, join::round, number, rounded};
use crate::{
    partition_size::PartitionSize,
    statement::{restricted, select},
};
use cqlens_cql::{plan::Flag, schema::Table};

/// One bucket of a key.
pub(super) struct BucketSize {
    /// Its rows, the mean.
    rows: f64,
    /// It has more, perhaps: reads end before it does, or only what was written is known.
    is_at_least: bool,
    size: PartitionSize,
    /// Rows of the largest one that was read, if it was large.
    largest: Option<u64>,
}

impl BucketSize {
    /// By what reads return of a bucket, or by the new rows of the table's partitions where those are more; none of a
    /// table that is not in the schema.
    pub(super) fn of(buckets: &Buckets<'_>, context: &Context<'_>) -> Option<Self> {
        let name = &buckets.name;
        let table = context.schema.table(&name.keyspace, &name.table)?;
        let traffic = context.window.tables.get(name).cloned().unwrap_or_default();
        let partitions = traffic.distinct_partitions.at_most().max(1);
        let read = buckets.rows_of_each();
        // What sketches are sure of: else all that was read and written would be a little more than it is.
        let written = traffic.inserted.rows.at_least() as f64 / partitions as f64;
        Some(Self {
            rows: read.max(written),
            is_at_least: written > read || reads_a_part(buckets, table),
            size: PartitionSize::of_sample(table, &traffic.inserted.sample),
            largest: traffic
                .partition_reads
                .rows
                .ranked()
                .first()
                .map(|(_, rows)| *rows),
        })
    }

    /// What half as many buckets would do, and twice as many or a few more: a number that people choose.
    pub(super) fn others(&self, width: f64) -> String {
        let half = (width / 2.0).ceil();
        let [fewer, more, now] = [half, chosen(width * 2.0), width].map(|buckets| {
            let factor = width / buckets;
            (number::decimal(buckets), self.of_each(factor))
        });
        let mut text = format!(
            "With {}, a read would fetch {} of {}{} each, with {} for {} of {}; now it is {} of {}.",
            number::plural(rounded(half), "bucket", "buckets"),
            number::plural(rounded(half), "partition", "partitions"),
            if self.is_at_least { "at least " } else { "about " },
            fewer.1,
            more.0,
            more.0,
            more.1,
            now.0,
            now.1,
        );
        if let Some(largest) = self.largest {
            text += &format!(
                " The largest bucket that was read has {} rows or more; with {} it would have {}.",
                number::count(largest),
                number::plural(rounded(half), "bucket", "buckets"),
                number::count(rounded(largest as f64 * width / half)),
            );
        }
        text
    }

    /// `12 rows (1.2 KiB)`, of buckets that are so many times as large.
    fn of_each(&self, times: f64) -> String {
        let rows = self.rows * times;
        let bytes = number::bytes(rounded(self.size.bytes(rows)));
        let unit = if round(rows) == 1.0 { "row" } else { "rows" };
        format!("{} {unit} ({bytes})", number::decimal(round(rows)))
    }
}

/// The first one of 1, 2, 5, 10, 20, 50 and so on that is as large.
fn chosen(at_least: f64) -> f64 {
    let unit = 10_f64.powf(at_least.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * unit);
    steps
        .into_iter()
        .find(|step| *step >= at_least)
        .unwrap_or(10.0 * unit)
}

/// Whether reads return less than a bucket has: by a LIMIT, by clustering columns, or by pages, of which the first one
/// counts.
fn reads_a_part(buckets: &Buckets<'_>, table: &Table) -> bool {
    let pattern = buckets.pattern;
    let Some(select) = select(&pattern.head) else {
        return true;
    };
    let is_of_key = |name: &String| table.partition_key().iter().any(|column| column.name == *name);
    pattern.is(Flag::Limit)
        || select.limit.is_some()
        || select.per_partition_limit.is_some()
        || pattern.count > pattern.logical_reads
        || !restricted(&select).iter().all(is_of_key)
}

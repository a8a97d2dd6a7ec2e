//! The bucket that a partition key needs, and into how many partitions it divides the rows of a value.

use cqlens_cql::{
    schema::{Column, ColumnKind, ColumnName, DataType, Table, TableName, quote},
    syntax::ast::{Direction, NativeType},
};

use super::{
    bucketed::BucketSpan,
    wanted::{Need, Wanted},
};
use crate::{
    Context,
    definition::{is_time, most_partitions},
    figures,
};
use cqlens_window::{Pattern, number};

/// A column of the partition key that spreads the rows of one value over several partitions.
pub(super) struct BucketColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// How it is computed, and what comes of it.
    comment: String,
    /// How its partitions are read: completes "read from it".
    reads: String,
    /// How many partitions a value has; none where there is one more after each span of time.
    pub(super) count: Option<u64>,
}

impl BucketColumn {
    /// The span of time in which a row of this column lies; none where no name is free for it.
    pub(super) fn of_time(
        table: &Table,
        (column, is_descending): (&Column, bool),
        span: BucketSpan,
        rows: Option<Rows>,
    ) -> Option<Self> {
        let name = free_name(table, span.column())?;
        let each = rows.and_then(|rows| Some(rows.per_second? * span.seconds()));
        let each = each.map(|rows| format!("-- about {} a partition\n", in_words(rows)));
        let first = if is_descending { "newest" } else { "oldest" };
        Some(Self {
            comment: format!(
                "-- {}\n{}",
                span.comment(&name, &quote(&column.name)),
                each.unwrap_or_default()
            ),
            reads: format!(" {0} by {0}, the {first} first", span.column()),
            name,
            data_type: DataType::Native(span.data_type()),
            count: None,
        })
    }

    /// A hash of these columns, which spreads the rows evenly over so many partitions; none where no name is free for
    /// it.
    pub(super) fn of_hash(table: &Table, columns: &[&Column], number: &BucketNumber) -> Option<Self> {
        let name = free_name(table, "bucket")?;
        let columns: Vec<_> = columns.iter().map(|column| quote(&column.name)).collect();
        let BucketNumber { count, why } = number;
        Some(Self {
            comment: format!(
                "-- {name}: hash of {} modulo {count}\n{why}",
                columns.join(" and ")
            ),
            reads: format!(", all {count} buckets at the same time"),
            name,
            data_type: DataType::Native(NativeType::Int),
            count: Some(*count),
        })
    }

    pub(super) fn comment(&self) -> &str {
        &self.comment
    }

    pub(super) fn reads(&self) -> &str {
        &self.reads
    }

    pub(super) fn column(&self) -> Column {
        Column {
            name: self.name.clone(),
            kind: ColumnKind::PartitionKey,
            data_type: self.data_type.clone(),
            constraints: Vec::new(),
        }
    }
}

/// Into how many partitions the rows of a value are divided.
pub(super) struct BucketNumber {
    count: u64,
    /// What comes of it: lines of comment.
    why: String,
}

impl BucketNumber {
    /// As many as a rule says.
    pub(super) fn exactly(count: u64) -> Self {
        Self {
            count,
            why: String::new(),
        }
    }

    /// Of a value of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            count: FEWEST_BUCKETS,
            why: format!(
                "-- choose the number so that a partition stays below {}\n",
                in_words(ROWS_OF_A_PARTITION)
            ),
        }
    }

    /// As many as keep partitions of a table like this one small.
    fn of(rows: Rows, table: &Table) -> Self {
        let (rows, when) = rows.in_time(table);
        let count = buckets(rows);
        Self {
            count,
            why: format!("-- about {} a partition {when}\n", in_words(rows / count as f64)),
        }
    }
}

fn free_name(table: &Table, best: &str) -> Option<String> {
    let mut free = [best, "bucket", "spread", "part"].into_iter();
    let name = free.find(|name| table.column(name).is_none())?;
    Some(name.to_owned())
}

/// How many rows the value of a key has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rows {
    /// That were seen: there may be more.
    pub(super) seen: f64,
    /// That are added; none where the observation is too short to say.
    pub(super) per_second: Option<f64>,
}

impl Rows {
    /// How many there will be, and when: once rows expire, else in a year.
    fn in_time(self, table: &Table) -> (f64, &'static str) {
        let ttl = table.default_time_to_live() as f64;
        match self.per_second {
            Some(rate) if ttl > 0.0 => (rate * ttl, "until rows expire"),
            Some(rate) => (self.seen.max(rate * YEAR), "after a year at this rate"),
            None => (self.seen, "so far"),
        }
    }

    /// The widest span of time that keeps a partition small enough.
    fn span(self, column: &Column) -> BucketSpan {
        let shortest = shortest_span(column);
        let Some(rate) = self.per_second else {
            return BucketSpan::Day.max(shortest);
        };
        let fits = |span: &&BucketSpan| **span == shortest || rate * span.seconds() <= ROWS_OF_A_PARTITION;
        *BucketSpan::ALL.iter().find(fits).unwrap_or(&shortest)
    }
}

/// A date has no hours; and cut to the day it is itself.
fn shortest_span(column: &Column) -> BucketSpan {
    match column.data_type == DataType::Native(NativeType::Date) {
        true => BucketSpan::Week,
        false => BucketSpan::Hour,
    }
}

/// A power of two, so that it can be doubled without moving every row.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is limited before"
)]
fn buckets(rows: f64) -> u64 {
    let needed = (rows / ROWS_OF_A_PARTITION).ceil();
    let limited = needed.clamp(FEWEST_BUCKETS as f64, MOST_BUCKETS as f64);
    (limited as u64).next_power_of_two()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of rows, rounded to one"
)]
fn in_words(rows: f64) -> String {
    number::plural(two_digits(rows) as u64, "row", "rows")
}

/// An estimate has no more.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    ((value / unit).round() * unit).max(1.0)
}

impl Wanted<'_> {
    /// The bucket that the partition key needs: where its columns have few values, or a value has many rows.
    /// All queries that need the same key must get the same one.
    pub(super) fn bucket(&self, need: &Need, table: &Table, context: &Context<'_>) -> Option<BucketColumn> {
        let few = self.few_values(table, context);
        // What names its partition is spread already, as far as partitions of the table are.
        let (longest, many) = match self.names_partition(table) {
            true => (largest_partition(table, context), LARGE_PARTITION),
            false => (need.rows, CROWDED_ROWS),
        };
        if few.is_none() && longest < many {
            return None;
        }
        let share = few.unwrap_or_default();
        let rows = Rows::of_share(share, table, context);
        let rows = rows
            .map(|rows| Rows {
                seen: rows.seen.max(longest as f64),
                ..rows
            })
            .or((longest >= CROWDED_VALUE).then_some(Rows {
                seen: longest as f64,
                per_second: None,
            }));
        // By any other column the rows of a span would not lie together.
        let first = self.clustering.first();
        match first.filter(|(column, _)| is_time(&column.data_type)) {
            Some((time, direction)) => {
                let span = rows.map_or(BucketSpan::Day.max(shortest_span(time)), |rows| rows.span(time));
                BucketColumn::of_time(table, (time, *direction == Direction::Descending), span, rows)
            }
            None => {
                let number = rows.map_or_else(BucketNumber::unknown, |rows| BucketNumber::of(rows, table));
                BucketColumn::of_hash(table, &self.spreads(need, table)?, &number)
            }
        }
    }

    /// The columns of the old key that tell the rows of a value apart: they never change. What queries restrict as well
    /// spreads nothing, if there are others.
    fn spreads<'t>(&self, need: &Need, table: &'t Table) -> Option<Vec<&'t Column>> {
        let is_given = |column: &Column| self.partition_key.iter().any(|given| given.name == column.name);
        let is_restricted = |column: &Column| need.restricted.contains(&column.name);
        let key = table.columns.iter().filter(|column| column.is_primary_key());
        let apart: Vec<_> = key.filter(|column| !is_given(column)).collect();
        let free = apart.iter().copied().filter(|column| !is_restricted(column));
        let free: Vec<_> = free.collect();
        let spreading = if free.is_empty() { apart } else { free };
        (!spreading.is_empty()).then_some(spreading)
    }

    /// The part of all rows that a value of the partition key has, where each column is known to have so few
    /// values that each is on many rows.
    fn few_values(&self, table: &Table, context: &Context<'_>) -> Option<f64> {
        let shares = self.partition_key.iter().map(|column| {
            let share = share_of_a_value(column, table, context)?;
            let has_few = share * FEW_VALUES as f64 >= 1.0 || most_partitions([*column]).is_some();
            has_few.then_some(share)
        });
        let share = shares.product::<Option<f64>>()?;
        let is_narrow = most_partitions(self.partition_key.iter().copied()).is_some();
        let is_crowded =
            Rows::of_share(share, table, context).is_some_and(|rows| rows.seen >= CROWDED_VALUE as f64);
        (is_narrow || is_crowded).then_some(share)
    }
}

impl Wanted<'_> {
    /// Whether a column of the partition key is known to have many values: none of them has many rows.
    pub(super) fn is_spread(&self, table: &Table, context: &Context<'_>) -> bool {
        self.partition_key.iter().any(|column| {
            let share = share_of_a_value(column, table, context);
            share.is_some_and(|share| share * (MANY_VALUES as f64) <= 1.0)
        })
    }
}

impl Rows {
    /// Those of a value that is on this part of a table's rows, by the INSERTs that were seen.
    fn of_share(share: f64, table: &Table, context: &Context<'_>) -> Option<Self> {
        let traffic = context.window.tables.get(&name_of(table))?;
        let indexed = context.window.indexed.iter();
        let indexed = indexed.filter(|(name, _)| name.table == name_of(table));
        let inserted = indexed.map(|(_, column)| column.rows.estimate()).max();
        let inserted = traffic.inserted.rows.estimate().max(inserted.unwrap_or_default());
        let seen = share * inserted as f64;
        let seconds = context.window.seconds();
        (seen > 0.0).then(|| Self {
            seen,
            per_second: (seconds >= LEAST_SECONDS).then(|| seen / seconds),
        })
    }
}

/// Rows of the largest partition that reads have returned.
pub(super) fn largest_partition(table: &Table, context: &Context<'_>) -> u64 {
    let traffic = context.window.tables.get(&name_of(table));
    let largest = traffic.and_then(|traffic| traffic.partition_reads.rows.ranked().first().copied());
    largest.map_or(0, |(_, rows)| rows)
}

/// The part of all rows that has a value of this column; none where that is not known.
fn share_of_a_value(column: &Column, table: &Table, context: &Context<'_>) -> Option<f64> {
    if let Some(values) = most_partitions([column]) {
        return Some(1.0 / values as f64);
    }
    let name = ColumnName {
        table: name_of(table),
        column: column.name.clone(),
    };
    let indexed = context.window.indexed.get(&name);
    let written = indexed.map(|written| (written.values.estimate(), written.rows.estimate()));
    match written {
        Some((values @ 1.., rows)) if rows >= LEAST_ROWS => Some(1.0 / values as f64),
        _ => same_elsewhere(column, table, context),
    }
}

/// How often two rows of different partitions have the same value: the part of the rows that a value is on.
fn same_elsewhere(column: &Column, table: &Table, context: &Context<'_>) -> Option<f64> {
    let traffic = context.window.tables.get(&name_of(table))?;
    let mut columns = traffic.repeated.columns();
    let (_, value) = columns.find(|(name, _)| *name == column.name)?;
    (value.across >= LEAST_ROWS).then(|| figures::share(value.same_across, value.across))
}

pub(super) fn name_of(table: &Table) -> TableName {
    TableName {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
    }
}

/// Rows of the reads of a pattern, one in a hundred has more: all pages together, as far as they are known.
pub(super) fn rows_of_a_read(pattern: &Pattern) -> u64 {
    let counted = [&pattern.paging.rows, &pattern.unpaged_rows, &pattern.rows];
    let rows = counted.map(|rows| rows.quantile(0.99));
    rows.into_iter().max().unwrap_or_default()
}

/// Values of a column that are few.
const FEW_VALUES: u64 = 20;

/// Values that are many: with fewer, one of them may well have many rows.
const MANY_VALUES: u64 = 100;

/// Rows of each that are many, in the time of one observation.
const CROWDED_VALUE: u64 = 100;

/// From fewer rows nobody can tell how many values there are.
const LEAST_ROWS: u64 = 100;

/// Rows of one read that are many for a partition.
const CROWDED_ROWS: u64 = 10_000;

/// What partitions should have at most (DataStax).
pub(super) const LARGE_PARTITION: u64 = 100_000;

/// Half of what partitions should have at most (DataStax: 100,000), since no value has exactly the mean.
const ROWS_OF_A_PARTITION: f64 = 50_000.0;

/// Fewer would leave nodes without a part of the load of a value.
const FEWEST_BUCKETS: u64 = 16;

/// One read asks for all of them.
const MOST_BUCKETS: u64 = 256;

/// From less than an hour nobody can tell what comes in a year.
const LEAST_SECONDS: f64 = 3_600.0;

const YEAR: f64 = 365.0 * 86_400.0;

#[cfg(test)]
mod tests;

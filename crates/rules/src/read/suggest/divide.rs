//! Whether the partitions of a table can be divided without harm, and whether that would help.

use super::{
    bucket::name_of,
    bucketed::{self, BucketWidth},
};
use crate::{
    Context, Finding,
    definition::{is_time, most_partitions},
};
use cqlens_cql::schema::{Column, Table};
use cqlens_window::{Distinct, TableTraffic};

/// Why a hash in the partition key would not help a table, or would break what its application relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Rows are written under conditions: a condition, and a batch with one, sees a single partition.
    Conditions,
    /// Rows are read more often than they are written, and each read would read all buckets.
    Reads,
    /// The rows of a partition have a handful of values of the column that would spread them.
    FewValues,
    /// A partition has too few rows to be divided.
    FewRows,
    /// There is too little traffic to be spread.
    LittleTraffic,
}

impl Obstacle {
    /// What to do instead.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Conditions => {
                "Do not divide its partitions: a condition, and a batch with one, sees a single partition. Spread the \
                 work over more keys in the application; if the program is not yours, look for its setting for the \
                 number of queues, shards or partitions."
            }
            Self::Reads => {
                "Cache its rows in the application, or keep copies under several keys: it is read more often than it \
                 is written, and with a bucket in the partition key each read would read all buckets."
            }
            Self::FewValues => {
                "Look at the key first: the clustering column has a handful of values in a partition, and a hash of \
                 it would spread nothing. Add what distinguishes the rows (a tenant, a device, a day) to the \
                 partition key."
            }
            Self::FewRows => {
                "Nothing: a partition has a few rows, and a read of it scans few tombstones. Dividing it would not help."
            }
            Self::LittleTraffic => {
                "Nothing yet: there is too little traffic to be spread. Look at the key before the traffic grows."
            }
        }
    }
}

/// Values of a column, and rows of a partition, that are few: buckets need several times as many.
const FEW: u64 = 16;

/// Rows that are enough to know whether a value comes again.
const ENOUGH_ROWS: u64 = 32;

/// Reads and writes per second that are worth spreading.
const LEAST_RATE: f64 = 1.0;

/// Suggests a hash in the partition key, which spreads the load of a partition; else says what to do instead.
pub(crate) fn by_hash(finding: Finding, table: &Table, context: &Context<'_>) -> Finding {
    match against_hash(table, context) {
        Some(obstacle) => finding.advice(obstacle.advice()),
        None => finding.suggest(bucketed::with_hash(table, context)),
    }
}

/// The same with a span of time, or a hash, that makes partitions smaller.
pub(crate) fn by_bucket(
    finding: Finding,
    table: &Table,
    width: BucketWidth,
    context: &Context<'_>,
) -> Finding {
    match against_size(table, context) {
        Some(obstacle) => finding.advice(obstacle.advice()),
        None => finding.suggest(bucketed::with_bucket(table, width, context)),
    }
}

/// The same with the hour, so that rows that are deleted go as whole partitions.
pub(crate) fn by_hour(finding: Finding, table: &Table, context: &Context<'_>) -> Finding {
    match against_hours(table, context) {
        Some(obstacle) => finding.advice(obstacle.advice()),
        None => finding.suggest(bucketed::by_hour(table, context)),
    }
}

/// Why the load of a partition is not spread by a hash of its first clustering column; none if it is. Of a table without
/// traffic only the types are known.
pub(crate) fn against_hash(table: &Table, context: &Context<'_>) -> Option<Obstacle> {
    let traffic = traffic(table, context);
    let is_little = |traffic: &TableTraffic| {
        let seconds = context.watch_table(&name_of(table)).seconds();
        seconds > 0.0 && ((traffic.reads + traffic.writes) as f64) < LEAST_RATE * seconds
    };
    if is_conditional(table, context) {
        Some(Obstacle::Conditions)
    } else if traffic.is_some_and(is_little) {
        Some(Obstacle::LittleTraffic)
    } else if traffic.is_some_and(|traffic| traffic.reads > traffic.writes) {
        Some(Obstacle::Reads)
    } else {
        against_values(table, context)
    }
}

/// The same of partitions that are too large, whatever their load: why a bucket does not make them smaller.
fn against_size(table: &Table, context: &Context<'_>) -> Option<Obstacle> {
    if is_conditional(table, context) {
        return Some(Obstacle::Conditions);
    }
    let is_by_time = |first: &Column| is_time(&first.data_type);
    if table.clustering().first().is_some_and(is_by_time) {
        return None;
    }
    against_values(table, context)
}

/// The same of rows that are deleted: why they are not divided by time.
pub(crate) fn against_hours(table: &Table, context: &Context<'_>) -> Option<Obstacle> {
    if is_conditional(table, context) {
        return Some(Obstacle::Conditions);
    }
    let is_small = |traffic: &TableTraffic| {
        let rows = traffic.inserted.rows.estimate();
        rows > 0 && rows < FEW * partitions(&traffic.distinct_partitions)
    };
    traffic(table, context)
        .is_some_and(is_small)
        .then_some(Obstacle::FewRows)
}

fn partitions(named: &Distinct) -> u64 {
    named.estimate().max(1)
}

fn is_conditional(table: &Table, context: &Context<'_>) -> bool {
    context.asked(table).writing.is_conditional
}

fn against_values(table: &Table, context: &Context<'_>) -> Option<Obstacle> {
    let first = table.clustering().first()?;
    has_few_values(first, table, context).then_some(Obstacle::FewValues)
}

/// Whether the rows of a partition have few values of this clustering column, by its type or by what was written. A single
/// clustering column has another value in each row.
fn has_few_values(first: &Column, table: &Table, context: &Context<'_>) -> bool {
    if most_partitions([first]).is_some_and(|values| values <= FEW) {
        return true;
    }
    let repeated = traffic(table, context).and_then(|traffic| {
        let mut columns = traffic.repeated.columns();
        columns.find(|(name, _)| *name == first.name)
    });
    repeated.is_some_and(|(_, rows)| rows.within >= ENOUGH_ROWS && rows.same_within * FEW > rows.within)
}

fn traffic<'a>(table: &Table, context: &Context<'a>) -> Option<&'a TableTraffic> {
    context.window.tables.get(&name_of(table))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{window, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};
    use cqlens_window::{Cluster, RepeatedValue};

    const SCHEMA: &str = "
        CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE k.queue (name text, type int, id bigint, body blob, PRIMARY KEY (name, type, id));
        CREATE TABLE k.flags (name text, is_open boolean, id int, PRIMARY KEY (name, is_open, id));";
    const INSERT: &str = "INSERT INTO k.queue (name, type, id, body) VALUES (?, ?, ?, ?)";

    /// What is said of a table of which so many reads and writes were seen in an hour.
    fn said<T>(
        (insert, table): (&str, &str),
        fill: impl Fn(&mut TableTraffic),
        say: impl Fn(&Table, &Context<'_>) -> T,
    ) -> T {
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let mut window = window([write(insert, StatementKind::Insert, &[], 9_000)]);
        let table = schema.table("k", table).unwrap();
        window.count_table(&name_of(table), |traffic| {
            traffic.writes = 9_000;
            traffic.reads = 100;
            fill(traffic);
        });
        let cluster = Cluster::default();
        say(table, &Context::new(&window, &schema, &cluster))
    }

    fn of_queue(fill: impl Fn(&mut TableTraffic)) -> Option<Obstacle> {
        said((INSERT, "queue"), fill, against_hash)
    }

    /// So many of a hundred rows have the value of the row before them.
    fn same(of_a_hundred: u64) -> impl Fn(&mut TableTraffic) {
        move |traffic| {
            let value = RepeatedValue {
                within: 100,
                same_within: of_a_hundred,
                ..RepeatedValue::default()
            };
            traffic.repeated.count("type", value);
        }
    }

    #[test]
    fn what_is_written_often_into_rows_of_many_values_is_spread() {
        assert_eq!(of_queue(|_| {}), None);
        assert_eq!(of_queue(same(6)), None);
    }

    #[test]
    fn a_hash_of_a_column_with_few_values_spreads_nothing() {
        assert_eq!(of_queue(same(100)), Some(Obstacle::FewValues));
        assert_eq!(of_queue(same(7)), Some(Obstacle::FewValues));
        let of_flags = said((INSERT, "flags"), |_| {}, against_hash);
        assert_eq!(of_flags, Some(Obstacle::FewValues));
        let size = said((INSERT, "queue"), same(100), against_size);
        assert_eq!(size, Some(Obstacle::FewValues));
    }

    #[test]
    fn what_is_read_more_often_or_hardly_used_is_not_spread() {
        assert_eq!(of_queue(|traffic| traffic.reads = 9_001), Some(Obstacle::Reads));
        let rare = |traffic: &mut TableTraffic| traffic.writes = 3_499;
        assert_eq!(of_queue(rare), Some(Obstacle::LittleTraffic));
    }

    #[test]
    fn partitions_with_conditional_writes_stay_whole() {
        let insert = "INSERT INTO k.queue (name, type, id, body) VALUES (?, ?, ?, ?) IF NOT EXISTS";
        for against in [against_hash, against_size, against_hours] {
            let found = said((insert, "queue"), |_| {}, against);
            assert_eq!(found, Some(Obstacle::Conditions));
        }
    }

    #[test]
    fn rows_of_small_partitions_do_not_go_by_the_hour() {
        let rows = |rows: u64| {
            move |traffic: &mut TableTraffic| {
                let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (0..10).for_each(|partition| traffic.distinct_partitions.insert(hash(partition)));
                (0..rows).for_each(|row| traffic.inserted.rows.insert(hash(row)));
            }
        };
        let of_rows = |number| said((INSERT, "queue"), rows(number), against_hours);
        assert_eq!(of_rows(20), Some(Obstacle::FewRows));
        assert_eq!(of_rows(2_000), None);
        assert_eq!(of_rows(0), None, "no INSERT was seen whose key is known");
    }
}

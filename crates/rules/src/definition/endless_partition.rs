//! Time series whose partitions nothing limits: no span of time in the key, no TTL.

use super::{About, Findings, GROUP, Rule, Severity, is_time, is_time_series, most_partitions};
use crate::{Context, Finding};
use cqlens_cql::schema::{Column, Table, TableName, quote};

pub(crate) struct EndlessPartition;

impl Rule for EndlessPartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            // Of a table with traffic it is known how its partitions grow.
            if !context.window.tables.contains_key(&name) && is_endless(table) {
                found.push(finding(&name, table, context));
            }
        }
    }
}

fn is_endless(table: &Table) -> bool {
    let key = table.partition_key();
    table.view.is_none()
        && is_time_series(table)
        // A row that time alone tells from others is a measurement; what has an id beside it is listed by time.
        && table.clustering().len() == 1
        && table.default_time_to_live() == 0
        && !key.iter().any(is_span)
        // What is wrong there is the key.
        && most_partitions(key).is_none()
}

/// Whether a column limits its partition to a span of time, by its type or by what it is called.
fn is_span(column: &Column) -> bool {
    let name = column.name.to_ascii_lowercase();
    is_time(&column.data_type) || SPANS.iter().any(|span| name.contains(span))
}

/// What people call columns that are cut to a span of time, or are counted up when a partition is full.
const SPANS: &[&str] = &[
    "bucket",
    "day",
    "date",
    "week",
    "month",
    "year",
    "hour",
    "minute",
    "period",
    "time",
    "window",
    "slot",
    "shard",
    "partition",
    "page",
    "epoch",
    "quarter",
    "interval",
];

fn finding(name: &TableName, table: &Table, context: &Context<'_>) -> Finding {
    let first = table
        .clustering()
        .first()
        .map_or_else(String::new, |column| quote(&column.name).into_owned());
    let title = format!(
        "Partitions of `{name}` grow forever with `{first}`: neither the partition key nor a TTL limits them"
    );
    Finding::on_definition(&ABOUT, Severity::Low, context)
        .of_table(name)
        .title(title)
        .first("clustering_column", first)
}

const ABOUT: About = About {
    id: "endless-partition",
    group: GROUP,
    summary: "A time series has no span of time in its partition key, and no TTL.",
    why: "\
        The rows of a key are one partition, on one set of replicas. A partition to which rows are added over time \
        and that never loses any has no largest size: from about 100 MiB on compactions, repairs and reads of it \
        become slow, and it cannot be divided later without a copy.",
    fix: "\
        Add a span of time to the partition key that keeps a partition below 100,000 rows, such as the day or the \
        month, or let rows expire (`default_time_to_live`). Nothing needs to change if a key gets few rows in all, \
        such as the states of one order, or if all statements set a TTL.",
    fix_in_short: "Bucket by time",
    before: "\
        CREATE TABLE shop.readings (sensor int, at timestamp, v double, PRIMARY KEY (sensor, at));\n\
        INSERT INTO shop.readings (sensor, at, v) VALUES (?, ?, ?);",
    after: "\
        CREATE TABLE shop.readings (\n  sensor int, day date, at timestamp, v double,\n  \
        PRIMARY KEY ((sensor, day), at));\n\
        INSERT INTO shop.readings (sensor, day, at, v) VALUES (?, ?, ?, ?);",
    severity: "Low: from a definition it is not known how many rows a key gets. Nothing for a table with traffic.",
    severities: &[Severity::Low],
    thresholds: &[],
    needs: "\
        The schema: a clustering key of one column, a time. A partition key column of a time type, or called like a span of time (`day`, `bucket`), is \
        taken for a limit.",
    source: "Cassandra documentation, data modelling: logical partition size; cassandra.yaml `partition_size_warn_threshold`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    #[test]
    fn rows_by_time_in_a_partition_without_end_are_found() {
        let found = in_file(
            &EndlessPartition,
            "CREATE TABLE shop.readings (sensor int, at timestamp, v double, PRIMARY KEY (sensor, at));",
        );
        assert_eq!(
            found[0].title,
            "Partitions of `shop.readings` grow forever with `at`: neither the partition key nor a TTL limits them"
        );
        assert_eq!(found[0].severity, Severity::Low);
    }

    #[test]
    fn a_span_of_time_a_ttl_or_another_order_limits_them() {
        for table in [
            "(sensor int, day date, at timestamp, PRIMARY KEY ((sensor, day), at))",
            "(sensor int, month text, at timeuuid, PRIMARY KEY ((sensor, month), at))",
            "(sensor int, at timestamp, PRIMARY KEY (sensor, at)) WITH default_time_to_live = 86400",
            "(sensor int, name text, at timestamp, PRIMARY KEY (sensor, name, at))",
            "(customer int, placed timestamp, id uuid, PRIMARY KEY (customer, placed, id))",
            "(sensor int PRIMARY KEY, at timestamp)",
        ] {
            assert_eq!(
                in_file(&EndlessPartition, &format!("CREATE TABLE shop.t {table};")),
                [],
                "{table}"
            );
        }
    }
}

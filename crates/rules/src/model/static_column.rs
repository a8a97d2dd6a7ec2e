//! Columns that every row of a partition repeats.

use super::{About, Finding, Findings, Severity, Threshold};
use crate::{Context, Rule, figures::share};
use cqlens_cql::schema::{ColumnKind, Table, TableName, quote};
use cqlens_window::{RepeatedValue, TableTraffic};

pub(crate) struct StaticColumn;

impl Rule for StaticColumn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, traffic) in &context.window.tables {
            let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
                continue;
            };
            let columns = repeated(found, table, traffic);
            if !columns.is_empty() && !table.compact_storage {
                found.push(finding(name, table, &columns, context));
            }
        }
    }
}

/// The regular columns whose values belong to the partition: the same in its rows, and another one elsewhere.
fn repeated<'w>(
    found: &Findings<'_>,
    table: &Table,
    traffic: &'w TableTraffic,
) -> Vec<(&'w str, RepeatedValue)> {
    let reaches = |value: f64, threshold: &Threshold| value >= found.threshold(&ABOUT, threshold);
    let of_partition = |(column, value): &(&str, RepeatedValue)| {
        let is_regular = table
            .column(column)
            .is_some_and(|column| column.kind == ColumnKind::Regular);
        is_regular
            && reaches(value.within as f64, &ROWS)
            && reaches(share(value.same_within, value.within), &SHARE)
            && value.across > 0
            // What is the same everywhere may be a setting, or not in use yet.
            && share(value.same_across, value.across) < 0.5
    };
    traffic.repeated.columns().filter(of_partition).collect()
}

fn finding(
    name: &TableName,
    table: &Table,
    columns: &[(&str, RepeatedValue)],
    context: &Context<'_>,
) -> Finding {
    let quoted: Vec<_> = columns.iter().map(|(column, _)| format!("`{column}`")).collect();
    let (is, it) = match columns.len() {
        1 => ("is", "a static column stores it once"),
        _ => ("are", "static columns store them once"),
    };
    let title = format!(
        "{} of `{name}` {is} the same in every row of a partition: {it}",
        quoted.join(", ")
    );
    let compared: u64 = columns
        .iter()
        .map(|(_, value)| value.within)
        .max()
        .unwrap_or_default();
    let same = columns
        .iter()
        .map(|(_, value)| share(value.same_within, value.within))
        .fold(1.0, f64::min);
    Finding::on_definition(&ABOUT, Severity::Info, context)
        .of_table(name)
        .title(title)
        .first("rows_compared", compared)
        .first("same_as_the_row_before_share", same)
        .suggest([migration(name, table, columns)])
}

/// A column cannot become static: others are added, and take its place.
fn migration(name: &TableName, table: &Table, columns: &[(&str, RepeatedValue)]) -> String {
    let of_table = format!("{}.{}", quote(&name.keyspace), quote(&name.table));
    let key: Vec<_> = table
        .partition_key()
        .iter()
        .map(|column| format!("{} = ?", quote(&column.name)))
        .collect();
    let key = key.join(" AND ");
    let mut steps = Vec::new();
    for (column, _) in columns {
        let Some(defined) = table.column(column) else {
            continue;
        };
        let fixed = format!("{column}_of_partition");
        let fixed = quote(&fixed);
        steps.push(format!(
            "ALTER TABLE {of_table} ADD {fixed} {} STATIC;",
            defined.data_type
        ));
        steps.push(format!("UPDATE {of_table} SET {fixed} = ? WHERE {key};"));
    }
    for (column, _) in columns {
        steps.push(format!(
            "-- once nothing reads or writes it any more: ALTER TABLE {of_table} DROP {};",
            quote(column)
        ));
    }
    steps.join("\n")
}

const ROWS: Threshold = Threshold {
    name: "rows",
    unit: "rows compared with another row of their partition",
    default: 50.0,
    origin: "cqlens default: one partition in eight is sampled",
};

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of them with the same value",
    default: 0.99,
    origin: "cqlens default: the value changes once in a hundred rows",
};

const ABOUT: About = About {
    id: "static-column",
    group: "model",
    summary: "Every row of a partition repeats a value that belongs to the partition.",
    why: "\
        A regular column has a cell in each row. If all rows of a partition have the same value, such as the \
        customer's name in each of the customer's orders, those cells are written, read and compacted over \
        and over, and a change of the value has to reach every row.",
    fix: "Make it a static column: it has one cell per partition, which is returned with every row. An \
        existing column cannot be made static: add another one, and write it once per partition. Keep the \
        copies if rows move to other tables, or if the value must stay as it was at the time (the address of \
        an order).",
    fix_in_short: "A separate table",
    before: "INSERT INTO shop.orders (customer, at, total, customer_name) VALUES (?, ?, ?, ?);",
    after: "UPDATE shop.orders SET name = ? WHERE customer = ?;  -- name text STATIC, when the customer changes it\nINSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?);",
    severity: "\
        Info, if at least a `share` of `rows` rows or more have the value of the previous row in their \
        partition, and most rows of other partitions have another value.",
    severities: &[Severity::Info],
    thresholds: &[ROWS, SHARE],
    needs: "\
        The schema, and INSERTs whose primary key and values are known; one partition in eight is sampled.",
    source: "Cassandra documentation, CREATE TABLE: static columns",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::testing::{run_with, window};
    use cqlens_cql::schema::Schema;

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.orders (customer int, at int, name text, total int, PRIMARY KEY (customer, at));";

    fn found(same_within: u64, same_across: u64) -> Vec<(String, String)> {
        let mut window = window([]);
        let mut traffic = TableTraffic::default();
        let value = RepeatedValue {
            within: 100,
            same_within,
            across: 100,
            same_across,
        };
        traffic.repeated.count("name", value);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "orders".to_owned(),
        };
        window.tables.insert(name, traffic);
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let findings = run_with(&StaticColumn, &window, &schema).findings.into_iter();
        findings
            .map(|finding| (finding.title, finding.suggested_cql.concat()))
            .collect()
    }

    #[test]
    fn what_belongs_to_the_partition_is_found_with_the_column_that_replaces_it() {
        let [(title, cql)] = &found(100, 1)[..] else {
            panic!("one finding")
        };
        assert_eq!(
            title,
            "`name` of `shop.orders` is the same in every row of a partition: a static column stores it once"
        );
        assert_eq!(
            cql,
            "ALTER TABLE shop.orders ADD name_of_partition text STATIC;\n\
             UPDATE shop.orders SET name_of_partition = ? WHERE customer = ?;\n\
             -- once nothing reads or writes it any more: ALTER TABLE shop.orders DROP name;"
        );
    }

    #[test]
    fn what_differs_or_is_the_same_everywhere_is_not() {
        assert_eq!(found(90, 1), []);
        assert_eq!(found(100, 100), []);
    }
}

//! Partition keys that can have a handful of values only.

use super::{About, Findings, GROUP, Rule, Severity, most_partitions};
use crate::{
    Context, Finding,
    read::suggest::{Obstacle, against_hash, by_hash},
};
use cqlens_cql::schema::{Table, TableName, quote};
use cqlens_window::number;

pub(crate) struct FewPartitions;

impl Rule for FewPartitions {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            // With nothing but the key, there are no more rows than partitions.
            if !table.clustering().is_empty()
                && let Some(partitions) = most_partitions(table.partition_key())
            {
                found.push(finding(&name, table, partitions, context));
            }
        }
    }
}

fn finding(name: &TableName, table: &Table, partitions: u64, context: &Context<'_>) -> Finding {
    let severity = match against_hash(table, context) {
        Some(Obstacle::LittleTraffic) => Severity::Info,
        // From types alone it is not known how many rows there are.
        _ if partitions <= 16 && context.window.tables.contains_key(name) => Severity::High,
        _ => Severity::Medium,
    };
    let keys: Vec<_> = table
        .partition_key()
        .iter()
        .map(|column| quote(&column.name))
        .collect();
    let title = format!(
        "`{name}` can have no more than {}: its partition key is `{}`",
        number::plural(partitions, "partition", "partitions"),
        keys.join(", ")
    );
    let finding = Finding::on_definition(&ABOUT, severity, context)
        .of_table(name)
        .title(title)
        .first("partitions_max", partitions);
    by_hash(finding, table, context)
}

const ABOUT: About = About {
    id: "few-partitions",
    group: GROUP,
    summary: "The types of a partition key allow only a handful of partitions.",
    why: "A partition lives as a whole on one set of replicas. If the key is a boolean, there are two \
        partitions, however many nodes the cluster has: two sets of replicas hold and serve the whole table, \
        partitions grow with it, and adding nodes changes nothing.",
    fix: "Make the columns that queries restrict the partition key, or add a bucket that spreads each value \
        over enough partitions to keep each below 100,000 rows. Do not put a state with few values into the \
        partition key alone.",
    fix_in_short: "Split the partitions",
    before: "CREATE TABLE shop.tasks (done boolean, id timeuuid, title text, PRIMARY KEY (done, id));\n\
             SELECT * FROM shop.tasks WHERE done = false;",
    after: "CREATE TABLE shop.tasks (\n  done boolean, bucket int, id timeuuid, title text,\n  \
            PRIMARY KEY ((done, bucket), id)\n);\n\
            SELECT * FROM shop.tasks WHERE done = false AND bucket = ?;",
    severity: "\
        High up to 16 partitions of a table that is used, else medium: from a definition alone it is not known \
        how many rows there are. Info for a table with less than one request a second.",
    severities: &[Severity::Info, Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "The schema: partition key columns that are all boolean or tinyint.",
    source: "Cassandra documentation, data modelling: spread data evenly; cassandra.yaml `partition_size_warn_threshold`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    #[test]
    fn a_boolean_key_is_two_partitions() {
        let found = in_file(
            &FewPartitions,
            "CREATE TABLE shop.tasks (done boolean, id timeuuid, PRIMARY KEY (done, id));",
        );
        assert_eq!(found[0].severity, Severity::Medium);
        assert_eq!(
            found[0].title,
            "`shop.tasks` can have no more than 2 partitions: its partition key is `done`"
        );
        assert!(found[0].suggested_cql[0].ends_with("PRIMARY KEY ((done, bucket), id)\n);"));
    }

    #[test]
    fn keys_of_many_values_and_tables_of_two_rows_are_fine() {
        let tables =
            "CREATE TABLE shop.a (done boolean, day date, id timeuuid, PRIMARY KEY ((done, day), id));
                      CREATE TABLE shop.b (done boolean PRIMARY KEY, v int);";
        assert_eq!(in_file(&FewPartitions, tables), []);
    }
}

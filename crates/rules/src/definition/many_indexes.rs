//! Tables with many indexes, each of which is written with every row.

use super::{About, Findings, GROUP, Rule, Severity, Threshold};
use crate::{Context, DefinitionPart, Finding};
use cqlens_window::number;

pub(crate) struct ManyIndexes;

impl Rule for ManyIndexes {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            let indexes = table.indexes.len() as u64;
            if indexes as f64 <= found.threshold(&ABOUT, &MOST) {
                continue;
            }
            let last = table.indexes.keys().last().cloned().unwrap_or_default();
            let title = format!(
                "`{name}` has {}: each write updates all of them",
                number::plural(indexes, "index", "indexes")
            );
            let finding = Finding::on_definition(&ABOUT, Severity::Low, context)
                .of_table(&name)
                .of_part(DefinitionPart::Index(last))
                .title(title)
                .first("indexes", indexes);
            found.push(finding);
        }
    }
}

const MOST: Threshold = Threshold {
    name: "most",
    unit: "indexes of a table",
    default: 5.0,
    origin: "\
        cqlens default; guardrail `secondary_indexes_per_table` (4.1) is off in Apache Cassandra, and DataStax's \
        GuardrailsConfig allows 1, or 10 if they are storage-attached",
};

const ABOUT: About = About {
    id: "many-indexes",
    group: GROUP,
    summary: "A table has many indexes.",
    why: "\
        An index stands in for a table whose key a query would need. Each one is written with every row, takes its \
        disk space, is built again when a node is rebuilt, and a read without the partition key queries all nodes. \
        Many of them on one table show that its key does not fit its queries.",
    fix: "\
        Keep the indexes that are used within a partition, and create tables for the frequent queries. Drop those \
        that no query uses.",
    fix_in_short: "Tables for queries",
    before: "\
        CREATE INDEX ON shop.users (mail); CREATE INDEX ON shop.users (city); CREATE INDEX ON shop.users (age);\n\
        SELECT * FROM shop.users WHERE mail = ?;",
    after: "\
        CREATE TABLE shop.users_by_mail (mail text PRIMARY KEY, id uuid);\n\
        SELECT id FROM shop.users_by_mail WHERE mail = ?;",
    severity: "Low above `most`.",
    severities: &[Severity::Low],
    thresholds: &[MOST],
    needs: "The schema.",
    source: "Cassandra guardrail `secondary_indexes_per_table` (4.1)",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    fn with(indexes: usize) -> usize {
        let columns: String = (0..indexes).map(|number| format!(", c{number} int")).collect();
        let created: String = (0..indexes)
            .map(|number| format!("CREATE INDEX ON shop.t (c{number});"))
            .collect();
        let table = format!("CREATE TABLE shop.t (k int PRIMARY KEY{columns}); {created}");
        in_file(&ManyIndexes, &table).len()
    }

    #[test]
    fn six_indexes_are_many_and_five_are_not() {
        assert_eq!((with(6), with(5), with(0)), (1, 0, 0));
    }
}

//! Tables of the time before CQL.

use super::{About, Findings, GROUP, Rule, Severity, in_cql};
use crate::{Context, Finding};

pub(crate) struct CompactStorage;

impl Rule for CompactStorage {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables().filter(|(_, table)| table.compact_storage) {
            let columns = table.columns.len() - table.partition_key().len() - table.clustering().len();
            let drop = format!("ALTER TABLE {} DROP COMPACT STORAGE;", in_cql(&name));
            let finding = Finding::on_definition(&ABOUT, Severity::Low, context)
                .of_table(&name)
                .title(format!("`{name}` is defined with COMPACT STORAGE"))
                .first("columns_outside_the_key", columns as u64)
                .suggest([format!(
                    "-- on a copy first: hidden columns become visible\n{drop}"
                )]);
            found.push(finding);
        }
    }
}

const ABOUT: About = About {
    id: "compact-storage",
    group: GROUP,
    summary: "A table is defined with COMPACT STORAGE.",
    why: "COMPACT STORAGE is the layout of the Thrift interface, which was removed in Cassandra 4.0. Such a \
        table accepts no new columns and no collections, has no row markers, so that a row that consists of \
        its key alone does not exist, and blocks new features and upgrades.",
    fix: "Run `ALTER TABLE ... DROP COMPACT STORAGE`, on a copy first and with the application's statements: \
        hidden columns (`column1`, `value`) become visible to `SELECT *`, and hidden rows may appear. \
        Cassandra 4.0 and later need `drop_compact_storage_enabled: true` in cassandra.yaml.",
    fix_in_short: "Drop COMPACT STORAGE",
    before: "CREATE TABLE shop.kv (k text PRIMARY KEY, v text) WITH COMPACT STORAGE;\nSELECT v FROM shop.kv WHERE k = ?;",
    after: "CREATE TABLE shop.kv (k text PRIMARY KEY, v text);\nSELECT v FROM shop.kv WHERE k = ?;",
    severity: "Low: it slows nothing down.",
    severities: &[Severity::Low],
    thresholds: &[],
    needs: "The schema.",
    source: "CASSANDRA-10857, DROP COMPACT STORAGE; cassandra.yaml `drop_compact_storage_enabled`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    #[test]
    fn tables_of_thrift_are_found_and_others_are_not() {
        let found = in_file(
            &CompactStorage,
            "CREATE TABLE shop.kv (k text PRIMARY KEY, v text) WITH COMPACT STORAGE;
             CREATE TABLE shop.users (id uuid PRIMARY KEY, name text);",
        );
        let titles: Vec<_> = found.iter().map(|finding| &finding.title).collect();
        assert_eq!(titles, ["`shop.kv` is defined with COMPACT STORAGE"]);
    }
}

//! More tables than a cluster should have.

use super::{About, Findings, GROUP, Rule, Severity, Threshold};
use crate::{Context, Finding};
use cqlens_cql::schema::is_system;
use cqlens_window::number;

pub(crate) struct ManyTables;

impl Rule for ManyTables {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let keyspaces = context.schema.keyspaces.values();
        let tables: u64 = keyspaces
            .filter(|keyspace| !is_system(&keyspace.name))
            .map(|keyspace| keyspace.tables.len() as u64)
            .sum();
        let reaches = |threshold: &Threshold| tables as f64 >= found.threshold(&ABOUT, threshold);
        let severity = if reaches(&TOO_MANY) {
            Severity::Medium
        } else if reaches(&MANY) {
            Severity::Low
        } else {
            return;
        };
        let title = format!("The cluster has {} tables and views", number::count(tables));
        found.push(
            Finding::on_definition(&ABOUT, severity, context)
                .title(title)
                .first("tables", tables),
        );
    }
}

const MANY: Threshold = Threshold {
    name: "many",
    unit: "tables",
    default: 150.0,
    origin: "`table_count_warn_threshold` of cassandra.yaml 4.0: 150",
};

const TOO_MANY: Threshold = Threshold {
    name: "too_many",
    unit: "tables",
    default: 500.0,
    origin: "cqlens default: memtables and metrics of 500 tables take about 1 GiB of heap on each node",
};

const ABOUT: About = About {
    id: "many-tables",
    group: GROUP,
    summary: "The cluster has more tables than its nodes handle well.",
    why: "Each table has its own memtable, metrics, caches and SSTables on every node: a megabyte or two of \
        heap, used or not. With many tables, memtables are flushed while they are small, compactions never \
        finish, and each schema change takes longer to reach agreement.",
    fix: "\
        Merge tables that differ only by tenant, day or kind into one, with that value as the first part of \
        the partition key. Tenants that must be isolated belong on clusters of their own.",
    fix_in_short: "Fewer tables",
    before: "SELECT * FROM shop.orders_tenant_4711 WHERE id = ?;",
    after: "SELECT * FROM shop.orders WHERE tenant = 4711 AND id = ?;",
    severity: "Low from `many`, medium from `too_many`.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[MANY, TOO_MANY],
    needs: "The schema.",
    source: "Cassandra guardrail `tables` (4.1), `table_count_warn_threshold` (4.0)",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

    fn severity(tables: usize) -> Option<Severity> {
        let tables = (0..tables).map(|n| format!("CREATE TABLE shop.t{n} (id int PRIMARY KEY);"));
        let found = in_file(&ManyTables, &tables.collect::<String>());
        found.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_number() {
        assert_eq!(severity(149), None);
        assert_eq!(severity(150), Some(Severity::Low));
        assert_eq!(severity(500), Some(Severity::Medium));
    }
}

//! Tables in which migration tools keep what they have applied: a row for each migration, in a key that the tool needs. Nothing
//! is said of them.

use super::{Context, Finding};
use cqlens_cql::schema::Table;

/// A table that a tool creates itself.
struct ToolTable {
    /// How its name ends: some tools put a prefix before it.
    name: &'static str,
    /// Columns by which it is told from others of that name.
    columns: &'static [&'static str],
}

const fn table(name: &'static str, columns: &'static [&'static str]) -> ToolTable {
    ToolTable { name, columns }
}

/// By their definitions in the tools' sources.
const TABLES: &[ToolTable] = &[
    // cassandra-migration (patka), `Database.java`.
    table("schema_migration", &["applied_successful", "version"]),
    table("schema_migration_leader", &["keyspace_name", "leader"]),
    // cassandra-migration (Contrast Security), `SchemaVersionDAO.java`.
    table("cassandra_migration_version", &["version", "script"]),
    table("cassandra_migration_version_counts", &["name", "count"]),
    // golang-migrate, `cassandra.go`.
    table("schema_migrations", &["version", "dirty"]),
    // cdeploy.
    table("schema_migrations", &["type", "version"]),
    // pillar, `Migrator` and `AppliedMigrations`.
    table("applied_migrations", &["authored_at", "description"]),
    // cqlmigrate, `SchemaUpdates.java`.
    table("schema_updates", &["filename", "checksum"]),
    // Liquibase.
    table("databasechangelog", &["author", "filename"]),
    table("databasechangeloglock", &["locked"]),
    // gocqlx, `migrate.go`.
    table("gocqlx_migrate", &["name", "checksum"]),
];

/// Leaves out what is found on such tables.
pub(super) fn leave_out(findings: &mut Vec<Finding>, context: &Context<'_>) {
    findings.retain(|finding| {
        let table = finding.keyspace.as_deref().zip(finding.table.as_deref());
        let table = table.and_then(|(keyspace, table)| context.schema.table(keyspace, table));
        !table.is_some_and(is_of_tool)
    });
}

fn is_of_tool(table: &Table) -> bool {
    TABLES.iter().any(|known| {
        table.name.ends_with(known.name) && known.columns.iter().all(|column| table.column(column).is_some())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Settings, lint};
    use cqlens_cql::schema::Schema;

    fn rules(definitions: &str) -> Vec<&'static str> {
        let schema = Schema::from_cql(&format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}}; {definitions}"
        ));
        let findings = lint(&schema.unwrap(), &Settings::default()).findings;
        findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn the_table_of_a_migration_tool_is_left_alone_and_one_that_looks_like_it_is_not() {
        let of = |name: &str, more: &str| {
            format!(
                "CREATE TABLE shop.{name} (applied_successful boolean, version int, script text{more},
                 PRIMARY KEY (applied_successful, version));"
            )
        };
        assert_eq!(rules(&of("schema_migration", ", executed_at timestamp")), [""; 0]);
        assert_eq!(rules(&of("orders_schema_migration", "")), [""; 0]);
        assert_eq!(rules(&of("schema_changes", "")), ["few-partitions"]);
        let other = "CREATE TABLE shop.schema_migration (done boolean, id int, PRIMARY KEY (done, id));";
        assert_eq!(rules(other), ["few-partitions"]);
    }
}

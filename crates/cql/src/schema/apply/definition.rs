//! What of tables only their definitions say: `system_schema` of Cassandra 6.0-alpha2 keeps neither `transactional_mode`
//! nor constraints, and `DESCRIBE` prints both.

use super::check::constraints_of;
use super::option::set_table_options;
use crate::schema::constraint::Constraint;
use crate::schema::model::{OptionValue, Schema, Table};
use crate::schema::names::TableName;
use crate::syntax;
use crate::syntax::ast::Body;

/// What only the definition of a table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    table: TableName,
    transactional_mode: Option<OptionValue>,
    /// By column; never empty lists.
    constraints: Vec<(String, Vec<Constraint>)>,
}

impl Definition {
    /// Of a table with the name of its keyspace, as `DESCRIBE` prints it. None for what creates no table, and for tables of
    /// which `system_schema` says all.
    pub fn of(text: &str) -> Option<Self> {
        let create = syntax::statements(text).find_map(|(_, statement)| match statement.ok()?.body {
            Body::CreateTable(create) => Some(create),
            _ => None,
        })?;
        let table = TableName {
            keyspace: create.table.keyspace_or(None)?.to_owned(),
            table: create.table.name.as_str().to_owned(),
        };
        let mut options = Table::default();
        set_table_options(&mut options, &create.options);
        let transactional_mode = options.transactional_mode().map(OptionValue::Text);
        let constraints = create.columns.iter().filter_map(|column| {
            let constraints = constraints_of(column);
            (!constraints.is_empty()).then(|| (column.name.as_str().to_owned(), constraints))
        });
        let constraints: Vec<_> = constraints.collect();
        let says_more = transactional_mode.is_some() || !constraints.is_empty();
        says_more.then_some(Self {
            table,
            transactional_mode,
            constraints,
        })
    }
}

impl Schema {
    /// Adds to its tables what their definitions say.
    pub fn complete(&mut self, definitions: impl IntoIterator<Item = Definition>) {
        for definition in definitions {
            let name = &definition.table;
            let keyspace = self.keyspaces.get_mut(&name.keyspace);
            let Some(table) = keyspace.and_then(|keyspace| keyspace.tables.get_mut(&name.table)) else {
                continue;
            };
            if let Some(mode) = definition.transactional_mode {
                table.options.insert("transactional_mode".to_owned(), mode);
            }
            for (name, constraints) in definition.constraints {
                if let Some(column) = table.columns.iter_mut().find(|column| column.name == name) {
                    column.constraints = constraints;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DESCRIBED: &str = "CREATE TABLE ks.t (\n    k int CHECK k > 0 PRIMARY KEY,\n    v int CHECK v <= 100 AND NOT NULL\n) \
        WITH comment = 'it''s a table'\n    AND transactional_mode = 'full';\nCOMMENT ON COLUMN ks.t.v IS 'cents';";

    #[test]
    fn definitions_complete_what_rows_say() {
        let keyspace =
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";
        let rows = format!(
            "{keyspace} CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH comment = 'it''s a table';"
        );
        let mut schema = Schema::from_cql(&rows).unwrap();
        schema.complete(Definition::of(DESCRIBED));
        let whole = Schema::from_cql(&format!("{keyspace} {DESCRIBED}")).unwrap();
        assert_eq!(schema, whole);
        assert!(schema.table("ks", "t").unwrap().is_transactional());
    }

    #[test]
    fn nothing_is_kept_of_tables_of_which_rows_say_all() {
        for text in [
            "CREATE TABLE ks.t (k int PRIMARY KEY) WITH transactional_mode = 'off';",
            "CREATE TYPE ks.y (a int);",
            "CREATE TABLE ks.t (",
            "",
        ] {
            assert_eq!(Definition::of(text), None, "{text}");
        }
        let unknown = DESCRIBED.replace("ks.t", "ks.other");
        let mut schema = Schema::default();
        schema.complete(Definition::of(&unknown));
        assert_eq!(schema, Schema::default());
    }
}

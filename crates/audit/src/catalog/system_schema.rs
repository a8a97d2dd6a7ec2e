//! Rows of `system_schema`, as the schema takes them.

use std::collections::BTreeMap;

use cqlens_proto::types::CqlValue;

use super::record::{Record, text_map};
use cqlens_cql::schema::{
    OptionValue,
    rows::{ColumnRow, IndexRow, KeyspaceRow, TableRow, TypeRow, ViewRow},
};

/// A row of `system_schema.keyspaces`; `with_tablets` names the keyspaces that Scylla places by tablets.
pub fn keyspace(row: &Record, with_tablets: &[Option<String>]) -> KeyspaceRow {
    let name = row.text("keyspace_name");
    KeyspaceRow {
        tablets: with_tablets.iter().flatten().any(|other| *other == name),
        name,
        durable_writes: row.boolean("durable_writes", true),
        replication: row.text_map("replication"),
    }
}

/// The name of the keyspace of a row of `system_schema.scylla_keyspaces`, if Scylla places its tables by tablets.
pub fn with_tablets(row: &Record) -> Option<String> {
    const NONE: i32 = -1;
    (row.int("initial_tablets", NONE) != NONE).then(|| row.text("keyspace_name"))
}

/// A row of `system_schema.tables`.
pub fn table(row: &Record) -> TableRow {
    TableRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("table_name"),
        flags: row.texts("flags").into_iter().collect(),
        options: options(row, &["keyspace_name", "table_name", "flags", "id", "extensions"]),
    }
}

/// A row of `system_schema.views`.
pub fn view(row: &Record) -> ViewRow {
    let own = [
        "keyspace_name",
        "view_name",
        "base_table_id",
        "base_table_name",
        "id",
        "include_all_columns",
        "where_clause",
        "extensions",
    ];
    ViewRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("view_name"),
        base: row.text("base_table_name"),
        include_all_columns: row.boolean("include_all_columns", false),
        where_clause: row.text("where_clause"),
        options: options(row, &own),
    }
}

/// The columns that are properties of `WITH`.
fn options(row: &Record, own: &[&str]) -> BTreeMap<String, OptionValue> {
    let options = row.iter().filter(|(name, _)| !own.contains(name));
    options
        .filter_map(|(name, value)| Some((name.to_owned(), option_value(value)?)))
        .collect()
}

fn option_value(value: &CqlValue) -> Option<OptionValue> {
    Some(match value {
        CqlValue::Text(text) | CqlValue::Ascii(text) => OptionValue::Text(text.clone()),
        CqlValue::Map(entries) => OptionValue::Map(text_map(entries)),
        CqlValue::Null | CqlValue::Blob(_) => return None,
        other => OptionValue::Plain(other.to_string()),
    })
}

/// A row of `system_schema.columns`.
pub fn column(row: &Record) -> ColumnRow {
    ColumnRow {
        keyspace: row.text("keyspace_name"),
        table: row.text("table_name"),
        name: row.text("column_name"),
        clustering_order: row.text("clustering_order"),
        kind: row.text("kind"),
        position: row.int("position", -1),
        data_type: row.text("type"),
    }
}

/// A row of `system_schema.types`.
pub fn user_type(row: &Record) -> TypeRow {
    TypeRow {
        keyspace: row.text("keyspace_name"),
        name: row.text("type_name"),
        field_names: row.texts("field_names"),
        field_types: row.texts("field_types"),
    }
}

/// A row of `system_schema.indexes`.
pub fn index(row: &Record) -> IndexRow {
    IndexRow {
        keyspace: row.text("keyspace_name"),
        table: row.text("table_name"),
        name: row.text("index_name"),
        kind: row.text("kind"),
        options: row.text_map("options"),
    }
}

//! The rows of `system_schema`: keyspaces, tables, views, columns, indexes and types.

use std::collections::BTreeMap;

use cqlens_cql::schema::{self, ColumnKind, DataType, IndexClass, Keyspace, OptionValue, Order};
use cqlens_proto::types::CqlValue;

use super::rows::{SystemRow, map, stable_uuid, text};

/// The rows of a table of `system_schema` that describe a keyspace.
pub(super) fn rows_of(keyspace: &Keyspace, table: &str) -> Vec<SystemRow> {
    let tables = || keyspace.tables.values().filter(|table| table.view.is_none());
    match table {
        "keyspaces" => vec![keyspace_row(keyspace)],
        "tables" => tables().map(table_row).collect(),
        "views" => keyspace.tables.values().filter_map(view_row).collect(),
        "columns" => keyspace.tables.values().flat_map(column_rows).collect(),
        "indexes" => tables().flat_map(index_rows).collect(),
        "types" => keyspace
            .types
            .values()
            .map(|user_type| type_row(keyspace, user_type))
            .collect(),
        _ => Vec::new(),
    }
}

fn keyspace_row(keyspace: &Keyspace) -> SystemRow {
    let mut replication = keyspace.replication.clone();
    if let Some(class) = replication.get_mut("class").filter(|class| !class.contains('.')) {
        *class = format!("org.apache.cassandra.locator.{class}");
    }
    BTreeMap::from([
        ("keyspace_name", text(&keyspace.name)),
        ("durable_writes", CqlValue::Boolean(keyspace.durable_writes)),
        ("replication", map(&replication)),
    ])
}

/// What a table has in common with a view.
fn common_row(table: &schema::Table) -> SystemRow {
    let pairs = |pairs: &[(&str, &str)]| {
        CqlValue::Map(
            pairs
                .iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
        )
    };
    let mut row = BTreeMap::from([
        ("keyspace_name", text(&table.keyspace)),
        (
            "id",
            CqlValue::Uuid(stable_uuid(&format!("{}.{}", table.keyspace, table.name))),
        ),
        ("additional_write_policy", text("99p")),
        ("bloom_filter_fp_chance", CqlValue::Double(0.01)),
        (
            "caching",
            pairs(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
        ),
        ("cdc", CqlValue::Boolean(false)),
        ("comment", text("")),
        (
            "compaction",
            pairs(&[
                (
                    "class",
                    "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
                ),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
        ),
        (
            "compression",
            pairs(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
        ),
        ("crc_check_chance", CqlValue::Double(1.0)),
        ("dclocal_read_repair_chance", CqlValue::Double(0.0)),
        ("default_time_to_live", CqlValue::Int(0)),
        ("extensions", CqlValue::Map(Vec::new())),
        ("gc_grace_seconds", CqlValue::Int(864_000)),
        ("max_index_interval", CqlValue::Int(2048)),
        ("memtable_flush_period_in_ms", CqlValue::Int(0)),
        ("min_index_interval", CqlValue::Int(128)),
        ("read_repair", text("BLOCKING")),
        ("read_repair_chance", CqlValue::Double(0.0)),
        ("speculative_retry", text("99p")),
    ]);
    for (name, present) in &mut row {
        if let Some(given) = table.options.get(*name)
            && let Some(value) = option(given, present)
        {
            *present = value;
        }
    }
    row
}

/// A property in the type of its default.
fn option(given: &OptionValue, default: &CqlValue) -> Option<CqlValue> {
    match (given, default) {
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Text(_)) => Some(text(value)),
        (OptionValue::Map(entries), CqlValue::Map(_)) => Some(map(entries)),
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Int(_)) => {
            value.parse().ok().map(CqlValue::Int)
        }
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Double(_)) => {
            value.parse().ok().map(CqlValue::Double)
        }
        (OptionValue::Text(value) | OptionValue::Plain(value), CqlValue::Boolean(_)) => {
            value.parse().ok().map(CqlValue::Boolean)
        }
        _ => None,
    }
}

fn table_row(table: &schema::Table) -> SystemRow {
    let mut row = common_row(table);
    let flags: &[&str] = if table.is_counter() {
        &["compound", "counter"]
    } else {
        &["compound"]
    };
    row.insert("table_name", text(&table.name));
    row.insert(
        "flags",
        CqlValue::Set(flags.iter().map(|flag| text(flag)).collect()),
    );
    row
}

fn view_row(table: &schema::Table) -> Option<SystemRow> {
    let view = table.view.as_ref()?;
    let mut row = common_row(table);
    row.insert("view_name", text(&table.name));
    row.insert("base_table_name", text(&view.base));
    row.insert(
        "base_table_id",
        CqlValue::Uuid(stable_uuid(&format!("{}.{}", table.keyspace, view.base))),
    );
    row.insert("include_all_columns", CqlValue::Boolean(false));
    row.insert("where_clause", text(&view.where_clause));
    Some(row)
}

fn column_rows(table: &schema::Table) -> Vec<SystemRow> {
    let mut rows = Vec::new();
    let (mut in_key, mut in_clustering) = (0, 0);
    for column in &table.columns {
        let (kind, order, position) = match column.kind {
            ColumnKind::PartitionKey => ("partition_key", "none", take(&mut in_key)),
            ColumnKind::Clustering(Order::Ascending) => ("clustering", "asc", take(&mut in_clustering)),
            ColumnKind::Clustering(Order::Descending) => ("clustering", "desc", take(&mut in_clustering)),
            ColumnKind::Static => ("static", "none", -1),
            ColumnKind::Regular => ("regular", "none", -1),
        };
        rows.push(BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(&column.name)),
            ("clustering_order", text(order)),
            (
                "column_name_bytes",
                CqlValue::Blob(column.name.as_bytes().to_vec()),
            ),
            ("kind", text(kind)),
            ("position", CqlValue::Int(position)),
            ("type", text(&type_text(&column.data_type))),
        ]));
    }
    rows
}

/// A type as `system_schema` has it: a tuple says that it is frozen.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Tuple(_) => format!("frozen<{data_type}>"),
        other => other.to_string(),
    }
}

fn take(next: &mut i32) -> i32 {
    *next += 1;
    *next - 1
}

fn index_rows(table: &schema::Table) -> Vec<SystemRow> {
    let row = |index: &schema::Index| {
        let targets: Vec<_> = index.targets.iter().map(target).collect();
        let mut options = index.options.clone();
        options.insert("target".to_owned(), targets.join(", "));
        let class = match &index.class {
            IndexClass::Legacy => None,
            IndexClass::Sai => Some("StorageAttachedIndex"),
            IndexClass::Sasi => Some("org.apache.cassandra.index.sasi.SASIIndex"),
            IndexClass::Custom(class) => Some(class.as_str()),
        };
        options.extend(class.map(|class| ("class_name".to_owned(), class.to_owned())));
        BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("index_name", text(&index.name)),
            (
                "kind",
                text(if class.is_some() { "CUSTOM" } else { "COMPOSITES" }),
            ),
            ("options", map(&options)),
        ])
    };
    table.indexes.values().map(row).collect()
}

fn target(target: &schema::IndexTarget) -> String {
    use schema::IndexTargetKind as Kind;
    let column = &target.column;
    match target.kind {
        Kind::Simple => column.clone(),
        Kind::Values => format!("values({column})"),
        Kind::Keys => format!("keys({column})"),
        Kind::Entries => format!("entries({column})"),
        Kind::Full => format!("full({column})"),
    }
}

fn type_row(keyspace: &Keyspace, user_type: &schema::UserType) -> SystemRow {
    let names = user_type.fields.iter().map(|(name, _)| text(name));
    let types = user_type
        .fields
        .iter()
        .map(|(_, data_type)| text(&data_type.to_string()));
    BTreeMap::from([
        ("keyspace_name", text(&keyspace.name)),
        ("type_name", text(&user_type.name)),
        ("field_names", CqlValue::List(names.collect())),
        ("field_types", CqlValue::List(types.collect())),
    ])
}

//! The schema as it shows in the answers to what others ask: drivers read `system_schema` when they connect.
//!
//! Used where nobody asks by themselves. Rows are kept by their keys, and the schema is put together anew
//! when they change. What is known otherwise (from its definition on the wire) and is in none of the rows
//! stays.

use std::collections::BTreeMap;

use bytes::Bytes;
use cqlens_proto::message::Rows as ResultRows;

use super::{memory_share::MemoryShare, record::Record, system_schema};
use cqlens_cql::schema::{Schema, rows::Rows};

/// The tables of `system_schema` that are looked at, with their key columns.
const TABLES: &[(&str, &[&str])] = &[
    ("keyspaces", &["keyspace_name"]),
    ("tables", &["keyspace_name", "table_name"]),
    ("views", &["keyspace_name", "view_name"]),
    ("columns", &["keyspace_name", "table_name", "column_name"]),
    ("types", &["keyspace_name", "type_name"]),
    ("indexes", &["keyspace_name", "table_name", "index_name"]),
    ("functions", &["keyspace_name", "function_name"]),
    ("aggregates", &["keyspace_name", "aggregate_name"]),
];

/// Without these there is no table.
const NEEDED: [&str; 3] = ["keyspaces", "tables", "columns"];

/// What rows say that a column is.
const OF_COLUMNS: [&str; 3] = ["kind", "position", "type"];

/// Rows that were seen.
#[derive(Debug)]
pub(super) struct ObservedSchema {
    tables: BTreeMap<&'static str, BTreeMap<Vec<String>, Record>>,
    /// What they take up.
    bytes: MemoryShare,
    /// Whether they say anything that the last schema made of them does not have.
    has_news: bool,
}

impl ObservedSchema {
    /// Nothing seen yet; rows take up as much as `bytes` allows.
    pub(super) fn within(bytes: MemoryShare) -> Self {
        Self {
            tables: BTreeMap::new(),
            bytes,
            has_news: false,
        }
    }

    /// Forgets what rows have said of anything in a keyspace: a definition has made some of it wrong. What
    /// the schema in force has of the rest stays there.
    pub(super) fn forget_tables(&mut self) {
        self.tables.retain(|table, _| *table == "keyspaces");
        let rows = self.tables.values().flatten();
        self.bytes
            .set(rows.map(|(keys, record)| weight(keys, record)).sum());
    }

    /// Keeps rows, if they are of `system_schema`.
    pub(super) fn add(&mut self, rows: &ResultRows<'_>) {
        let Some(specs) = rows.metadata.columns else {
            return;
        };
        let Some((keyspace, name)) = specs.into_iter().next().map(|spec| (spec.keyspace, spec.table)) else {
            return;
        };
        let table = TABLES
            .iter()
            .find(|(table, _)| keyspace == "system_schema" && *table == name);
        let Some((table, keys)) = table else { return };
        let specs: Vec<_> = specs.into_iter().collect();
        for row in *rows {
            let Ok(row) = row else { break };
            let cells: Vec<_> = row.iter().map(|cell| cell.map(Bytes::copy_from_slice)).collect();
            let columns = specs.iter().map(|spec| (spec.name, &spec.column_type));
            let Ok(record) = Record::new(columns, &cells) else {
                break;
            };
            self.keep(table, keys, record);
        }
    }

    /// Whether anything new was seen since a schema was made of it.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    fn keep(&mut self, table: &'static str, keys: &[&str], record: Record) {
        let keys: Option<Vec<_>> = keys.iter().map(|key| record.optional_text(key)).collect();
        let is_whole = table != "columns" || OF_COLUMNS.iter().all(|name| record.has(name));
        let Some(keys) = keys.filter(|_| is_whole) else {
            return;
        };
        let known = self.tables.entry(table).or_default();
        if known.get(&keys).is_some_and(|known| known.says(&record)) {
            return;
        }
        let bytes = weight(&keys, &record);
        if !self.bytes.has_room_for(bytes) {
            self.bytes.count_evicted();
            return;
        }
        self.bytes.take(bytes);
        if let Some(before) = known.insert(keys.clone(), record) {
            self.bytes.give_back(weight(&keys, &before));
        }
        self.has_news = true;
    }

    /// The schema that the rows describe, with what of `before` they do not mention; none while too little
    /// was seen.
    pub(super) fn schema(&mut self, before: &Schema) -> Option<Schema> {
        if NEEDED.iter().any(|table| !self.tables.contains_key(table)) {
            return None;
        }
        self.has_news = false;
        let rows = Rows {
            keyspaces: self.read("keyspaces", |row| system_schema::keyspace(row, &[])),
            tables: self.read("tables", system_schema::table),
            views: self.read("views", system_schema::view),
            columns: self.read("columns", system_schema::column),
            types: self.read("types", system_schema::user_type),
            indexes: self.read("indexes", system_schema::index),
            functions: self.read("functions", |row| {
                (row.text("keyspace_name"), row.text("function_name"))
            }),
            aggregates: self.read("aggregates", |row| {
                (row.text("keyspace_name"), row.text("aggregate_name"))
            }),
        };
        let (mut schema, errors) = Schema::from_rows(rows);
        for error in errors {
            tracing::debug!(%error, "a part of the schema that was seen is not understood");
        }
        for keyspace in schema.keyspaces.values_mut() {
            // Drivers ask for tables and columns apart: those of this one are still to come.
            keyspace
                .tables
                .retain(|_, table| !table.partition_key().is_empty());
        }
        for (name, keyspace) in &before.keyspaces {
            let known = schema
                .keyspaces
                .entry(name.clone())
                .or_insert_with(|| keyspace.clone());
            for (name, table) in &keyspace.tables {
                known.tables.entry(name.clone()).or_insert_with(|| table.clone());
            }
            for (name, user_type) in &keyspace.types {
                known
                    .types
                    .entry(name.clone())
                    .or_insert_with(|| user_type.clone());
            }
            known.functions.extend(keyspace.functions.iter().cloned());
            known.aggregates.extend(keyspace.aggregates.iter().cloned());
        }
        Some(schema)
    }

    fn read<T>(&self, table: &str, row: impl Fn(&Record) -> T) -> Vec<T> {
        let rows = self.tables.get(table).into_iter().flat_map(BTreeMap::values);
        rows.map(row).collect()
    }
}

/// What a row takes up, about.
fn weight(keys: &[String], record: &Record) -> usize {
    keys.iter().map(|key| 48 + key.len()).sum::<usize>() + record.weight()
}

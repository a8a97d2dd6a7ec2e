//! Rows of `system_schema` to schema.
//!
//! Each type here is one row of the table that it is named after, with the columns that matter, in the types
//! that those columns have. Who reads them (and in how many pages) is the caller's business. Rows of a
//! table that has no keyspace row, or of a column that has no table row, are skipped: they were read while
//! the schema changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::syntax::ast::{Body, IndexTargetKind};
use crate::syntax::{self, Span};

use super::data_type::DataType;
use super::error::{SchemaError, SchemaErrorKind};
use super::is_virtual;
use super::model::{
    Column, ColumnKind, Index, IndexClass, IndexTarget, Keyspace, OptionValue, Order, Schema, Table,
    UserType, View,
};

/// Everything that is read of `system_schema`.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// `system_schema.keyspaces`.
    pub keyspaces: Vec<KeyspaceRow>,
    /// `system_schema.tables`.
    pub tables: Vec<TableRow>,
    /// `system_schema.views`.
    pub views: Vec<ViewRow>,
    /// `system_schema.columns`, of tables and views.
    pub columns: Vec<ColumnRow>,
    /// `system_schema.types`.
    pub types: Vec<TypeRow>,
    /// `system_schema.indexes`.
    pub indexes: Vec<IndexRow>,
    /// `system_schema.functions`: keyspace and function name.
    pub functions: Vec<(String, String)>,
    /// `system_schema.aggregates`: keyspace and aggregate name.
    pub aggregates: Vec<(String, String)>,
}

/// A row of `system_schema.keyspaces`.
#[derive(Debug, Clone)]
pub struct KeyspaceRow {
    /// `keyspace_name`
    pub name: String,
    /// `durable_writes`
    pub durable_writes: bool,
    /// `replication`; the class with its full Java name.
    pub replication: BTreeMap<String, String>,
    /// Whether `system_schema.scylla_keyspaces` has `initial_tablets` for it.
    pub tablets: bool,
}

/// A row of `system_schema.tables`.
#[derive(Debug, Clone, Default)]
pub struct TableRow {
    /// `keyspace_name`
    pub keyspace: String,
    /// `table_name`
    pub name: String,
    /// `flags`: `compound`, `dense`, `super`, `counter`.
    pub flags: BTreeSet<String>,
    /// All further columns that are properties of `WITH`: `comment`, `gc_grace_seconds`, `compaction`, ...
    pub options: BTreeMap<String, OptionValue>,
}

/// A row of `system_schema.views`.
#[derive(Debug, Clone, Default)]
pub struct ViewRow {
    /// `keyspace_name`
    pub keyspace: String,
    /// `view_name`
    pub name: String,
    /// `base_table_name`
    pub base: String,
    /// `include_all_columns`
    pub include_all_columns: bool,
    /// `where_clause`
    pub where_clause: String,
    /// All further columns that are properties of `WITH`.
    pub options: BTreeMap<String, OptionValue>,
}

/// A row of `system_schema.columns`.
#[derive(Debug, Clone)]
pub struct ColumnRow {
    /// `keyspace_name`
    pub keyspace: String,
    /// `table_name`: a table or a view.
    pub table: String,
    /// `column_name`
    pub name: String,
    /// `clustering_order`: `asc`, `desc` or `none`.
    pub clustering_order: String,
    /// `kind`: `partition_key`, `clustering`, `static` or `regular`.
    pub kind: String,
    /// `position` among the columns of its kind; -1 for static and regular ones.
    pub position: i32,
    /// `type` as CQL: `frozen<map<text, int>>`.
    pub data_type: String,
}

/// A row of `system_schema.types`.
#[derive(Debug, Clone)]
pub struct TypeRow {
    /// `keyspace_name`
    pub keyspace: String,
    /// `type_name`
    pub name: String,
    /// `field_names`
    pub field_names: Vec<String>,
    /// `field_types` as CQL.
    pub field_types: Vec<String>,
}

/// A row of `system_schema.indexes`.
#[derive(Debug, Clone)]
pub struct IndexRow {
    /// `keyspace_name`
    pub keyspace: String,
    /// `table_name`
    pub table: String,
    /// `index_name`
    pub name: String,
    /// `kind`: `KEYS`, `COMPOSITES` or `CUSTOM`.
    pub kind: String,
    /// `options`: `target`, `class_name` and those of the index.
    pub options: BTreeMap<String, String>,
}

impl Schema {
    /// The schema that the rows describe, and what of them was not understood.
    pub fn from_rows(rows: Rows) -> (Self, Vec<SchemaError>) {
        let mut schema = Self::default();
        let mut errors = Vec::new();
        for row in rows.keyspaces {
            let keyspace = Keyspace {
                name: row.name.clone(),
                replication: row.replication,
                durable_writes: row.durable_writes,
                tablets: row.tablets,
                ..Keyspace::default()
            };
            schema.keyspaces.insert(row.name, keyspace);
        }
        for row in rows.types {
            schema.add_type(row, &mut errors);
        }
        let mut static_compact = BTreeSet::new();
        for row in rows.tables {
            let has = |flag: &str| row.flags.contains(flag);
            // The server's virtual tables have no flags at all.
            let compact = !is_virtual(&row.keyspace) && (!has("compound") || has("dense") || has("super"));
            if compact && !has("compound") && !has("dense") && !has("super") {
                static_compact.insert((row.keyspace.clone(), row.name.clone()));
            }
            schema.add_table(row.keyspace, row.name, row.options, compact, None);
        }
        for row in rows.views {
            let view = View {
                base: row.base,
                include_all_columns: row.include_all_columns,
                where_clause: row.where_clause,
            };
            schema.add_table(row.keyspace, row.name, row.options, false, Some(view));
        }
        schema.add_columns(rows.columns, &static_compact, &mut errors);
        for row in rows.indexes {
            schema.add_index(row);
        }
        for (keyspace, name) in rows.functions {
            schema.with_keyspace(&keyspace, |keyspace| {
                keyspace.functions.insert(name);
            });
        }
        for (keyspace, name) in rows.aggregates {
            schema.with_keyspace(&keyspace, |keyspace| {
                keyspace.aggregates.insert(name);
            });
        }
        (schema, errors)
    }

    fn with_keyspace(&mut self, name: &str, change: impl FnOnce(&mut Keyspace)) {
        if let Some(keyspace) = self.keyspaces.get_mut(name) {
            change(keyspace);
        }
    }

    fn add_type(&mut self, row: TypeRow, errors: &mut Vec<SchemaError>) {
        let fields = row.field_names.into_iter().zip(row.field_types);
        let fields = fields
            .map(|(field, data_type)| (field, understand(&data_type, errors)))
            .collect();
        let name = row.name.clone();
        let user_type = UserType {
            name: row.name,
            fields,
        };
        self.with_keyspace(&row.keyspace, |keyspace| {
            drop(keyspace.types.insert(name, user_type))
        });
    }

    fn add_table(
        &mut self,
        keyspace: String,
        name: String,
        options: BTreeMap<String, OptionValue>,
        compact_storage: bool,
        view: Option<View>,
    ) {
        let table = Table {
            keyspace: keyspace.clone(),
            name: name.clone(),
            columns: Vec::new(),
            dropped: Vec::new(),
            indexes: BTreeMap::new(),
            view,
            compact_storage,
            options,
        };
        self.with_keyspace(&keyspace, |keyspace| drop(keyspace.tables.insert(name, table)));
    }

    /// `static_compact` are the tables whose columns CQL shows as regular and Cassandra keeps as static,
    /// beside a clustering and a regular column that it does not show.
    fn add_columns(
        &mut self,
        mut rows: Vec<ColumnRow>,
        static_compact: &BTreeSet<(String, String)>,
        errors: &mut Vec<SchemaError>,
    ) {
        // Within a table, key columns come in the order of their position.
        rows.sort_by_key(|row| row.position);
        for row in rows {
            let in_static_compact = static_compact.contains(&(row.keyspace.clone(), row.table.clone()));
            let is_hidden = in_static_compact && matches!(row.kind.as_str(), "clustering" | "regular");
            // `empty` is the type of a value that is not there.
            if is_hidden || row.data_type == "empty" {
                continue;
            }
            let descending = row.clustering_order.eq_ignore_ascii_case("desc");
            let order = if descending {
                Order::Descending
            } else {
                Order::Ascending
            };
            let kind = match row.kind.as_str() {
                "partition_key" => ColumnKind::PartitionKey,
                "clustering" => ColumnKind::Clustering(order),
                "static" if !in_static_compact => ColumnKind::Static,
                _ => ColumnKind::Regular,
            };
            let column = Column {
                constraints: Vec::new(),
                name: row.name,
                kind,
                data_type: understand(&row.data_type, errors),
            };
            self.with_keyspace(&row.keyspace, |keyspace| {
                if let Some(table) = keyspace.tables.get_mut(&row.table) {
                    table.columns.push(column);
                }
            });
        }
        for table in self
            .keyspaces
            .values_mut()
            .flat_map(|keyspace| keyspace.tables.values_mut())
        {
            table.sort_columns();
        }
    }

    fn add_index(&mut self, row: IndexRow) {
        let mut options = row.options;
        let target = options.remove("target").unwrap_or_default();
        let class = options.remove("class_name");
        let class = match class {
            Some(class) if row.kind == "CUSTOM" => IndexClass::of(&class),
            _ => IndexClass::Legacy,
        };
        let targets = index_targets(&target);
        let index = Index {
            name: row.name.clone(),
            targets,
            class,
            options,
        };
        self.with_keyspace(&row.keyspace, |keyspace| {
            if let Some(table) = keyspace.tables.get_mut(&row.table) {
                table.indexes.insert(row.name, index);
            }
        });
    }
}

/// Targets as `IndexMetadata.fromIndexTargets` writes them, with commas between: a custom index may have
/// several, or none, such as that on `system.paxos`.
fn index_targets(text: &str) -> Vec<IndexTarget> {
    let mut in_quotes = false;
    let parts = text.split(|letter| {
        in_quotes ^= letter == '"';
        letter == ',' && !in_quotes
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.map(index_target).collect()
}

/// Reads `keys(column)`, `"Column"` or `column`: `TargetParser.parse`.
fn index_target(text: &str) -> IndexTarget {
    let kinds = [
        ("keys", IndexTargetKind::Keys),
        ("values", IndexTargetKind::Values),
        ("entries", IndexTargetKind::Entries),
        ("full", IndexTargetKind::Full),
    ];
    for (word, kind) in kinds {
        let inner = text.strip_prefix(word).and_then(|rest| rest.strip_prefix('('));
        if let Some(column) = inner.and_then(|rest| rest.strip_suffix(')')) {
            return IndexTarget {
                column: unquote(column),
                kind,
            };
        }
    }
    IndexTarget {
        column: unquote(text),
        kind: IndexTargetKind::Simple,
    }
}

fn unquote(name: &str) -> String {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

fn understand(text: &str, errors: &mut Vec<SchemaError>) -> DataType {
    DataType::from_cql(text).unwrap_or_else(|| {
        let kind = SchemaErrorKind::TypeNotUnderstood(text.to_owned());
        errors.push(SchemaError {
            kind,
            span: Span::default(),
        });
        DataType::Custom(text.to_owned())
    })
}

impl DataType {
    /// Reads a type as `system_schema` writes it: `frozen<map<text, int>>`.
    pub fn from_cql(text: &str) -> Option<Self> {
        // A type alone is no statement; the shortest one with a type in it is.
        let definition = format!("CREATE TYPE t (f {text})");
        match syntax::parse(&definition).ok()?.body {
            Body::CreateType(create) => match create.fields.as_slice() {
                [(_, type_name)] => Some(Self::of(type_name)),
                _ => None,
            },
            _ => None,
        }
    }
}

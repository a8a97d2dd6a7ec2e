//! `CREATE` and `ALTER TABLE`.

use std::collections::BTreeMap;

use super::check::{check_all, check_constraints, constraints_of};
use super::found::{Result, absent, at, column_of, exists, missing};
use super::key::KeyColumns;
use super::option::set_table_options;
use crate::schema::constraint::Constraint;
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Column, ColumnKind, Keyspace, Schema, Table};
use crate::syntax::ast::{AlterTable, ColumnDefinition, CreateTable, Name, TableChange};

impl Schema {
    pub(super) fn create_table(&mut self, create: &CreateTable<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.table, current)?;
        let name = create.table.name.as_str();
        if keyspace.tables.contains_key(name) {
            return exists(create.if_not_exists, &create.table.name);
        }
        if create.partition_key.is_empty() {
            return Err(at(create.table.span(), SchemaErrorKind::NoPrimaryKey));
        }
        let types = create
            .columns
            .iter()
            .map(|column| (column.name.as_str(), DataType::of(&column.type_name)));
        let types: BTreeMap<&str, DataType> = types.collect();
        let key = KeyColumns {
            partition_key: &create.partition_key,
            clustering: &create.clustering,
            order: &create.clustering_order,
        };
        let mut columns = key.columns(&types)?;
        for column in &mut columns {
            let definition = create
                .columns
                .iter()
                .find(|other| other.name == *column.name.as_str());
            column.constraints = definition.map(constraints_of).unwrap_or_default();
        }
        for column in &create.columns {
            if !key.contains(&column.name) {
                columns.push(other_column(column));
            }
        }
        let mut table = Table {
            keyspace: keyspace.name.clone(),
            name: name.to_owned(),
            columns,
            dropped: Vec::new(),
            indexes: BTreeMap::new(),
            view: None,
            compact_storage: create.compact_storage,
            options: BTreeMap::new(),
        };
        table.sort_columns();
        set_table_options(&mut table, &create.options);
        for column in &create.columns {
            check_constraints(&table, column)?;
        }
        if table.is_counter() && table.is_transactional() {
            return Err(missing(
                &create.table.name,
                SchemaErrorKind::CountersInTransactions,
            ));
        }
        keyspace.tables.insert(name.to_owned(), table);
        Ok(())
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.table, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let name = alter.table.name.as_str();
        let Some(table) = keyspace.tables.get_mut(name) else {
            return absent(alter.if_exists, &alter.table.name, SchemaErrorKind::TableUnknown);
        };
        match &alter.change {
            TableChange::AlterType { column, type_name } => {
                column_of(table, column)?.data_type = DataType::of(type_name);
            }
            TableChange::AlterMask { .. } => {}
            TableChange::AlterChecks {
                if_exists,
                column,
                checks,
            } => {
                if table.column(column.as_str()).is_none() {
                    return absent(*if_exists, column, SchemaErrorKind::ColumnUnknown);
                }
                check_all(table, column, checks, false)?;
                column_of(table, column)?.constraints = checks.iter().map(Constraint::of).collect();
            }
            TableChange::Add {
                if_not_exists,
                columns,
            } => {
                return add_columns(keyspace, name, columns, *if_not_exists);
            }
            TableChange::Drop {
                if_exists, columns, ..
            } => return drop_columns(table, columns, *if_exists),
            TableChange::Rename { if_exists, renames } => {
                return rename_columns(keyspace, name, renames, *if_exists);
            }
            TableChange::DropCompactStorage => table.compact_storage = false,
            TableChange::With(options) => set_table_options(table, options),
        }
        Ok(())
    }
}

fn other_column(column: &ColumnDefinition<'_>) -> Column {
    Column {
        name: column.name.as_str().to_owned(),
        kind: if column.is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        },
        data_type: DataType::of(&column.type_name),
        constraints: constraints_of(column),
    }
}

/// Adds columns to a table and to its views that were made with `SELECT *`.
fn add_columns(
    keyspace: &mut Keyspace,
    table: &str,
    columns: &[ColumnDefinition<'_>],
    if_not_exists: bool,
) -> Result<()> {
    let is_transactional = keyspace.tables.get(table).is_some_and(Table::is_transactional);
    for column in columns {
        let added = other_column(column);
        if is_transactional && added.data_type.is_counter() {
            return Err(missing(&column.name, SchemaErrorKind::CountersInTransactions));
        }
        for other in keyspace.tables.values_mut() {
            let is_view = other
                .view
                .as_ref()
                .is_some_and(|view| view.base == table && view.include_all_columns);
            let is_target = other.name == table || (is_view && added.kind == ColumnKind::Regular);
            if !is_target {
                continue;
            }
            let is_new = other.add_column(&added);
            if !is_new && other.name == table && !if_not_exists {
                return exists(false, &column.name);
            }
        }
    }
    Ok(())
}

/// As many dropped columns of a table are remembered: who keeps adding and dropping does not fill the memory.
const MAX_DROPPED: usize = 1_000;

fn drop_columns(table: &mut Table, columns: &[Name<'_>], if_exists: bool) -> Result<()> {
    for name in columns {
        if table.column(name.as_str()).is_none() && !if_exists {
            return Err(missing(name, SchemaErrorKind::ColumnUnknown));
        }
        let is_dropped = |column: &Column| column.name == name.as_str() && !column.is_primary_key();
        let Some(place) = table.columns.iter().position(is_dropped) else {
            continue;
        };
        let dropped = table.columns.remove(place);
        table.dropped.retain(|column| column.name != dropped.name);
        if table.dropped.len() < MAX_DROPPED {
            table.dropped.push(dropped);
        }
    }
    Ok(())
}

/// Renames columns of a table, of its views and in its indexes.
fn rename_columns(
    keyspace: &mut Keyspace,
    table: &str,
    renames: &[(Name<'_>, Name<'_>)],
    if_exists: bool,
) -> Result<()> {
    for (from, to) in renames {
        if let Some(own) = keyspace.tables.get(table)
            && own.column(from.as_str()).is_none()
        {
            absent(if_exists, from, SchemaErrorKind::ColumnUnknown)?;
        }
        for other in keyspace.tables.values_mut() {
            if other.name != table && other.base() != Some(table) {
                continue;
            }
            let columns = other.columns.iter_mut().map(|column| &mut column.name);
            let targets = other.indexes.values_mut().flat_map(|index| &mut index.targets);
            for name in columns.chain(targets.map(|target| &mut target.column)) {
                if name == from.as_str() {
                    to.as_str().clone_into(name);
                }
            }
            other.sort_columns();
        }
    }
    Ok(())
}

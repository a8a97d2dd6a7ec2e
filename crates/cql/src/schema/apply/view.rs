//! `CREATE` and `ALTER MATERIALIZED VIEW`.

use std::collections::BTreeMap;

use super::found::{Result, absent, exists, missing};
use super::key::KeyColumns;
use super::option::set_table_options;
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Column, ColumnKind, Schema, Table, View};
use crate::syntax::ast::{AlterView, CreateView, Selection, Term, Where};

impl Schema {
    pub(super) fn create_view(
        &mut self,
        create: &CreateView<'_>,
        text: &str,
        current: Option<&str>,
    ) -> Result<()> {
        let keyspace = self.keyspace_of(&create.view, current)?;
        let name = create.view.name.as_str();
        if keyspace.tables.contains_key(name) {
            return exists(create.if_not_exists, &create.view.name);
        }
        let Some(base) = keyspace.tables.get(create.base.name.as_str()) else {
            return Err(missing(&create.base.name, SchemaErrorKind::TableUnknown));
        };
        let types = base
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.data_type.clone()));
        let types: BTreeMap<&str, DataType> = types.collect();
        let key = KeyColumns {
            partition_key: &create.partition_key,
            clustering: &create.clustering,
            order: &create.clustering_order,
        };
        let mut columns = key.columns(&types)?;
        for column in &base.columns {
            let in_key = columns.iter().any(|other| other.name == column.name);
            if !in_key && column.kind != ColumnKind::Static && selects(&create.selection, &column.name) {
                columns.push(Column {
                    constraints: Vec::new(),
                    kind: ColumnKind::Regular,
                    ..column.clone()
                });
            }
        }
        let view = View {
            base: base.name.clone(),
            include_all_columns: create.selection == Selection::All,
            where_clause: where_text(&create.where_clause, text),
        };
        let mut table = Table {
            keyspace: keyspace.name.clone(),
            name: name.to_owned(),
            columns,
            dropped: Vec::new(),
            indexes: BTreeMap::new(),
            view: Some(view),
            compact_storage: false,
            options: BTreeMap::new(),
        };
        table.sort_columns();
        set_table_options(&mut table, &create.options);
        keyspace.tables.insert(name.to_owned(), table);
        Ok(())
    }

    pub(super) fn alter_view(&mut self, alter: &AlterView<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.view, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let Some(view) = keyspace.tables.get_mut(alter.view.name.as_str()) else {
            return absent(alter.if_exists, &alter.view.name, SchemaErrorKind::TableUnknown);
        };
        set_table_options(view, &alter.options);
        Ok(())
    }
}

fn selects(selection: &Selection<'_>, column: &str) -> bool {
    match selection {
        Selection::All => true,
        Selection::Selectors(selectors) => selectors
            .iter()
            .any(|selector| matches!(&selector.term, Term::Column(name) if name == column)),
    }
}

fn where_text(clause: &Where<'_>, text: &str) -> String {
    let relations = clause.relations.iter().map(|relation| relation.span.of(text));
    relations.collect::<Vec<_>>().join(" AND ")
}

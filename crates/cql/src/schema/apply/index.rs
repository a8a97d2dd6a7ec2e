//! `CREATE INDEX`, and what indexes are called.

use super::found::{Result, exists, missing};
use super::option::option_value;
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Index, IndexClass, IndexTarget, Keyspace, OptionValue, Schema};
use crate::syntax::ast::{CreateIndex, IndexTargetKind};

impl Schema {
    pub(super) fn create_index(&mut self, create: &CreateIndex<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.table, current)?;
        let Some(table) = keyspace.tables.get(create.table.name.as_str()) else {
            return Err(missing(&create.table.name, SchemaErrorKind::TableUnknown));
        };
        let mut targets = Vec::new();
        for target in &create.targets {
            let Some(column) = table.column(target.column.as_str()) else {
                return Err(missing(&target.column, SchemaErrorKind::ColumnUnknown));
            };
            let kind = index_target_kind(target.kind, &column.data_type);
            targets.push(IndexTarget {
                column: column.name.clone(),
                kind,
            });
        }
        let name = match &create.name {
            Some(name) if keyspace.has_index(name.as_str()) => return exists(create.if_not_exists, name),
            Some(name) => name.as_str().to_owned(),
            None => keyspace.free_index_name(&table.name, &targets),
        };
        let class = create
            .using
            .map_or(IndexClass::Legacy, |class| IndexClass::of(&class.decoded()));
        let options = create
            .options
            .iter()
            .find(|property| property.name.as_str() == "options");
        let options = options.and_then(|property| match option_value(&property.value) {
            OptionValue::Map(map) => Some(map),
            _ => None,
        });
        let index = Index {
            name: name.clone(),
            targets,
            class,
            options: options.unwrap_or_default(),
        };
        if let Some(table) = keyspace.tables.get_mut(create.table.name.as_str()) {
            table.indexes.insert(name, index);
        }
        Ok(())
    }
}

impl Keyspace {
    fn has_index(&self, name: &str) -> bool {
        self.tables.values().any(|table| table.indexes.contains_key(name))
    }

    pub(super) fn drop_index(&mut self, name: &str) -> bool {
        self.tables
            .values_mut()
            .any(|table| table.indexes.remove(name).is_some())
    }

    /// The name that Cassandra gives an index without one: `IndexMetadata.generateDefaultIndexName`.
    pub(super) fn free_index_name(&self, table: &str, targets: &[IndexTarget]) -> String {
        let column = targets.first().map(|target| format!("_{}", target.column));
        let mut base = format!("{table}{}_idx", column.unwrap_or_default());
        base.retain(|character| character.is_ascii_alphanumeric() || character == '_');
        let numbered = (1..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        names.find(|name| !self.has_index(name)).unwrap_or(base)
    }
}

/// What is indexed where the definition does not say it, as `system_schema.indexes` would.
fn index_target_kind(kind: IndexTargetKind, data_type: &DataType) -> IndexTargetKind {
    let multi_cell_collection = data_type.is_collection() && data_type.is_multi_cell();
    match kind {
        IndexTargetKind::Simple if multi_cell_collection => IndexTargetKind::Values,
        IndexTargetKind::Values if !data_type.is_collection() => IndexTargetKind::Simple,
        other => other,
    }
}

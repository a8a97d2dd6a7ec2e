//! `CREATE TABLE … LIKE` and `COMMENT ON` (Cassandra 6.0).

use std::collections::BTreeMap;

use super::found::{Result, at, exists, missing};
use super::option::set_table_options;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{OptionValue, Schema, Table};
use crate::schema::system::is_system;
use crate::syntax::ast::{AnnotatedObject, Annotation, AnnotationKind, CopyTable, QualifiedName};

impl Schema {
    /// `CopyTableStatement.apply`.
    pub(super) fn copy_table(&mut self, copy: &CopyTable<'_>, current: Option<&str>) -> Result<()> {
        let source_keyspace = self.keyspace_of(&copy.source, current)?;
        let Some(source) = source_keyspace.tables.get(copy.source.name.as_str()) else {
            return Err(missing(&copy.source.name, SchemaErrorKind::TableUnknown));
        };
        if source.view.is_some() {
            return Err(missing(&copy.source.name, SchemaErrorKind::IsView));
        }
        let mut table = source.clone();
        let types = source_keyspace.types.clone();
        let target = self.keyspace_of(&copy.table, current)?;
        let name = copy.table.name.as_str();
        if target.tables.contains_key(name) {
            return exists(copy.if_not_exists, &copy.table.name);
        }
        if target.name != table.keyspace {
            let mut fits = true;
            for column in &table.columns {
                column.data_type.for_each_name(&mut |name| {
                    fits &= target
                        .types
                        .get(name)
                        .is_some_and(|own| Some(own) == types.get(name));
                });
            }
            if !fits {
                return Err(missing(&copy.source.name, SchemaErrorKind::TypesDiffer));
            }
        }
        let indexes = std::mem::take(&mut table.indexes);
        table.dropped.clear();
        table.keyspace.clone_from(&target.name);
        name.clone_into(&mut table.name);
        if !copy.comments {
            table.options.remove("comment");
        }
        set_table_options(&mut table, &copy.options);
        if copy.indexes {
            table.indexes = indexes
                .into_values()
                .map(|mut index| {
                    index.name = target.free_index_name(name, &index.targets);
                    (index.name.clone(), index)
                })
                .collect::<BTreeMap<_, _>>();
        }
        target.tables.insert(name.to_owned(), table);
        Ok(())
    }

    /// Takes over the comment of a table; of what else is said only that the object is there.
    pub(super) fn annotate(&mut self, annotation: &Annotation<'_>, current: Option<&str>) -> Result<()> {
        match &annotation.object {
            AnnotatedObject::Keyspace(name) => match self.keyspaces.contains_key(name.as_str()) {
                true => Ok(()),
                false => Err(missing(name, SchemaErrorKind::KeyspaceUnknown)),
            },
            AnnotatedObject::Table(name) => {
                let table = self.annotated_table(name, current)?;
                match (annotation.kind, &annotation.text) {
                    (AnnotationKind::SecurityLabel, _) => {}
                    (AnnotationKind::Comment, Some(text)) => {
                        let text = OptionValue::Text(text.decoded().into_owned());
                        table.options.insert("comment".to_owned(), text);
                    }
                    (AnnotationKind::Comment, None) => drop(table.options.remove("comment")),
                }
                Ok(())
            }
            AnnotatedObject::Column(name, column) => {
                let table = self.annotated_table(name, current)?;
                match table.column(column.as_str()) {
                    Some(_) => Ok(()),
                    None => Err(missing(column, SchemaErrorKind::ColumnUnknown)),
                }
            }
            AnnotatedObject::Type(name) | AnnotatedObject::Field(name, _) => {
                let keyspace = self.keyspace_of(name, current)?;
                let Some(user_type) = keyspace.types.get(name.name.as_str()) else {
                    return Err(missing(&name.name, SchemaErrorKind::TypeUnknown));
                };
                match &annotation.object {
                    AnnotatedObject::Field(_, field)
                        if !user_type.fields.iter().any(|(own, _)| own == field.as_str()) =>
                    {
                        Err(missing(field, SchemaErrorKind::ColumnUnknown))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn annotated_table(&mut self, name: &QualifiedName<'_>, current: Option<&str>) -> Result<&mut Table> {
        if name.keyspace_or(current).is_some_and(is_system) {
            return Err(at(
                name.span(),
                SchemaErrorKind::OfTheServer(name.name.to_string()),
            ));
        }
        let keyspace = self.keyspace_of(name, current)?;
        let table = keyspace.tables.get_mut(name.name.as_str());
        match table {
            None => Err(missing(&name.name, SchemaErrorKind::TableUnknown)),
            Some(table) if table.view.is_some() => Err(missing(&name.name, SchemaErrorKind::IsView)),
            Some(table) => Ok(table),
        }
    }
}

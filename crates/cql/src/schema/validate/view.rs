//! `CREATE` and `ALTER MATERIALIZED VIEW` (`CreateViewStatement`, `AlterViewStatement`).

use super::table::check_name;
use super::type_name::check_key;
use super::{Validated, properties, refused, repeated};
use crate::ServerVersion;
use crate::schema::error::SchemaError;
use crate::schema::model::{Column, ColumnKind, Keyspace, Schema, Table};
use crate::syntax::ast::{
    AlterView, CreateView, Name, Property, Relation, RelationOperator, Selection, Selector, Subject, Term,
};

impl Schema {
    pub(super) fn validate_new_view(
        &self,
        create: &CreateView<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        check_name(&create.view.name)?;
        let name = create.view.name.as_str();
        let keyspaces = [&create.view, &create.base].map(|name| name.keyspace_or(current));
        if keyspaces[0] != keyspaces[1] {
            return Err(refused(
                create.base.span(),
                "Cannot create a materialized view on a table in a different keyspace",
            ));
        }
        let Some(keyspace) = self.known_keyspace(&create.view, current) else {
            return Ok(());
        };
        if create.if_not_exists && keyspace.tables.contains_key(name) {
            return Ok(());
        }
        let Some(base) = keyspace.tables.get(create.base.name.as_str()) else {
            return Ok(());
        };
        let refusal = match base {
            base if base.view.is_some() => format!("Base table '{}' doesn't exist", base.name),
            base if base.is_counter() => "Materialized views are not supported on counter tables".to_owned(),
            _ => {
                let view = NewView {
                    create,
                    base,
                    keyspace,
                };
                view.check_selection()?;
                view.check_primary_key()?;
                view.check_where()?;
                view.check_order()?;
                return options(&create.options, version);
            }
        };
        Err(refused(create.base.name.span, refusal))
    }

    pub(super) fn validate_altered_view(
        &self,
        alter: &AlterView<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        match self.known_table(&alter.view, current) {
            Some((_, table)) if table.view.is_none() && alter.if_exists => Ok(()),
            Some((_, table)) if table.view.is_none() => Err(refused(
                alter.view.name.span,
                format!(
                    "Materialized view '{}.{}' doesn't exist",
                    table.keyspace, table.name
                ),
            )),
            _ => check_change(&alter.options, version),
        }
    }
}

fn check_change(changed: &[Property<'_>], version: ServerVersion) -> Validated {
    options(changed, version)?;
    if let Some(id) = changed.iter().find(|option| option.name.as_str() == "id") {
        return Err(refused(id.name.span, "Cannot alter table id."));
    }
    match properties::number_of(changed, "gc_grace_seconds") {
        Some((place, 0.0)) => Err(refused(
            place,
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL undelivered updates. \
             Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed.",
        )),
        _ => Ok(()),
    }
}

/// Rows of views expire with those of their table.
fn options(options: &[Property<'_>], version: ServerVersion) -> Validated {
    properties::of_table(options, version)?;
    if let Some((place, seconds)) = properties::number_of(options, "default_time_to_live")
        && seconds > 0.0
    {
        return Err(refused(
            place,
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always expire at the \
             same time than the corresponding data in the parent table. default_time_to_live must be set to zero, see \
             CASSANDRA-12868 for more information",
        ));
    }
    Ok(())
}

struct NewView<'a, 'text> {
    create: &'a CreateView<'text>,
    base: &'a Table,
    keyspace: &'a Keyspace,
}

impl<'a, 'text> NewView<'a, 'text> {
    fn key(&self) -> impl Iterator<Item = &'a Name<'text>> + use<'a, 'text> {
        self.create.partition_key.iter().chain(&self.create.clustering)
    }

    /// Columns by their names, none of them static.
    fn check_selection(&self) -> Validated {
        let view = self.create.view.name.as_str();
        let no_static = |name: &str, place| {
            refused(
                place,
                format!("Cannot include static column '{name}' in materialized view '{view}'"),
            )
        };
        match &self.create.selection {
            Selection::All => {
                let mut columns = self.base.columns.iter();
                match columns.find(|column| column.kind == ColumnKind::Static) {
                    Some(column) => Err(no_static(&column.name, self.create.view.name.span)),
                    None => Ok(()),
                }
            }
            Selection::Selectors(selectors) => selectors.iter().try_for_each(|selector| {
                let name = self.selected(selector)?;
                match self.base.column(name.as_str()) {
                    None => Err(self.undefined(name)),
                    Some(column) if column.kind == ColumnKind::Static => {
                        Err(no_static(name.as_str(), name.span))
                    }
                    Some(_) => Ok(()),
                }
            }),
        }
    }

    fn undefined(&self, name: &Name<'_>) -> SchemaError {
        let Table {
            keyspace,
            name: table,
            ..
        } = self.base;
        refused(
            name.span,
            format!("Undefined column name {name} in table {keyspace}.{table}"),
        )
    }

    /// `CLUSTERING ORDER BY` names all clustering columns, in their order.
    fn check_order(&self) -> Validated {
        let CreateView {
            clustering,
            clustering_order: order,
            ..
        } = self.create;
        let names = order.iter().map(|(name, _)| name.as_str());
        match order.first() {
            Some((first, _)) if !names.eq(clustering.iter().map(Name::as_str)) => Err(refused(
                first.span,
                "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive",
            )),
            _ => Ok(()),
        }
    }

    fn selected<'s>(&self, selector: &'s Selector<'text>) -> Validated<&'s Name<'text>> {
        match (&selector.term, &selector.alias) {
            (Term::Column(name), None) => Ok(name),
            (_, Some(alias)) => Err(refused(
                alias.span,
                "Cannot use aliases when defining a materialized view",
            )),
            _ => Err(refused(
                self.create.view.name.span,
                "Can only select columns by name when defining a materialized view",
            )),
        }
    }

    /// All columns of the table's key, and one more at most.
    fn check_primary_key(&self) -> Validated {
        let view = self.create.view.name.as_str();
        if let Some(name) = repeated(self.key()) {
            return Err(refused(
                name.span,
                format!("Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"),
            ));
        }
        let is_selected = |name: &Name<'_>| match &self.create.selection {
            Selection::All => true,
            Selection::Selectors(selectors) => selectors
                .iter()
                .any(|selector| matches!(&selector.term, Term::Column(column) if column.text == name.text)),
        };
        let mut new = Vec::new();
        for name in self.key() {
            let Some(column) = self.base.column(name.as_str()).filter(|_| is_selected(name)) else {
                return Err(refused(
                    name.span,
                    format!(
                        "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
                    ),
                ));
            };
            check_key(name.as_str(), &column.data_type, name.span, self.keyspace)?;
            if !column.is_primary_key() {
                new.push(name);
            }
        }
        let is_missing = |column: &&Column| {
            column.is_primary_key() && !self.key().any(|name| *name == *column.name.as_str())
        };
        let missing: Vec<&str> = self
            .base
            .columns
            .iter()
            .filter(is_missing)
            .map(|column| column.name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(refused(
                self.create.view.name.span,
                format!(
                    "Cannot create Materialized View {view} without primary key columns from base {} ({})",
                    self.base.name,
                    missing.join(", ")
                ),
            ));
        }
        match new.as_slice() {
            [_, second, ..] => {
                let names: Vec<&str> = new.iter().map(|name| name.as_str()).collect();
                Err(refused(
                    second.span,
                    format!(
                        "Cannot include more than one non-primary key column in materialized view primary key (got {})",
                        names.join(", ")
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Every column of the key is restricted, the others only to be there.
    fn check_where(&self) -> Validated {
        let relations = &self.create.where_clause.relations;
        if let Some(relation) = relations
            .iter()
            .find(|relation| matches!(relation.subject, Subject::Token(_)))
        {
            return Err(refused(
                relation.span,
                "Cannot use token relation when defining a materialized view",
            ));
        }
        let mut columns = relations.iter().flat_map(|relation| relation.subject.columns());
        if let Some(name) = columns.find(|name| self.base.column(name.as_str()).is_none()) {
            return Err(self.undefined(name));
        }
        let is_of_key = |name: &Name<'_>| {
            self.base
                .column(name.as_str())
                .is_some_and(Column::is_primary_key)
        };
        let restricts_other = |relation: &&Relation<'_>| {
            let is_other = !relation.subject.columns().iter().all(is_of_key);
            relation.operator != RelationOperator::IsNotNull && is_other
        };
        if let Some(relation) = relations.iter().find(restricts_other) {
            let others = relation
                .subject
                .columns()
                .iter()
                .filter(|column| !is_of_key(column));
            let names: Vec<&str> = others.map(Name::as_str).collect();
            return Err(refused(
                relation.span,
                format!(
                    "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
                    names.join(", ")
                ),
            ));
        }
        let is_restricted = |name: &Name<'_>| {
            let mut columns = relations.iter().flat_map(|relation| relation.subject.columns());
            columns.any(|column| column.text == name.text)
        };
        match self.key().find(|name| !is_restricted(name)) {
            Some(name) => Err(refused(
                name.span,
                format!("Primary key column '{name}' is required to be filtered by 'IS NOT NULL'"),
            )),
            None => Ok(()),
        }
    }
}

//! Definitions to schema: what `CREATE`, `ALTER` and `DROP` change.

mod check;
mod copy;
mod definition;
mod found;
mod index;
mod key;
mod keyspace;
mod option;
mod table;
mod user_type;
mod view;

use super::error::{SchemaError, SchemaErrorKind, SchemaErrors};
use super::model::Schema;
use crate::syntax::ast::{Body, Drop, Dropped, Kind, Other, Statement};
use crate::syntax::{self, Span};
pub use definition::Definition;
use found::{Result, absent, at, not_a_definition};

impl Schema {
    /// Reads a script of definitions, such as `DESCRIBE SCHEMA` prints; `USE` is obeyed, other statements are
    /// skipped.
    ///
    /// # Errors
    ///
    /// The statements that are not CQL or do not fit what the statements before them have defined.
    pub fn from_cql(text: &str) -> std::result::Result<Self, SchemaErrors> {
        let (schema, errors) = Self::read_cql(text);
        if errors.is_empty() {
            Ok(schema)
        } else {
            Err(errors)
        }
    }

    /// As [`Schema::from_cql`], but keeps what could be read.
    pub fn read_cql(text: &str) -> (Self, SchemaErrors) {
        let mut schema = Self::default();
        let mut errors = SchemaErrors::default();
        let mut keyspace = None;
        for (_, statement) in syntax::statements(text) {
            let outcome = match statement {
                Err(error) => Err(at(error.span, SchemaErrorKind::Syntax(error.clone()))),
                Ok(Statement {
                    body: Body::Use(using),
                    ..
                }) => {
                    keyspace = Some(using.keyspace.as_str().to_owned());
                    Ok(())
                }
                Ok(statement) => schema.apply(&statement, keyspace.as_deref()),
            };
            match outcome {
                Err(SchemaError {
                    kind: SchemaErrorKind::NotADefinition(_),
                    ..
                })
                | Ok(()) => {}
                Err(error) => errors.add(error),
            }
        }
        (schema, errors)
    }

    /// Takes over one definition; names without a keyspace are `keyspace`'s.
    ///
    /// # Errors
    ///
    /// If the statement defines nothing, or does not fit the schema, which then stays as it was.
    pub fn apply(&mut self, statement: &Statement<'_>, keyspace: Option<&str>) -> Result<()> {
        match &statement.body {
            Body::CreateKeyspace(create) => self.create_keyspace(create),
            Body::AlterKeyspace(alter) => self.alter_keyspace(alter),
            Body::CreateTable(create) => self.create_table(create, keyspace),
            Body::CopyTable(copy) => self.copy_table(copy, keyspace),
            Body::AlterTable(alter) => self.alter_table(alter, keyspace),
            Body::CreateType(create) => self.create_type(create, keyspace),
            Body::AlterType(alter) => self.alter_type(alter, keyspace),
            Body::CreateIndex(create) => self.create_index(create, keyspace),
            Body::CreateView(create) => self.create_view(create, statement.text, keyspace),
            Body::AlterView(alter) => self.alter_view(alter, keyspace),
            Body::Drop(drop) => self.drop(drop, keyspace),
            Body::Annotate(annotation) => self.annotate(annotation, keyspace),
            Body::Other(other) => self.other(other, statement.span, keyspace),
            _ => Err(not_a_definition(statement.kind(), statement.span)),
        }
    }

    fn drop(&mut self, drop: &Drop<'_>, current: Option<&str>) -> Result<()> {
        let name = &drop.name.name;
        if drop.dropped == Dropped::Keyspace {
            return match self.keyspaces.remove(name.as_str()) {
                Some(_) => Ok(()),
                None => absent(drop.if_exists, name, SchemaErrorKind::KeyspaceUnknown),
            };
        }
        let keyspace = match self.keyspace_of(&drop.name, current) {
            Err(_) if drop.if_exists => return Ok(()),
            other => other?,
        };
        let unknown = match drop.dropped {
            Dropped::Table | Dropped::View if keyspace.tables.remove(name.as_str()).is_none() => {
                SchemaErrorKind::TableUnknown
            }
            Dropped::Type if keyspace.types.remove(name.as_str()).is_none() => SchemaErrorKind::TypeUnknown,
            Dropped::Index if !keyspace.drop_index(name.as_str()) => SchemaErrorKind::IndexUnknown,
            _ => return Ok(()),
        };
        absent(drop.if_exists, name, unknown)
    }

    fn other(&mut self, other: &Other<'_>, span: Span, current: Option<&str>) -> Result<()> {
        let Some(object) = &other.object else {
            return Err(not_a_definition(other.kind, span));
        };
        let name = object.name.as_str().to_owned();
        match other.kind {
            Kind::CreateFunction => drop(self.keyspace_of(object, current)?.functions.insert(name)),
            Kind::DropFunction => drop(self.keyspace_of(object, current)?.functions.remove(&name)),
            Kind::CreateAggregate => drop(self.keyspace_of(object, current)?.aggregates.insert(name)),
            Kind::DropAggregate => drop(self.keyspace_of(object, current)?.aggregates.remove(&name)),
            kind => return Err(not_a_definition(kind, span)),
        }
        Ok(())
    }
}

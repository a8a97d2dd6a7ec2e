//! What the names of a definition stand for, and the errors where there is no such thing, or already is one.

use crate::schema::data_type::DataType;
use crate::schema::error::{SchemaError, SchemaErrorKind};
use crate::schema::model::{Column, Keyspace, Schema, Table, UserType};
use crate::syntax::Span;
use crate::syntax::ast::{Kind, Name, QualifiedName};

pub(super) type Result<T> = std::result::Result<T, SchemaError>;

impl Schema {
    pub(super) fn keyspace_of(
        &mut self,
        name: &QualifiedName<'_>,
        current: Option<&str>,
    ) -> Result<&mut Keyspace> {
        let span = name.span();
        let keyspace = name
            .keyspace_or(current)
            .ok_or_else(|| at(span, SchemaErrorKind::NoKeyspace))?;
        let unknown = || at(span, SchemaErrorKind::KeyspaceUnknown(keyspace.to_owned()));
        self.keyspaces.get_mut(keyspace).ok_or_else(unknown)
    }
}

pub(super) fn column_of<'t>(table: &'t mut Table, name: &Name<'_>) -> Result<&'t mut Column> {
    let mut columns = table.columns.iter_mut();
    let column = columns.find(|column| column.name == name.as_str());
    column.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))
}

pub(super) fn field_of<'t>(
    user_type: &'t mut UserType,
    name: &Name<'_>,
) -> Result<&'t mut (String, DataType)> {
    let mut fields = user_type.fields.iter_mut();
    let field = fields.find(|(field, _)| field == name.as_str());
    field.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))
}

pub(super) fn at(span: Span, kind: SchemaErrorKind) -> SchemaError {
    SchemaError { kind, span }
}

pub(super) fn missing(name: &Name<'_>, kind: fn(String) -> SchemaErrorKind) -> SchemaError {
    at(name.span, kind(name.as_str().to_owned()))
}

pub(super) fn absent(if_exists: bool, name: &Name<'_>, kind: fn(String) -> SchemaErrorKind) -> Result<()> {
    if if_exists {
        Ok(())
    } else {
        Err(missing(name, kind))
    }
}

pub(super) fn exists(if_not_exists: bool, name: &Name<'_>) -> Result<()> {
    if if_not_exists {
        Ok(())
    } else {
        Err(missing(name, SchemaErrorKind::AlreadyExists))
    }
}

pub(super) fn not_a_definition(kind: Kind, span: Span) -> SchemaError {
    at(span, SchemaErrorKind::NotADefinition(kind.as_str()))
}

//! Definitions: CREATE, ALTER and DROP, and what they mean for rows, prepared statements and other clients.

use cqlens_cql::syntax::ast::{Body, Dropped, Name, QualifiedName, Statement, TableChange};

use super::answer::{Changed, DefinitionChange};
use super::failure::Failure;
use cqlens_cql::schema::{Schema, SchemaErrorKind, Table, is_system};

/// Applies a definition to the schema; `None` where `IF [NOT] EXISTS` makes it do nothing.
///
/// # Errors
/// What does not fit the schema, and definitions that this node does not know.
pub(super) fn apply(
    schema: &mut Schema,
    statement: &Statement<'_>,
    keyspace: Option<&str>,
) -> Result<Option<DefinitionChange>, Failure> {
    let mut change = change(statement, keyspace)?;
    if is_system(&change.keyspace) {
        return Err(Failure::invalid(format!(
            "{} keyspace is not user-modifiable.",
            change.keyspace
        )));
    }
    if let Body::Drop(drop) = &statement.body
        && drop.dropped == Dropped::Index
        && let Some(table) = table_of_index(schema, &change.keyspace, drop.name.name.as_str())
    {
        change.object = Changed::Table(table);
    }
    refuse_in_use(schema, statement, &change)?;
    let before = schema.clone();
    schema
        .apply(statement, keyspace)
        .map_err(|error| refused(error.kind, &change))?;
    Ok((*schema != before).then_some(change))
}

/// Why the schema did not take a definition, in Cassandra's words where they are known.
fn refused(kind: SchemaErrorKind, change: &DefinitionChange) -> Failure {
    let keyspace = &change.keyspace;
    match (kind, &change.object) {
        (SchemaErrorKind::AlreadyExists(_), Changed::Keyspace) => Failure::already_exists(keyspace, ""),
        (SchemaErrorKind::AlreadyExists(_), Changed::Table(table)) => {
            Failure::already_exists(keyspace, table)
        }
        (SchemaErrorKind::AlreadyExists(_), Changed::Type(name)) => {
            Failure::invalid(format!("A user type with name '{name}' already exists"))
        }
        (SchemaErrorKind::NoPrimaryKey, Changed::Table(table)) => Failure::invalid(format!(
            "No PRIMARY KEY specifed for table '{table}' (exactly one required)"
        )),
        (SchemaErrorKind::TableUnknown(table), _) => {
            Failure::invalid(format!("Table '{keyspace}.{table}' doesn't exist"))
        }
        (kind, _) => Failure::invalid(kind.to_string()),
    }
}

/// Refuses to drop what others need: columns of the primary key, types of columns and of other types.
fn refuse_in_use(
    schema: &Schema,
    statement: &Statement<'_>,
    change: &DefinitionChange,
) -> Result<(), Failure> {
    let Some(keyspace) = schema.keyspace(&change.keyspace) else {
        return Ok(());
    };
    match (&statement.body, &change.object) {
        (Body::AlterTable(alter), Changed::Table(table)) => {
            let TableChange::Drop { columns, .. } = &alter.change else {
                return Ok(());
            };
            let Some(table) = keyspace.tables.get(table) else {
                return Ok(());
            };
            let in_key = |name: &&Name<'_>| {
                table
                    .column(name.as_str())
                    .is_some_and(|column| column.is_primary_key())
            };
            match columns.iter().find(in_key) {
                Some(column) => Err(Failure::invalid(format!(
                    "Cannot drop PRIMARY KEY column {column}"
                ))),
                None => Ok(()),
            }
        }
        (Body::Drop(_), Changed::Type(name)) => {
            let uses = |table: &&Table| table.columns.iter().any(|column| column.data_type.mentions(name));
            let tables: Vec<_> = keyspace
                .tables
                .values()
                .filter(uses)
                .map(|table| table.name.as_str())
                .collect();
            if tables.is_empty() {
                return Ok(());
            }
            Err(Failure::invalid(format!(
                "Cannot drop user type '{}.{name}' as it is still used by tables {}",
                change.keyspace,
                tables.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

/// What a definition is about to change.
fn change(statement: &Statement<'_>, current: Option<&str>) -> Result<DefinitionChange, Failure> {
    let keyspace = |name: &str| (name.to_owned(), Changed::Keyspace);
    let qualified = |name: &QualifiedName<'_>, object: fn(String) -> Changed| {
        let keyspace = name.keyspace_or(current).ok_or_else(no_keyspace)?;
        Ok::<_, Failure>((keyspace.to_owned(), object(name.name.as_str().to_owned())))
    };
    let (verb, (keyspace, object)) = match &statement.body {
        Body::CreateKeyspace(create) => ("CREATED", keyspace(create.name.as_str())),
        Body::AlterKeyspace(alter) => ("UPDATED", keyspace(alter.name.as_str())),
        Body::CreateTable(create) => ("CREATED", qualified(&create.table, Changed::Table)?),
        Body::AlterTable(alter) => ("UPDATED", qualified(&alter.table, Changed::Table)?),
        Body::CreateType(create) => ("CREATED", qualified(&create.name, Changed::Type)?),
        Body::AlterType(alter) => ("UPDATED", qualified(&alter.name, Changed::Type)?),
        Body::CreateIndex(create) => ("UPDATED", qualified(&create.table, Changed::Table)?),
        Body::CreateView(create) => ("CREATED", qualified(&create.view, Changed::Table)?),
        Body::AlterView(alter) => ("UPDATED", qualified(&alter.view, Changed::Table)?),
        Body::Drop(drop) => match drop.dropped {
            Dropped::Keyspace => ("DROPPED", keyspace(drop.name.name.as_str())),
            Dropped::Table | Dropped::View => ("DROPPED", qualified(&drop.name, Changed::Table)?),
            Dropped::Type => ("DROPPED", qualified(&drop.name, Changed::Type)?),
            Dropped::Index => ("UPDATED", qualified(&drop.name, Changed::Table)?),
        },
        _ => {
            let kind = statement.kind().as_str().replace('_', " ").to_uppercase();
            return Err(Failure::invalid(format!(
                "{kind} is not supported by this stand-in node"
            )));
        }
    };
    Ok(DefinitionChange {
        change: verb,
        keyspace,
        object,
    })
}

/// Cassandra's text where an unqualified name has no keyspace.
pub(super) fn no_keyspace() -> Failure {
    Failure::invalid(
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
    )
}

fn table_of_index(schema: &Schema, keyspace: &str, index: &str) -> Option<String> {
    let tables = &schema.keyspace(keyspace)?.tables;
    tables
        .values()
        .find(|table| table.indexes.contains_key(index))
        .map(|table| table.name.clone())
}

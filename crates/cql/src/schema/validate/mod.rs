//! What Cassandra checks before it executes a statement, as far as the text and the schema show it, in the server's words
//! (`org.apache.cassandra.cql3.statements` and `statements.schema`, 5.0). Plans refuse what decides about partitions; this is
//! the rest.
//!
//! What depends on a server's settings or its data centers is not checked: whether transient replication, materialized views
//! or user-defined functions are enabled, whether a data center or a configuration of memtables exists.

mod compaction;
mod compression;
mod dropped;
mod function;
mod index;
mod keyspace;
mod modification;
mod properties;
mod select;
mod table;
mod type_name;
mod user_type;
mod view;

use crate::ServerVersion;
use crate::syntax::Span;
use crate::syntax::ast::{Body, Modification, Name, QualifiedName, Statement};

use super::error::{SchemaError, SchemaErrorKind};
use super::model::{Keyspace, Schema, Table};

pub use properties::table_properties;

type Validated<T = ()> = Result<T, SchemaError>;

impl Schema {
    /// Refuses a statement that a server of that version would refuse; names without a keyspace are `current`'s.
    ///
    /// That a keyspace or a table does not exist is left to [`Schema::apply`]: what is not defined here may be elsewhere.
    ///
    /// # Errors
    /// Why, and where in the text; [`SchemaErrorKind::TypeUnknown`] and [`SchemaErrorKind::FunctionUnknown`] for a user-defined
    /// type or function that the keyspace does not have.
    pub fn validate(
        &self,
        statement: &Statement<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        match &statement.body {
            Body::CreateKeyspace(create) => keyspace::create(create, version),
            Body::AlterKeyspace(alter) => keyspace::alter(alter, version),
            Body::CreateTable(create) => self.validate_new_table(create, current, version),
            Body::CopyTable(copy) => properties::of_table(&copy.options, version),
            Body::AlterTable(alter) => self.validate_altered_table(alter, current, version),
            Body::CreateType(create) => self.validate_new_type(create, current),
            Body::AlterType(alter) => self.validate_altered_type(alter, current),
            Body::CreateIndex(create) => self.validate_new_index(create, current),
            Body::CreateView(create) => self.validate_new_view(create, current, version),
            Body::AlterView(alter) => self.validate_altered_view(alter, current, version),
            Body::Drop(drop) => self.validate_drop(drop, current),
            Body::Select(select) => self.validate_select(select, current, version),
            Body::Insert(insert) => self.validate_insert(insert, current, version),
            Body::Update(update) => self.validate_update(update, current, version),
            Body::Delete(delete) => self.validate_delete(delete, current),
            Body::Batch(batch) => batch.statements.iter().try_for_each(|child| match child {
                Modification::Insert(insert) => self.validate_insert(insert, current, version),
                Modification::Update(update) => self.validate_update(update, current, version),
                Modification::Delete(delete) => self.validate_delete(delete, current),
            }),
            _ => Ok(()),
        }
    }

    /// The table or view of that name, and the keyspace that it is in, where they are known.
    fn known_table(&self, name: &QualifiedName<'_>, current: Option<&str>) -> Option<(&Keyspace, &Table)> {
        let keyspace = self.known_keyspace(name, current)?;
        Some((keyspace, keyspace.tables.get(name.name.as_str())?))
    }

    /// The keyspace of a name, where it is known.
    fn known_keyspace(&self, name: &QualifiedName<'_>, current: Option<&str>) -> Option<&Keyspace> {
        self.keyspaces.get(name.keyspace_or(current)?)
    }
}

/// A refusal in the server's words.
fn refused(span: Span, message: impl Into<String>) -> SchemaError {
    SchemaError {
        kind: SchemaErrorKind::Refused(message.into()),
        span,
    }
}

/// The first name that stands twice.
fn repeated<'n, 'text>(names: impl IntoIterator<Item = &'n Name<'text>>) -> Option<&'n Name<'text>>
where
    'text: 'n,
{
    let mut seen: Vec<&Name<'_>> = Vec::new();
    for name in names {
        if seen.iter().any(|other| other.text == name.text) {
            return Some(name);
        }
        seen.push(name);
    }
    None
}

/// `Attributes.MAX_TTL`: 20 years in seconds.
const MAX_TTL: i32 = 20 * 365 * 24 * 60 * 60;

/// Whether a text is one of these words, in upper or lower case.
fn is_one_of(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether a class may be in a jar that the server has: Cassandra's own ones are known.
fn is_of_a_jar(class: &str) -> bool {
    class.contains('.') && !class.starts_with("org.apache.cassandra.")
}

/// Whether a name has letters, digits and underscores only (`SchemaConstants.isValidCharsName`).
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

//! Prepared statements: their ids, and what becomes of them when the schema changes.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::answer::{Changed, DefinitionChange, ResultColumn};

/// A statement that a client prepared.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    /// Its text.
    pub(super) text: Arc<str>,
    /// The keyspace of its unqualified names.
    pub(super) keyspace: Option<Arc<str>>,
    /// Its tables, with their keyspaces.
    pub(super) tables: Vec<(String, String)>,
    /// The columns of its result; `None` for a write.
    pub(super) columns: Option<Vec<ResultColumn>>,
}

/// All prepared statements by id.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements {
    by_id: BTreeMap<[u8; 16], PreparedStatement>,
}

/// How many statements are kept: far more than tests and demos prepare.
const LIMIT: usize = 10_000;

impl PreparedStatements {
    /// Keeps a statement; gives its id, which is the same for the same text and keyspace on every run.
    pub(super) fn insert(&mut self, statement: PreparedStatement) -> [u8; 16] {
        let id = hash([statement.keyspace.as_deref().unwrap_or(""), &statement.text]);
        if self.by_id.len() == LIMIT && !self.by_id.contains_key(&id) {
            self.by_id.pop_first();
        }
        self.by_id.insert(id, statement);
        id
    }

    /// The statement of an id.
    pub(super) fn get(&self, id: &[u8]) -> Option<&PreparedStatement> {
        self.by_id.get(id)
    }

    /// Ids and statements.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8; 16], &PreparedStatement)> {
        self.by_id.iter()
    }

    /// Forgets all statements: clients have to prepare them again.
    pub(super) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// Forgets the statements on what changed, as Cassandra does.
    pub(super) fn forget_changed(&mut self, change: &DefinitionChange) {
        let is_changed = |(keyspace, table): &(String, String)| {
            *keyspace == change.keyspace
                && match &change.object {
                    Changed::Table(changed) => changed == table,
                    Changed::Keyspace | Changed::Type(_) => true,
                }
        };
        self.by_id
            .retain(|_, statement| !statement.tables.iter().any(is_changed));
    }
}

/// The id of a result's columns: another one as soon as a name or type changes.
pub(super) fn metadata_id(columns: Option<&[ResultColumn]>) -> [u8; 16] {
    let described = columns
        .into_iter()
        .flatten()
        .map(|column| format!("{}\0{}", column.name, column.column_type));
    hash(described)
}

/// 128 bits of a fixed key's SipHash. Not a secret: like Cassandra's MD5 it only has to be stable.
fn hash(parts: impl IntoIterator<Item = impl AsRef<str>>) -> [u8; 16] {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(part.as_ref().as_bytes());
        hasher.write_u8(0);
    }
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn statement(keyspace: Option<&str>, table: &str) -> PreparedStatement {
        PreparedStatement {
            text: "SELECT * FROM t".into(),
            keyspace: keyspace.map(Into::into),
            tables: vec![("k".to_owned(), table.to_owned())],
            columns: None,
        }
    }

    #[test]
    fn the_keyspace_is_part_of_the_identity() {
        let mut statements = PreparedStatements::default();
        let one = statements.insert(statement(Some("a"), "t"));
        let other = statements.insert(statement(Some("b"), "t"));
        assert_ne!(one, other);
        assert_eq!(statements.insert(statement(Some("a"), "t")), one);
    }

    #[test]
    fn a_changed_table_takes_its_statements_along() {
        let mut statements = PreparedStatements::default();
        let id = statements.insert(statement(None, "t"));
        let change = |table: &str| DefinitionChange {
            change: "UPDATED",
            keyspace: "k".to_owned(),
            object: Changed::Table(table.to_owned()),
        };
        statements.forget_changed(&change("other"));
        assert!(statements.get(&id).is_some());
        statements.forget_changed(&change("t"));
        assert!(statements.get(&id).is_none());
    }
}

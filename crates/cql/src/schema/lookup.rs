//! Keyspaces and tables by name, those of the server itself included.

use super::model::{Keyspace, Schema, Table};
use super::system;

impl Schema {
    /// The keyspace, one of Cassandra's own included.
    pub fn keyspace(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces.get(name).or_else(|| system::keyspaces().get(name))
    }

    /// The table or materialized view, one of Cassandra's own keyspaces included.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Table> {
        self.keyspace(keyspace)?.tables.get(table)
    }
}

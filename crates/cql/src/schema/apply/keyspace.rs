//! `CREATE` and `ALTER KEYSPACE`.

use super::found::{Result, exists, missing};
use super::option::set_keyspace_options;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Keyspace, Schema};
use crate::schema::system::is_system;
use crate::syntax::ast::{AlterKeyspace, CreateKeyspace};

impl Schema {
    pub(super) fn create_keyspace(&mut self, create: &CreateKeyspace<'_>) -> Result<()> {
        let name = create.name.as_str();
        if self.keyspaces.contains_key(name) {
            return exists(create.if_not_exists, &create.name);
        }
        let mut keyspace = Keyspace {
            name: name.to_owned(),
            durable_writes: true,
            ..Keyspace::default()
        };
        set_keyspace_options(&mut keyspace, &create.options);
        self.keyspaces.insert(name.to_owned(), keyspace);
        Ok(())
    }

    pub(super) fn alter_keyspace(&mut self, alter: &AlterKeyspace<'_>) -> Result<()> {
        match self.keyspaces.get_mut(alter.name.as_str()) {
            Some(keyspace) => set_keyspace_options(keyspace, &alter.options),
            // That of the server's own changes nothing that is known of them.
            None if alter.if_exists || is_system(alter.name.as_str()) => {}
            None => return Err(missing(&alter.name, SchemaErrorKind::KeyspaceUnknown)),
        }
        Ok(())
    }
}

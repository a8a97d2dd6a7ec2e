//! `DROP`: what is still needed stays (`DropTableStatement`, `DropTypeStatement`, `DropViewStatement`).

use super::{Validated, refused};
use crate::schema::model::Schema;
use crate::schema::system::is_system;
use crate::syntax::ast::{Drop, Dropped};

impl Schema {
    pub(super) fn validate_drop(&self, drop: &Drop<'_>, current: Option<&str>) -> Validated {
        let name = &drop.name.name;
        let keyspace = match drop.dropped {
            Dropped::Keyspace => Some(name.as_str()),
            _ => drop.name.keyspace_or(current),
        };
        if let Some(keyspace) = keyspace.filter(|keyspace| is_system(keyspace)) {
            return Err(refused(
                drop.name.span(),
                format!("{keyspace} keyspace is not user-modifiable."),
            ));
        }
        let Some(keyspace) = keyspace.and_then(|keyspace| self.keyspaces.get(keyspace)) else {
            return Ok(());
        };
        let table = keyspace.tables.get(name.as_str());
        let message = match (drop.dropped, table) {
            (Dropped::Table, Some(table)) if table.view.is_some() => {
                "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
                    .to_owned()
            }
            (Dropped::Table, Some(table)) => {
                let views = keyspace
                    .tables
                    .values()
                    .filter(|view| view.base() == Some(&table.name));
                let views: Vec<&str> = views.map(|view| view.name.as_str()).collect();
                if views.is_empty() {
                    return Ok(());
                }
                format!(
                    "Cannot drop a table when materialized views still depend on it ({})",
                    views.join(", ")
                )
            }
            (Dropped::View, Some(table)) if table.view.is_none() && !drop.if_exists => {
                format!("Materialized view '{}.{name}' doesn't exist", keyspace.name)
            }
            (Dropped::Type, _) => {
                let types = keyspace.types.values().filter(|user_type| {
                    let mut fields = user_type.fields.iter();
                    fields.any(|(_, field)| field.mentions(name.as_str()))
                });
                let types: Vec<&str> = types.map(|user_type| user_type.name.as_str()).collect();
                let tables = keyspace.tables.values().filter(|table| {
                    let mut columns = table.columns.iter();
                    columns.any(|column| column.data_type.mentions(name.as_str()))
                });
                let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
                let users = match (types.is_empty(), tables.is_empty()) {
                    (false, _) => format!("user types {}", types.join(", ")),
                    (true, false) => format!("tables {}", tables.join(", ")),
                    (true, true) => return Ok(()),
                };
                format!(
                    "Cannot drop user type '{}.{name}' as it is still used by {users}",
                    keyspace.name
                )
            }
            _ => return Ok(()),
        };
        Err(refused(name.span, message))
    }
}

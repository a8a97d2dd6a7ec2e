//! Names of tables and columns, as the schema spells them. In snapshots and reports they are text.

use serde::{Deserialize, Serialize};

/// Keyspace and table (or view), as the schema spells them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName {
    /// The keyspace.
    pub keyspace: String,
    /// The table or materialized view.
    pub table: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.keyspace, self.table)
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for TableName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // Names hold no dots: Cassandra allows letters, digits and underscores in keyspace and table names.
        let (keyspace, table) = text.split_once('.').ok_or("a table name is keyspace.table")?;
        Ok(Self {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        })
    }
}

/// Keyspace, table and a column of it, as the schema spells them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ColumnName {
    /// The table.
    pub table: TableName,
    /// The column.
    pub column: String,
}

impl From<ColumnName> for String {
    fn from(name: ColumnName) -> Self {
        format!("{}.{}", name.table, name.column)
    }
}

impl TryFrom<String> for ColumnName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // A column's name may hold dots if it is quoted; those of keyspaces and tables never do.
        let mut parts = text.splitn(3, '.');
        let (Some(keyspace), Some(table), Some(column)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("a column name is keyspace.table.column");
        };
        Ok(Self {
            table: TableName {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
            },
            column: column.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_column_s_name_is_read_back_even_with_dots() {
        let name = ColumnName {
            table: TableName {
                keyspace: "shop".to_owned(),
                table: "users".to_owned(),
            },
            column: "e.mail".to_owned(),
        };
        let text = serde_json::to_string(&name).unwrap();
        assert_eq!(text, "\"shop.users.e.mail\"");
        assert_eq!(serde_json::from_str::<ColumnName>(&text).unwrap(), name);
        assert!(serde_json::from_str::<ColumnName>("\"shop.users\"").is_err());
    }
}

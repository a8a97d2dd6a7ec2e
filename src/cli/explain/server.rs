//! Who would read the statements: a version of Cassandra, or a product with CQL of its own.

use std::fmt;
use std::str::FromStr;

use cqlens_cql::syntax;
use cqlens_cql::syntax::ast::{Body, Dialect, Extension, PropertyValue, Statement};
use cqlens_cql::{Product, ServerVersion};

/// A server that reads CQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Apache Cassandra.
    Cassandra(ServerVersion),
    /// ScyllaDB.
    ScyllaDb,
    /// Amazon Keyspaces.
    Keyspaces,
    /// DataStax Enterprise.
    Dse,
}

impl Default for Server {
    fn default() -> Self {
        Self::Cassandra(ServerVersion::default())
    }
}

impl Server {
    /// The version of Cassandra whose language it reads, beside its own. Products read most of what Cassandra's current
    /// version does; nothing is refused that a release of them may read.
    pub(super) fn language(self) -> ServerVersion {
        match self {
            Self::Cassandra(version) => version,
            Self::ScyllaDb | Self::Keyspaces | Self::Dse => ServerVersion::default(),
        }
    }

    /// What messages call it.
    pub(super) fn name(self) -> String {
        match self {
            Self::Cassandra(version) => format!("Cassandra {version}"),
            Self::Keyspaces => "Amazon Keyspaces".to_owned(),
            Self::ScyllaDb | Self::Dse => self.product().name().to_owned(),
        }
    }

    /// What the rules go by.
    pub(super) fn product(self) -> Product {
        match self {
            Self::Cassandra(_) | Self::Keyspaces => Product::Cassandra,
            Self::ScyllaDb => Product::ScyllaDb,
            Self::Dse => Product::Dse,
        }
    }

    /// Whether it reads what not every server does.
    pub(super) fn reads(self, extension: &Extension) -> bool {
        match (extension.dialect, self) {
            (Dialect::Scylla, Self::ScyllaDb)
            | (Dialect::Keyspaces, Self::Keyspaces)
            | (Dialect::Dse, Self::Dse) => true,
            _ => extension.is_read_by(self.language()),
        }
    }

    /// The product that has printed a schema, by the first thing in it that others do not have.
    pub(super) fn of_schema(schema: &str) -> Option<Self> {
        syntax::statements(schema).find_map(|(span, statement)| match statement {
            Ok(statement) => of_statement(&statement),
            // It is not read, and nobody else has it.
            Err(_) if span.of(schema).starts_with("CREATE SEARCH INDEX") => Some(Self::Dse),
            Err(_) => None,
        })
    }
}

fn of_statement(statement: &Statement<'_>) -> Option<Server> {
    match statement.extension.map(|extension| extension.dialect) {
        Some(Dialect::Scylla) => return Some(Server::ScyllaDb),
        Some(Dialect::Keyspaces) => return Some(Server::Keyspaces),
        Some(Dialect::Dse) => return Some(Server::Dse),
        _ => {}
    }
    let options = match &statement.body {
        Body::CreateKeyspace(create) => &create.options,
        Body::CreateTable(create) => &create.options,
        _ => return None,
    };
    options.iter().find_map(|option| match option.name.as_str() {
        "tablets" | "tombstone_gc" | "scylla_encryption_options" => Some(Server::ScyllaDb),
        // Cassandra's is a boolean.
        "cdc" if matches!(option.value, PropertyValue::Map(_)) => Some(Server::ScyllaDb),
        "custom_properties" => Some(Server::Keyspaces),
        _ => None,
    })
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Cassandra(version) => version.as_str(),
            Self::ScyllaDb => "scylladb",
            Self::Keyspaces => "keyspaces",
            Self::Dse => "dse",
        })
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "scylladb" => Ok(Self::ScyllaDb),
            "keyspaces" => Ok(Self::Keyspaces),
            "dse" => Ok(Self::Dse),
            version => version
                .parse()
                .map(Self::Cassandra)
                .map_err(|error: String| format!("{error}, nor scylladb, keyspaces or dse")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_shows_the_product_that_printed_it() {
        let of = Server::of_schema;
        let table =
            |options: &str| format!("CREATE TABLE shop.t (\n    k int PRIMARY KEY\n) WITH {options};");
        assert_eq!(
            of(&table("comment = ''\n    AND tombstone_gc = {'mode': 'timeout'}")),
            Some(Server::ScyllaDb)
        );
        assert_eq!(of(&table("cdc = {'enabled': 'true'}")), Some(Server::ScyllaDb));
        assert_eq!(
            of(
                "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '1'} \
                AND durable_writes = true AND tablets = {'enabled': false};"
            ),
            Some(Server::ScyllaDb)
        );
        assert_eq!(
            of("USE a; CREATE INDEX ON shop.t ((k), v);"),
            Some(Server::ScyllaDb)
        );
        assert_eq!(
            of(&table("CUSTOM_PROPERTIES = {'a': {'b': 'c'}}")),
            Some(Server::Keyspaces)
        );
        assert_eq!(of("CREATE SEARCH INDEX ON shop.t;"), Some(Server::Dse));
        assert_eq!(of(&table("cdc = true AND comment = 'tombstone_gc = 1'")), None);
    }

    #[test]
    fn servers_are_read_as_they_are_written() {
        for server in [
            Server::default(),
            Server::ScyllaDb,
            Server::Keyspaces,
            Server::Dse,
        ] {
            assert_eq!(server.to_string().parse(), Ok(server));
        }
        assert!(
            "3.11"
                .parse::<Server>()
                .is_err_and(|error| error.contains("scylladb"))
        );
    }
}

//! Whose software answers: the dialects of CQL differ in what a statement costs.

use serde::{Deserialize, Serialize};

/// Whose software responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// Apache Cassandra, and servers that announce themselves as such.
    Cassandra,
    /// ScyllaDB, which announces itself to drivers as Cassandra 3.0.8.
    ScyllaDb,
    /// DataStax Enterprise.
    Dse,
}

impl Product {
    /// Its name, as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cassandra => "Cassandra",
            Self::ScyllaDb => "ScyllaDB",
            Self::Dse => "DataStax Enterprise",
        }
    }
}

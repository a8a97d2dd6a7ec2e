//! How many partitions an execution touches, in one word, and why a number is missing where it is.
//!
//! Both are kept in windows and printed in reports: their kebab-case names are a contract. What they are
//! derived from (statements, schema, values) is `audit`'s business; nothing here knows it.

use serde::{Deserialize, Serialize};

/// The class of an execution's footprint, as reports print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PartitionClass {
    /// At most one partition, named by its key (none: an empty `IN ()`, an impossible slice).
    Single,
    /// Several partitions, each named by its key.
    Multi,
    /// A part of the ring, given by `token()`.
    TokenRange,
    /// Read through an index, without the partition key: how many nodes that involves depends on the product.
    Index,
    /// The whole ring.
    Scan,
    /// Not known; a [`Reason`] goes with it.
    Unknown,
}

impl PartitionClass {
    /// All classes, the cheaper ones first.
    pub const ALL: [Self; 6] = [
        Self::Single,
        Self::Multi,
        Self::TokenRange,
        Self::Index,
        Self::Scan,
        Self::Unknown,
    ];

    /// The name in reports and JSON: `token-range`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multi => "multi",
            Self::Scan => "scan",
            Self::TokenRange => "token-range",
            Self::Index => "index",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a partition count is a bound or unknown, or why the keys behind a known count are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// EXECUTE of an id whose PREPARE was not seen and that `system.prepared_statements` does not list.
    PreparedIdUnknown,
    /// The table is not in the schema.
    TableUnknown,
    /// Neither the statement, nor the request, nor the connection names a keyspace.
    KeyspaceUnknown,
    /// There is no schema, and the PREPARED response does not name the partition key's markers.
    SchemaUnknown,
    /// The schema's partition key has a type that literals cannot be serialized for.
    TypeUnknown,
    /// The text is not CQL that the parser knows.
    StatementUnknown,
    /// The text has more tokens or nests deeper than is looked at, or to plan it takes more steps than its
    /// length allows.
    StatementTooComplex,
    /// The statement is CQL, but not for this schema: the server refuses it.
    InvalidStatement,
    /// The statement has a form that Cassandra 5.0 does not have (`!=`, `NOT IN`, `BETWEEN`) and that another
    /// server may accept: what it reads is not worked out.
    NotFollowed,
    /// A marker has no value: the statement was prepared, not executed.
    Unbound,
    /// A value of the partition key is null, not set, or empty where it must not be: the server refuses it.
    InvalidKey,
    /// A bound value or literal is no value of its column's type.
    ValueUndecodable,
    /// The server computes a key (`now()`, `uuid()`, a user's function): the count is known, the key is not.
    FunctionValue,
    /// The key is inside the JSON text of an INSERT JSON that could not be read.
    Json,
    /// More keys than are kept: the count is exact, the keys are a part.
    TooManyKeys,
    /// A page of a read that names several partitions: it touches some of them.
    Page,
    /// The server answered with an internal error: how far it had come nobody says.
    ServerError,
    /// The server could not ask the replicas of a partition, and does not say which others it had asked
    /// before.
    TurnedAway,
    /// The server answered with an error of which the capture has no more: it may have refused the statement.
    ErrorUnseen,
    /// The request is too long to be kept: not all of its values, or of its text, are there.
    RequestCut,
    /// The statement has no partitions (DDL, roles, USE, ...).
    NotApplicable,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 21] = [
        Self::PreparedIdUnknown,
        Self::TableUnknown,
        Self::KeyspaceUnknown,
        Self::SchemaUnknown,
        Self::TypeUnknown,
        Self::StatementUnknown,
        Self::StatementTooComplex,
        Self::InvalidStatement,
        Self::NotFollowed,
        Self::Unbound,
        Self::InvalidKey,
        Self::ValueUndecodable,
        Self::FunctionValue,
        Self::Json,
        Self::TooManyKeys,
        Self::Page,
        Self::ServerError,
        Self::TurnedAway,
        Self::ErrorUnseen,
        Self::RequestCut,
        Self::NotApplicable,
    ];

    /// The name in reports and JSON: `table-unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreparedIdUnknown => "prepared-id-unknown",
            Self::TableUnknown => "table-unknown",
            Self::KeyspaceUnknown => "keyspace-unknown",
            Self::SchemaUnknown => "schema-unknown",
            Self::TypeUnknown => "type-unknown",
            Self::StatementUnknown => "statement-unknown",
            Self::StatementTooComplex => "statement-too-complex",
            Self::InvalidStatement => "invalid-statement",
            Self::NotFollowed => "not-followed",
            Self::Unbound => "unbound",
            Self::InvalidKey => "invalid-key",
            Self::ValueUndecodable => "value-undecodable",
            Self::FunctionValue => "function-value",
            Self::Json => "json",
            Self::TooManyKeys => "too-many-keys",
            Self::Page => "page",
            Self::ServerError => "server-error",
            Self::TurnedAway => "turned-away",
            Self::ErrorUnseen => "error-unseen",
            Self::RequestCut => "request-cut",
            Self::NotApplicable => "not-applicable",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_what_json_says() {
        for class in PartitionClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}

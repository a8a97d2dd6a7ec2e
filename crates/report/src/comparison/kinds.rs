//! The ways in which responses differ, and the reasons why requests were not sent or responses not compared.

use serde::{Deserialize, Serialize};

/// In which way two responses differ; the graver ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The other cluster gave an error.
    Error,
    /// Only the first cluster gave an error.
    NoError,
    /// Both gave errors, of different codes.
    OtherError,
    /// Rows from one, none from the other.
    Kind,
    /// Other columns: names, number or order.
    Columns,
    /// Columns of other types.
    Types,
    /// Another number of rows.
    RowCount,
    /// As many rows, with other values.
    Rows,
    /// The same rows in another order.
    Order,
}

impl DifferenceKind {
    /// In a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Error => "an error instead of a result",
            Self::NoError => "a result instead of an error",
            Self::OtherError => "another error",
            Self::Kind => "another kind of result",
            Self::Columns => "other columns",
            Self::Types => "other types",
            Self::RowCount => "another number of rows",
            Self::Rows => "other values",
            Self::Order => "another order",
        }
    }
}

/// Why two responses were not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotCompared {
    /// What the statement reads depends on when it is run: `now()` in its WHERE.
    Unstable,
    /// The first cluster was in trouble itself: a time-out, too few replicas.
    FirstFailed,
    /// The first cluster's response is not known.
    FirstUnknown,
    /// Columns are to be left out, but there are too many, or their names are unknown.
    UnknownColumns,
    /// The client has not read the result to its end, and pages ended elsewhere.
    UnfinishedRead,
    /// The data has changed meanwhile.
    Unsettled,
    /// The table was written by requests that were not sent.
    AfterUnsentWrites,
    /// Too many differences wait to be looked at again.
    TooManyDoubts,
}

impl NotCompared {
    /// In a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unstable => "depends on the time",
            Self::FirstFailed => "the first cluster failed itself",
            Self::FirstUnknown => "the first cluster's response is unknown",
            Self::UnknownColumns => "columns to leave out are unknown",
            Self::UnfinishedRead => "not read to the end",
            Self::Unsettled => "data was changing",
            Self::TooManyDoubts => "too many differences at once",
            Self::AfterUnsentWrites => "writes to the table were not sent",
        }
    }
}

/// Why a request was not sent, got no response, or was not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// Not in the sample.
    NotSampled,
    /// Beyond the rate that is allowed.
    RateLimited,
    /// Sending was stopped by an operator.
    Stopped,
    /// It writes to a keyspace that was not named.
    Write,
    /// It adds to a counter.
    Counter,
    /// It is a conditional write.
    Conditional,
    /// It changes the schema, roles or permissions, or truncates.
    Definition,
    /// It does not parse, so what it does is unknown.
    Unparsed,
    /// It is `USE`: each request is sent with its keyspace.
    Use,
    /// It reads tables of the system: each cluster has its own.
    SystemTable,
    /// Its values were recorded as hashes.
    HashedValues,
    /// The page before it was not recorded, not sent, or is too long ago.
    UnknownPage,
    /// The other cluster had no page after the one before.
    NoFurtherPage,
    /// The protocol version of the other cluster cannot express it.
    NotExpressible,
    /// More keyspaces than connections are kept for.
    TooManyKeyspaces,
    /// Too many requests wait for the other cluster.
    QueueFull,
    /// No connection to the other cluster is open.
    Unreachable,
    /// The connection was lost before the response came.
    ConnectionLost,
    /// The response did not come in time.
    TimedOut,
    /// The response cannot be read.
    Unreadable,
}

impl Skipped {
    /// In a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotSampled => "not in the sample",
            Self::RateLimited => "beyond the rate limit",
            Self::Stopped => "sending was stopped",
            Self::Write => "a write to a keyspace that may not be written",
            Self::Counter => "a counter",
            Self::Conditional => "a conditional write",
            Self::Definition => "a definition",
            Self::Unparsed => "not parsed",
            Self::Use => "USE",
            Self::SystemTable => "a system table",
            Self::HashedValues => "values recorded as hashes",
            Self::UnknownPage => "an unknown page",
            Self::NoFurtherPage => "no further page",
            Self::NotExpressible => "not expressible in the target's protocol version",
            Self::TooManyKeyspaces => "too many keyspaces",
            Self::QueueFull => "too many requests waiting",
            Self::Unreachable => "the target is unreachable",
            Self::ConnectionLost => "the connection was lost",
            Self::TimedOut => "timed out",
            Self::Unreadable => "an unreadable response",
        }
    }

    /// Whether the other cluster is at fault, not the request or a setting.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::QueueFull | Self::Unreachable | Self::ConnectionLost | Self::TimedOut | Self::Unreadable
        )
    }
}

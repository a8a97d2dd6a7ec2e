//! Why a request was not sent to the other cluster, or why its response was not compared.

use std::collections::BTreeMap;

use serde::Serialize;

/// Why a request was not sent, got no response, or was not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// Not in the sample.
    NotSampled,
    /// Beyond the rate that is allowed.
    RateLimited,
    /// Sending was stopped by order.
    Stopped,
    /// It writes to a keyspace that was not named.
    Write,
    /// It adds to a counter.
    Counter,
    /// It is a conditional write.
    Conditional,
    /// It changes the schema, roles or permissions, or truncates.
    Definition,
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

/// How many requests were left out, by reason.
pub type SkippedCounts = BTreeMap<Skipped, u64>;

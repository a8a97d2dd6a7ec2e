//! What is known of a statement from its text and the schema alone.

use serde::{Deserialize, Serialize};

/// A property of a query pattern; its kebab-case name stands in `patterns[].flags` of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// `ALLOW FILTERING` is written.
    AllowFiltering,
    /// Cassandra would refuse the statement without `ALLOW FILTERING`.
    FilteringNeeded,
    /// Every partition key column is restricted by `=` or `IN`.
    FullPartitionKey,
    /// `IN` on a partition key column.
    InPartitionKey,
    /// `IN` on several columns of one composite partition key.
    InCartesianProduct,
    /// `IN` on a clustering column.
    InClustering,
    /// Restricted by `token()`.
    OnToken,
    /// Served by a secondary index.
    Index,
    /// Reads against the clustering order.
    Reversed,
    /// Aggregates (`COUNT`, `SUM`, …) or groups.
    Aggregate,
    /// `SELECT *`.
    SelectStar,
    /// `SELECT DISTINCT`.
    Distinct,
    /// Has a `LIMIT`.
    Limit,
    /// Conditional: a lightweight transaction.
    Lwt,
    /// Writes counters.
    Counter,
    /// Reads a materialized view.
    View,
    /// A logged batch.
    LoggedBatch,
    /// An unlogged batch.
    UnloggedBatch,
    /// Touches several tables.
    SeveralTables,
}

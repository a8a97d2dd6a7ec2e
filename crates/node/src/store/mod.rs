//! Where the node keeps rows: tables of partitions in token order, partitions of rows in clustering order, rows of
//! cells, and every tombstone that was ever written.
//!
//! The store knows neither CQL nor the wire: keys and values are serialized bytes, time is a parameter.

pub(crate) mod cell;
pub(crate) mod order;
pub(crate) mod partition;
pub(crate) mod row;
pub(crate) mod stretch;
pub(crate) mod table;

pub(crate) use cell::{Cell, Expiry, Seconds, Timestamp};
pub(crate) use partition::{ClusteringKey, Partition, Passed};
pub(crate) use row::{Liveness, Row};
pub(crate) use stretch::Stretch;
pub(crate) use table::{PartitionId, StoredTable};

//! Where the node keeps rows: tables of partitions in token order, partitions of rows in clustering order,
//! rows of cells, and every tombstone that was ever written.
//!
//! The store knows neither CQL nor the wire: keys and values are serialized bytes, time is a parameter.

pub(super) mod cell;
pub(super) mod order;
pub(super) mod partition;
pub(super) mod row;
pub(super) mod stretch;
pub(super) mod table;

pub(super) use cell::{Cell, Expiry, Seconds, Timestamp};
pub(super) use partition::{ClusteringKey, Partition, Passed};
pub(super) use row::{Liveness, Row};
pub(super) use stretch::Stretch;
pub(super) use table::{PartitionId, StoredTable};

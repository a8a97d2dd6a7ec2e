//! What cqlens knows of the cluster: schema, prepared statements, nodes.

mod agreement;
mod cluster;
mod live;
mod memory_share;
mod observed_schema;
mod prepared;
mod recent_ddl;
mod record;
mod ring;
pub mod system_schema;
mod wanted;

pub use cluster::{ClusterState, Node};
pub use live::{Live, SyncedGuard};
pub use prepared::{MAX_PREPARED, PreparedStatement, PreparedStatements};
pub use recent_ddl::Reading;
pub use record::Record;
pub use ring::{Placement, Replication, Ring};

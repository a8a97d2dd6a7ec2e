//! What cqlens knows of the cluster: schema, prepared statements, nodes.

mod cluster;
mod held;
mod live;
mod prepared;
mod record;
mod ring;
mod seen;
pub mod system_schema;
mod wanted;

pub use cluster::{Cluster, Node};
pub use live::{InStep, Live, Reading};
pub use prepared::{MAX_PREPARED, PreparedStatement, PreparedStatements};
pub use record::Record;
pub use ring::{Placement, Replication, Ring};

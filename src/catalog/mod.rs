//! What cqlens knows of the cluster: schema, prepared statements, nodes.

pub mod client;
mod cluster;
mod contacts;
mod follow;
mod held;
mod live;
pub mod murmur3;
mod prepared;
mod read;
mod record;
mod ring;
pub mod schema;
mod seen;
mod wanted;

pub use cluster::{Cluster, Node};
pub use contacts::Contacts;
pub use follow::{follow, follow_any, reach};
pub use live::{Live, Reading};
pub use prepared::{MAX_PREPARED, Markers, PreparedStatement, PreparedStatements};
pub use ring::{Placement, Replication, Ring};
pub use schema::{Schema, SchemaError};

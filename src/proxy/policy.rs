//! What is asked of connections at the edge: how many.

/// The settings of the edge. All of them can change while cqlens runs, for the connections that come from then on; those
/// that are open keep what they began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many connections of clients the whole process forwards at a time; each takes two file descriptors.
    pub max_connections: usize,
    /// How many of them may have come through one listener; none means no limit but the process's.
    pub max_connections_per_listener: Option<usize>,
    /// How many of them may come from one address, like Cassandra's `native_transport_max_concurrent_connections_per_ip`;
    /// none means no limit, as there.
    pub max_connections_per_client: Option<usize>,
}

impl Policy {
    /// How many connections a process forwards unless something else is asked for. With the memory that an idle connection takes,
    /// some 10 KiB, that is less than 200 MiB; a Cassandra node serves far fewer.
    pub const MAX_CONNECTIONS: usize = 16_384;
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_connections: Self::MAX_CONNECTIONS,
            max_connections_per_listener: None,
            max_connections_per_client: None,
        }
    }
}

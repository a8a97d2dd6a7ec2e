//! What is asked of connections at the edge: how many, how long they may be silent, and who says where they come from.

use std::{num::NonZeroU32, time::Duration};

use super::ClientNetworks;

/// The settings of the edge. All of them can change while cqlens runs, for the connections that come from then on; those
/// that are open keep what they began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many connections of clients the whole process forwards at a time; each takes two file descriptors.
    pub max_connections: usize,
    /// How many of them may have come through one listener; none means no limit but the process's.
    pub max_connections_per_listener: Option<usize>,
    /// How many of them may come from one client, like Cassandra's `native_transport_max_concurrent_connections_per_ip`;
    /// none means no limit, as there.
    pub max_connections_per_client: Option<usize>,
    /// How many connections are accepted in a second, by the whole process; those beyond it wait. None means any number.
    pub max_connection_rate: Option<NonZeroU32>,
    /// How many of them may come from one client; those beyond it are refused. None means any number.
    pub max_connection_rate_per_client: Option<NonZeroU32>,
    /// What counts as one client.
    pub client_networks: ClientNetworks,
    /// How long a client may take to log in before its connection is closed; none means for ever.
    pub login_timeout: Option<Duration>,
    /// How long a connection is silent before its other end is asked whether it is still there; none means never.
    pub keepalive: Option<Duration>,
    /// How long what was sent may stay unacknowledged, or may not be sent because the other end takes nothing, before the
    /// connection is given up (`TCP_USER_TIMEOUT`). A silent connection whose other end has gone is given up after the same time.
    /// None leaves it to the kernel, which sends again for about a quarter of an hour, and asks three times.
    pub unacknowledged_timeout: Option<Duration>,
    /// How long a connection may carry no byte in either direction before it is closed, like Cassandra's
    /// `native_transport_idle_timeout`; none means forever, as there.
    pub idle_timeout: Option<Duration>,
    /// How long a connection one of whose sides has finished may carry no byte in the other direction; none means for ever.
    pub half_closed_timeout: Option<Duration>,
    /// Whether clients come through a load balancer that says in a header of the PROXY protocol who they are. Then nobody
    /// is let in without one.
    pub accept_proxy_protocol: bool,
    /// Whether the node is told in a header of the PROXY protocol, version 2, who the client is.
    pub send_proxy_protocol: bool,
}

impl Policy {
    /// How many connections a process forwards unless something else is asked for. With the memory that an idle connection takes,
    /// some 10 KiB, that is less than 200 MiB; a Cassandra node serves far fewer.
    pub const MAX_CONNECTIONS: usize = 16_384;
    /// Shorter than what makes firewalls and load balancers forget a silent connection (350 s with the quickest of them).
    pub const KEEPALIVE: Duration = Duration::from_secs(60);
    /// Drivers give up a login after 5 to 12 seconds; people who debug one take longer.
    pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);
    /// Drivers read all the time. One that takes nothing for so long has stopped, or its machine has: Cassandra's own requests time out
    /// after 2 to 10 seconds, and a truncation, the longest, after a minute.
    pub const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(120);
    /// Longer than the node takes for any answer; a system forgets a connection that its process has closed after a minute.
    pub const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(120);
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_connections: Self::MAX_CONNECTIONS,
            max_connections_per_listener: None,
            max_connections_per_client: None,
            max_connection_rate: None,
            max_connection_rate_per_client: None,
            client_networks: ClientNetworks::default(),
            login_timeout: Some(Self::LOGIN_TIMEOUT),
            keepalive: Some(Self::KEEPALIVE),
            unacknowledged_timeout: Some(Self::UNACKNOWLEDGED_TIMEOUT),
            // Not all drivers send heartbeats, and pools keep connections that nobody uses for hours: without cqlens they stay open.
            idle_timeout: None,
            half_closed_timeout: Some(Self::HALF_CLOSED_TIMEOUT),
            accept_proxy_protocol: false,
            send_proxy_protocol: false,
        }
    }
}

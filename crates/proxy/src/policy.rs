//! The policy for connections at the edge: limits, timeouts, PROXY protocol.

use std::{num::NonZeroU32, time::Duration};

use super::ClientNetworks;

/// The settings of the edge. All of them can change while cqlens runs, for new connections; open connections
/// keep the policy that they were opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many connections of clients the whole process forwards at a time; each takes two file descriptors.
    pub max_connections: usize,
    /// How many of them may have come through one listener; none means no limit but the process's.
    pub max_connections_per_listener: Option<usize>,
    /// How many of them may come from one client, like Cassandra's
    /// `native_transport_max_concurrent_connections_per_ip`; none means all but a reserve for others.
    pub max_connections_per_client: Option<usize>,
    /// How many connections are accepted in a second, by the whole process; those beyond it
    /// wait. None means any number.
    pub max_connection_rate: Option<NonZeroU32>,
    /// How many of them may come from one client; those beyond it are refused. None means any number.
    pub max_connection_rate_per_client: Option<NonZeroU32>,
    /// What counts as one client.
    pub client_networks: ClientNetworks,
    /// How long a client may take to log in before its connection is closed; none means for ever.
    pub login_timeout: Option<Duration>,
    /// How long a connection is silent before a keepalive probe is sent; none means never.
    pub keepalive: Option<Duration>,
    /// How long sent bytes may stay unacknowledged, or wait because the peer's receive window is
    /// closed, before the connection is closed (`TCP_USER_TIMEOUT`). It also limits how long keepalive
    /// probes go unanswered. None leaves it to the kernel, which retransmits for about a quarter of an
    /// hour and sends three probes.
    pub unacknowledged_timeout: Option<Duration>,
    /// How long a connection may carry no byte in either direction before it is closed, like Cassandra's
    /// `native_transport_idle_timeout`; none means forever, as there.
    pub idle_timeout: Option<Duration>,
    /// How long a connection one of whose sides has finished may carry no byte in the other
    /// direction; none means for ever.
    pub half_closed_timeout: Option<Duration>,
    /// Whether clients come through a load balancer that sends their address in a PROXY header. A connection
    /// without the header is then refused.
    pub accept_proxy_protocol: bool,
    /// Whether the node gets the client's address in a PROXY header, version 2.
    pub send_proxy_protocol: bool,
}

impl Policy {
    /// How many connections a process forwards by default. An idle connection takes some 10 KiB, so they take
    /// less than 200 MiB; a Cassandra node serves far fewer.
    pub const MAX_CONNECTIONS: usize = 16_384;
    /// Shorter than what makes firewalls and load balancers forget a silent connection (350 s
    /// with the quickest of them).
    pub const KEEPALIVE: Duration = Duration::from_secs(60);
    /// Drivers give up a login after 5 to 12 seconds; a developer who debugs one takes longer.
    pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);
    /// Drivers read all the time. One that takes nothing for so long has stopped, or its
    /// machine has: Cassandra's own requests time out after 2 to 10 seconds, and a truncation,
    /// the longest, after a minute.
    pub const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(120);
    /// Longer than the node takes for any answer; a system forgets a connection that its process
    /// has closed after a minute.
    pub const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(120);

    /// How many connections one client may have. Without a limit of its own, others find a sixteenth free, whatever it
    /// does; few connections are not divided.
    pub(super) fn limit_per_client(&self) -> usize {
        let reserve = self.max_connections / 16;
        self.max_connections_per_client
            .unwrap_or(self.max_connections - reserve)
    }
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
            // Not all drivers send heartbeats, and pools keep unused connections for hours.
            // Without cqlens they stay open.
            idle_timeout: None,
            half_closed_timeout: Some(Self::HALF_CLOSED_TIMEOUT),
            accept_proxy_protocol: false,
            send_proxy_protocol: false,
        }
    }
}

//! Why clients are refused.

/// Why a client was refused. A limit with a setting has the name of the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The process has all the connections that it may have.
    MaxConnections,
    /// The listener has all the connections that it may have.
    MaxConnectionsPerListener,
    /// The client has all the connections that it may have.
    MaxConnectionsPerClient,
    /// The client opens connections faster than it may.
    MaxConnectionRatePerClient,
    /// There was no file descriptor for the connection to the node.
    Descriptors,
    /// It did not begin with a header of the PROXY protocol where every client must.
    ProxyHeader,
    /// It was not redirected here, where only such connections are served.
    Destination,
    /// It was a connection of cqlens itself, redirected back to it.
    Loop,
    /// The node accepts no connections.
    UpstreamDown,
    /// The client did not log in within the time that it had.
    LoginTimeout,
}

impl Refusal {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
        Self::MaxConnections,
        Self::MaxConnectionsPerListener,
        Self::MaxConnectionsPerClient,
        Self::MaxConnectionRatePerClient,
        Self::Descriptors,
        Self::ProxyHeader,
        Self::Destination,
        Self::Loop,
        Self::UpstreamDown,
        Self::LoginTimeout,
    ];

    /// The reason as reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxConnections => "max-connections",
            Self::MaxConnectionsPerListener => "max-connections-per-listener",
            Self::MaxConnectionsPerClient => "max-connections-per-client",
            Self::MaxConnectionRatePerClient => "max-connection-rate-per-client",
            Self::Descriptors => "descriptors",
            Self::ProxyHeader => "proxy-header",
            Self::Destination => "destination",
            Self::Loop => "loop",
            Self::UpstreamDown => "upstream-down",
            Self::LoginTimeout => "login-timeout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_where_its_number_says() {
        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, index);
        }
    }
}

//! Where a connection goes, and how.

use std::time::Duration;

use super::{Drain, topology::Pairing};
use crate::tls::{Acceptor, Connector};

/// The node that connections go to, and the settings of the way there.
#[derive(Debug, Clone)]
pub struct Route {
    /// The node, as `host:port`. Resolved for each connection, so that a name may change its address.
    pub upstream: String,
    /// How long the node may take to accept a connection, TLS included.
    pub connect_timeout: Duration,
    /// TLS to clients; none means plain connections.
    pub client_tls: Option<Acceptor>,
    /// TLS to the node; none means plain connections.
    pub upstream_tls: Option<Connector>,
    /// The addresses that clients are shown; none means that nothing is rewritten.
    pub topology: Option<Pairing>,
    /// Ends the connections of this route alone; none means that they end with their listener.
    pub drain: Option<Drain>,
}

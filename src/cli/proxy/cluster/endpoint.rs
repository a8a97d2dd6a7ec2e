//! A node as listeners know it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use cqlens_proto::types::Uuid;

/// A node that can be identified and reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::proxy) struct Endpoint {
    pub(in crate::cli::proxy) host_id: Uuid,
    pub(in crate::cli::proxy) broadcast: IpAddr,
    /// The address that the node advertises to clients. cqlens connects to it for them.
    pub(in crate::cli::proxy) native: SocketAddr,
    pub(in crate::cli::proxy) data_center: Option<String>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (host id {})", self.native, self.host_id)
    }
}

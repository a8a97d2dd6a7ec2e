//! Other nodes of the cluster: what `system.peers` and `system.peers_v2` say of them, and events about them.

use std::net::{IpAddr, SocketAddr};

use cqlens_proto::envelope::{Envelope, StreamId, Version};
use cqlens_proto::error::EncodeError;
use cqlens_proto::message::{Dialect, Event, Extras, NodeChange, Response};
use cqlens_proto::types::Uuid;

/// A row of `system.peers` and `system.peers_v2`; what is none is null there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Where the other nodes reach it.
    pub address: IpAddr,
    /// What it is known by.
    pub host_id: Option<Uuid>,
    /// Where clients are told to connect.
    pub native: Option<SocketAddr>,
    /// Its datacenter.
    pub data_center: String,
    /// Its tokens.
    pub tokens: Vec<String>,
    /// Its version of the schema, where that is not the node's own.
    pub schema_version: Option<Uuid>,
}

/// What a node tells of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// TOPOLOGY_CHANGE: `NEW_NODE`, `REMOVED_NODE`, `MOVED_NODE`, and the address for clients.
    Topology(&'static str, SocketAddr),
    /// STATUS_CHANGE: `UP`, `DOWN`, and the address for clients.
    Status(&'static str, SocketAddr),
}

impl Announcement {
    /// The envelope of the event.
    ///
    /// # Errors
    /// None in practice: the names are short.
    pub(super) fn envelope(&self, version: Version) -> Result<Envelope, EncodeError> {
        let change = |change: &'static str, node: &SocketAddr| NodeChange {
            change,
            address: node.ip(),
            port: i32::from(node.port()),
        };
        let event = match self {
            Self::Topology(what, node) => Event::TopologyChange(change(what, node)),
            Self::Status(what, node) => Event::StatusChange(change(what, node)),
        };
        Response::Event(event).to_envelope(Dialect::new(version), StreamId::EVENT, &Extras::default())
    }

    /// Its type, as REGISTER names it.
    pub(super) fn event_type(&self) -> &'static str {
        match self {
            Self::Topology(..) => "TOPOLOGY_CHANGE",
            Self::Status(..) => "STATUS_CHANGE",
        }
    }
}

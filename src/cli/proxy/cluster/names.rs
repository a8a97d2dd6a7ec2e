//! How settings name a node, and which nodes a process listens for.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use cqlens_proto::types::Uuid;

use super::endpoint::Endpoint;
use crate::cli::config::{assignment, listen_address};
use cqlens_proxy::is_local;

/// A node as settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::proxy) enum NodeName {
    HostId(Uuid),
    /// Its address for clients on any port, or the one that other nodes reach it at.
    Address(IpAddr),
    /// Its address for clients, with the port.
    Native(SocketAddr),
}

impl NodeName {
    pub(super) fn is(self, node: &Endpoint) -> bool {
        match self {
            Self::HostId(host_id) => node.host_id == host_id,
            Self::Address(address) => node.native.ip() == address || node.broadcast == address,
            Self::Native(native) => node.native == native,
        }
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host_id = || Uuid::parse(text).map(Self::HostId);
        let native = || text.parse().ok().map(Self::Native);
        let address = || text.parse().ok().map(Self::Address);
        host_id().or_else(native).or_else(address).ok_or_else(|| {
            "a node: its host id, its address for clients such as 10.0.0.1, or that with the port".to_owned()
        })
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostId(host_id) => host_id.fmt(out),
            Self::Address(address) => address.fmt(out),
            Self::Native(native) => native.fmt(out),
        }
    }
}

/// `NODE=ADDRESS:PORT`: the listen address of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::proxy) struct Mapped {
    pub(super) node: NodeName,
    pub(in crate::cli::proxy) listen: SocketAddr,
}

impl FromStr for Mapped {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, listen) = assignment(text, "NODE=ADDRESS:PORT, such as 10.0.0.1=127.0.1.1:9042")?;
        let listen = listen_address(listen)?;
        if listen.ip().is_unspecified() || listen.port() == 0 {
            return Err(format!(
                "{listen} is not an address that a client could connect to"
            ));
        }
        Ok(Self {
            node: node.parse()?,
            listen,
        })
    }
}

/// One of the nodes that a process listens for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::proxy) enum ListenFor {
    /// Those whose listen address is one of this machine.
    Local,
    /// Those of a datacenter.
    DataCenter(String),
    Node(NodeName),
}

impl FromStr for ListenFor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        match text.strip_prefix("dc:") {
            Some("") => Err("dc: and the name of a datacenter".to_owned()),
            Some(name) => Ok(Self::DataCenter(name.to_owned())),
            None => text
                .parse()
                .map(Self::Node)
                .map_err(|what| format!("`local`, dc:NAME, or {what}")),
        }
    }
}

/// Whether a process listens for `node`, whose listen address is `listen`. Without a
/// choice it does for every node.
pub(super) fn is_chosen(chosen: &[ListenFor], node: &Endpoint, listen: SocketAddr) -> bool {
    let fits = |choice: &ListenFor| match choice {
        ListenFor::Local => is_local(listen.ip()),
        ListenFor::DataCenter(name) => node.data_center.as_ref() == Some(name),
        ListenFor::Node(name) => name.is(node),
    };
    chosen.is_empty() || chosen.iter().any(fits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node() -> Endpoint {
        Endpoint {
            host_id: Uuid([7; 16]),
            broadcast: "10.1.0.1".parse().unwrap(),
            native: "10.0.0.1:9042".parse().unwrap(),
            data_center: Some("dc1".to_owned()),
        }
    }

    #[test]
    fn a_node_has_several_names() {
        for name in [
            "07070707-0707-0707-0707-070707070707",
            "10.0.0.1",
            "10.0.0.1:9042",
            "10.1.0.1",
        ] {
            assert!(name.parse::<NodeName>().unwrap().is(&node()), "{name}");
        }
        for other in [
            "17070707-0707-0707-0707-070707070707",
            "10.0.0.2",
            "10.0.0.1:9043",
        ] {
            assert!(!other.parse::<NodeName>().unwrap().is(&node()), "{other}");
        }
        assert!("db1".parse::<NodeName>().is_err());
    }

    #[test]
    fn pairs_are_checked() {
        let mapped: Mapped = "10.0.0.1:9042 = 127.0.1.1:9042".parse().unwrap();
        assert_eq!(mapped.listen, "127.0.1.1:9042".parse().unwrap());
        for wrong in [
            "",
            "10.0.0.1",
            "10.0.0.1=",
            "=127.0.0.1:1",
            "10.0.0.1=0.0.0.0:9042",
            "10.0.0.1=127.0.0.1:0",
        ] {
            assert!(wrong.parse::<Mapped>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_listens_for_all_nodes_or_its_part() {
        let (here, elsewhere) = ("127.0.0.1:1".parse().unwrap(), "192.0.2.1:1".parse().unwrap());
        let chosen = |text: &str, listen| is_chosen(&[text.parse().unwrap()], &node(), listen);
        assert!(is_chosen(&[], &node(), elsewhere));
        assert!(chosen("local", here) && !chosen("local", elsewhere));
        assert!(chosen("dc:dc1", elsewhere) && !chosen("dc:dc2", here));
        assert!(chosen("10.0.0.1", elsewhere) && !chosen("10.0.0.2", here));
        assert!("dc:".parse::<ListenFor>().is_err() && "here".parse::<ListenFor>().is_err());
    }
}

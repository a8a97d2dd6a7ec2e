//! Several embedded nodes that tell of each other, as a cluster does, and a proxy that has a listener for
//! each.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Announcement, Node, Options, Peer};
use serde_json::Value;

use crate::proxy::{
    admin::get,
    support::proxy::{Proxy, free_address},
    wire::LIMIT,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// Embedded nodes, by the order of their host ids.
pub(crate) struct Ring {
    pub(crate) nodes: Vec<Node>,
}

impl Ring {
    /// Starts nodes that all know each other.
    pub(crate) async fn start(count: usize) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(node().await);
        }
        nodes.sort_by_key(|node| node.host_id().0);
        let ring = Self { nodes };
        ring.tell();
        ring
    }

    /// Each node as the others tell of it.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.nodes.iter().map(Node::as_peer).collect()
    }

    /// Tells all nodes of all others.
    pub(crate) fn tell(&self) {
        self.tell_of(&self.peers());
    }

    /// Tells all nodes of `peers`, each but itself.
    pub(crate) fn tell_of(&self, peers: &[Peer]) {
        for node in &self.nodes {
            let others = peers.iter().filter(|peer| peer.host_id != Some(node.host_id()));
            node.set_peers(others.cloned().collect());
        }
    }

    /// All nodes announce something.
    pub(crate) fn announce(&self, announcement: &Announcement) {
        for node in &self.nodes {
            node.announce(announcement.clone());
        }
    }

    pub(crate) fn address(&self, index: usize) -> String {
        self.nodes[index].address().to_string()
    }
}

/// A node alone.
pub(crate) async fn node() -> Node {
    let options = Options {
        listen: SocketAddr::new(own_network(1).ip(), 0),
        ..Options::default()
    };
    Node::start(options).await.unwrap()
}

/// An address that no other test of this process has, in a network of its own.
pub(crate) fn own_network(last: u8) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    SocketAddr::from(([127, 100 + high, low, last], 0))
}

/// A rule for listeners: addresses of a network of their own, at a port that was free a moment ago.
pub(crate) struct Rule {
    network: Ipv4Addr,
    pub(crate) port: u16,
}

impl Rule {
    pub(crate) fn new() -> Self {
        let SocketAddr::V4(first) = own_network(1) else {
            panic!("it is version 4")
        };
        let socket = TcpListener::bind(first).unwrap();
        Self {
            network: *first.ip(),
            port: socket.local_addr().unwrap().port(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let [a, b, c, _] = self.network.octets();
        format!("{a}.{b}.{c}.{{n}}:{}", self.port)
    }

    pub(crate) fn nth(&self, number: u8) -> SocketAddr {
        let [a, b, c, _] = self.network.octets();
        SocketAddr::from(([a, b, c, number], self.port))
    }
}

/// A proxy that follows a cluster.
pub(crate) struct Followed {
    pub(crate) proxy: Proxy,
    pub(crate) admin: SocketAddr,
}

/// Starts a proxy for the cluster that `contact` tells of; waits for nothing.
pub(crate) fn follow(contact: &str, arguments: &[&str]) -> Followed {
    let admin = free_address();
    let admin_text = admin.to_string();
    let own = [
        "--topology",
        "cluster",
        "--upstream",
        contact,
        "--admin",
        &admin_text,
    ];
    Followed {
        proxy: Proxy::spawn(PROGRAM, &[&own, arguments].concat()),
        admin,
    }
}

impl Followed {
    /// What /readyz says.
    pub(crate) fn status(&self) -> (u16, Value) {
        let answer = get(self.admin, "/readyz");
        (answer.code, answer.json())
    }

    /// Waits until /readyz says what is `wanted`.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.proxy_serves_admin().await;
        let deadline = Instant::now() + LIMIT;
        loop {
            let (_, status) = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "never: {what}\n{status:#}\n{}",
                self.proxy.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until as many listeners are open.
    pub(crate) async fn listening(&mut self, count: usize) -> Value {
        let open = |status: &Value| -> usize {
            let listeners = status["listeners"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            listeners
                .iter()
                .filter(|listener| listener["state"] == "open")
                .count()
        };
        self.until(&format!("{count} open listeners"), |status| open(status) == count)
            .await
    }

    async fn proxy_serves_admin(&mut self) {
        let deadline = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(self.admin).is_err() {
            assert!(
                Instant::now() < deadline,
                "no admin listener\n{}",
                self.proxy.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) async fn client(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default())
        .await
        .unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// The host id of the node that a connection to `address` leads to.
pub(crate) async fn host_id_at(address: SocketAddr) -> String {
    host_id(&mut client(address).await).await
}

pub(crate) async fn host_id(client: &mut Client) -> String {
    let answer = client.query("SELECT host_id FROM system.local").await.unwrap();
    answer.shown()[0][0].clone()
}

/// Waits until nobody listens at `address`.
pub(crate) async fn until_refused(address: SocketAddr) {
    let deadline = Instant::now() + LIMIT;
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "{address} still accepts");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

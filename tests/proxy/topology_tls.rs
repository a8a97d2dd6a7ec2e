//! TLS to each node of a cluster: each shows a certificate of its own, for its own address and no other.

use std::{net::SocketAddr, path::Path};

use cqlens_client::{Client, ClientError, ClientOptions};
use cqlens_node::{Announcement, Node, Options, Peer};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck, TlsIdentity};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::proxy::{
    certificates::{Authority, BOTH, Issued, accept, acceptor, forward},
    ring::{Followed, Rule, follow, host_id, own_network},
    wire::{LIMIT, report},
};

/// A node that speaks TLS with those who show a certificate, and nothing else.
struct Secured {
    node: Node,
    /// Where it tells others to connect.
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Secured {
    /// `shown` is given the address at which clients reach it.
    async fn start(authority: &Authority, shown: impl FnOnce(&str) -> Issued) -> Self {
        let listener = TcpListener::bind(own_network(1)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options {
            listen: SocketAddr::new(address.ip(), 0),
            advertise: Some(address),
            ..Options::default()
        };
        let node = Node::start(options).await.unwrap();
        let acceptor = acceptor(&shown(&address.ip().to_string()), Some(authority), BOTH);
        let accepting = tokio::spawn(accept(listener, acceptor, forward(node.address())));
        Self {
            node,
            address,
            accepting,
        }
    }

    fn as_peer(&self) -> Peer {
        Peer {
            native: Some(self.address),
            ..self.node.as_peer()
        }
    }

    async fn stop(self) {
        self.accepting.abort();
        self.node.shutdown().await;
    }
}

/// One authority for all.
struct Setup {
    folder: TempDir,
    authority: Authority,
    proxy: Issued,
    client: Issued,
    rule: Rule,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority");
        let rule = Rule::new();
        let listeners: Vec<String> = (1..=4).map(|number| rule.nth(number).ip().to_string()).collect();
        let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
        Self {
            proxy: authority.issue("proxy", &listeners),
            client: authority.issue("client", &["somebody.example"]),
            authority,
            folder,
            rule,
        }
    }

    /// A node whose certificate is for its own address.
    async fn node(&self) -> Secured {
        Secured::start(&self.authority, |address| {
            self.authority.issue(address, &[address])
        })
        .await
    }

    /// A node whose certificate is for `host`.
    async fn node_for(&self, host: &str) -> Secured {
        Secured::start(&self.authority, |_address| self.authority.issue(host, &[host])).await
    }

    /// A proxy with TLS on both sides, which shows its certificate on both, and asks clients for theirs.
    fn follow(&self, contacts: &str, more: &[&str]) -> Followed {
        let (certificate, key, ca) = (
            text(&self.proxy.certificate),
            text(&self.proxy.key),
            text(&self.authority.file),
        );
        let report = self.folder.path().join("report.json");
        let (report, rule) = (text(&report), self.rule.text());
        let arguments = [
            &["--listen", &rule, "--report", report][..],
            &["--client-tls-cert", certificate, "--client-tls-key", key],
            &["--client-tls-ca", ca, "--upstream-tls-ca", ca],
            &["--upstream-tls-cert", certificate, "--upstream-tls-key", key],
            more,
        ];
        follow(contacts, &arguments.concat())
    }

    /// A client of the listener with this number, which looks for the listener's address in the certificate.
    async fn connect(&self, number: u8) -> Result<Client, ClientError> {
        let address = self.rule.nth(number);
        let authorities = Authorities::read(&self.authority.file).unwrap();
        let identity = TlsIdentity::read(&self.client.certificate, &self.client.key).unwrap();
        let name = address.ip().to_string();
        let options = ClientOptions {
            tls: Some(std::sync::Arc::new(
                Connector::new(authorities, Some(identity), &name, HostnameCheck::On).unwrap(),
            )),
            timeout: LIMIT,
            ..ClientOptions::default()
        };
        Client::connect(address, &options).await
    }

    /// The host id of the node that the listener with this number leads to.
    async fn host_id_at(&self, number: u8) -> String {
        host_id(&mut self.connect(number).await.unwrap()).await
    }

    /// Stops the proxy; the failures of TLS in its report, and its log.
    fn stop(&self, followed: Followed) -> (serde_json::Value, String) {
        let ended = followed.proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report = report(&self.folder.path().join("report.json"));
        (report["coverage"]["tls_failures"].clone(), ended.log)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Tells all nodes of all others.
fn tell(nodes: &[Secured]) {
    for one in nodes {
        let others = nodes.iter().filter(|other| other.address != one.address);
        one.node.set_peers(others.map(Secured::as_peer).collect());
    }
}

fn by_host_id(mut nodes: Vec<Secured>) -> Vec<Secured> {
    nodes.sort_by_key(|node| node.node.host_id().0);
    tell(&nodes);
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_is_known_by_the_certificate_for_its_own_address() {
    let setup = Setup::new();
    let mut nodes = by_host_id(vec![setup.node().await, setup.node().await, setup.node().await]);
    let contact = nodes[0].address.to_string();
    let state = setup.folder.path().join("nodes.toml");
    let mut followed = setup.follow(&contact, &["--state-file", text(&state)]);
    followed.listening(3).await;
    for (number, node) in (1..).zip(&nodes) {
        assert_eq!(setup.host_id_at(number).await, node.node.host_id().to_string());
    }

    // The node of the control connection goes, and another one comes: only the nodes that were never named
    // can tell of it, and only to those who look for their addresses in their certificates.
    nodes.remove(0).stop().await;
    nodes.push(setup.node().await);
    tell(&nodes);
    let joined = nodes.last().unwrap();
    for node in &nodes {
        node.node
            .announce(Announcement::Topology("NEW_NODE", joined.address));
    }
    let address = joined.address.to_string();
    let wanted = |status: &serde_json::Value| {
        let listeners = status["listeners"].as_array().unwrap().iter();
        let mut of_it = listeners.filter(|listener| listener["upstream"] == address.as_str());
        of_it.any(|listener| listener["state"] == "open")
    };
    let status = followed
        .until("a listener for the node that has come", wanted)
        .await;
    let mut listeners = status["listeners"].as_array().unwrap().iter();
    let listener = listeners
        .find(|listener| listener["upstream"] == address.as_str())
        .unwrap();
    let listen: SocketAddr = listener["listen"].as_str().unwrap().parse().unwrap();
    let number = (1..=4).find(|&number| setup.rule.nth(number) == listen).unwrap();
    assert_eq!(setup.host_id_at(number).await, joined.node.host_id().to_string());
    let (failures, log) = setup.stop(followed);
    assert_eq!(failures, serde_json::json!({}), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_the_certificate_of_another_is_refused_and_named() {
    let setup = Setup::new();
    let honest = setup.node().await;
    let honest_address = honest.address;
    let poses = setup.node_for(&honest_address.ip().to_string()).await;
    let posing = poses.address;
    let nodes = by_host_id(vec![honest, poses]);
    let mut followed = setup.follow(&honest_address.to_string(), &[]);
    followed.listening(2).await;
    for (number, node) in (1..).zip(&nodes) {
        let connected = setup.connect(number).await;
        assert_eq!(
            connected.is_ok(),
            node.address == honest_address,
            "{:?}",
            connected.err()
        );
    }
    let (failures, log) = setup.stop(followed);
    assert_eq!(failures, serde_json::json!({"upstream": 1}), "{log}");
    let said: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("no TLS with the upstream"))
        .collect();
    let [said] = said.as_slice() else {
        panic!("it is said once:\n{log}")
    };
    assert!(
        said.contains(&format!("upstream={posing}"))
            && said.contains(&format!("not valid for name \"{}\"", posing.ip())),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_point_with_the_certificate_of_another_is_named_and_the_next_one_is_asked() {
    let setup = Setup::new();
    let honest = setup.node().await;
    let poses = setup.node_for(&honest.address.ip().to_string()).await;
    let posing = poses.address.to_string();
    let honest_address = honest.address.to_string();
    let nodes = by_host_id(vec![honest, poses]);
    let mut alone = setup.follow(&posing, &[]);
    let status = alone
        .until("the reason", |status| {
            !status["control_connection_error"].is_null()
        })
        .await;
    let why = status["control_connection_error"].as_str().unwrap();
    assert!(
        why.contains(&posing) && why.contains("not valid for name"),
        "{why}"
    );
    assert_eq!(status["state"], "waiting");
    setup.stop(alone);

    let mut followed = setup.follow(&format!("{posing},{honest_address}"), &[]);
    followed.listening(nodes.len()).await;
    setup.stop(followed);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_name_may_stand_for_all_nodes() {
    let setup = Setup::new();
    let nodes = by_host_id(vec![
        setup.node_for("cluster.example").await,
        setup.node_for("cluster.example").await,
    ]);
    let contact = nodes[1].address.to_string();
    let mut followed = setup.follow(&contact, &["--upstream-tls-name", "cluster.example"]);
    followed.listening(2).await;
    for (number, node) in (1..).zip(&nodes) {
        assert_eq!(setup.host_id_at(number).await, node.node.host_id().to_string());
    }
    let (failures, log) = setup.stop(followed);
    assert_eq!(failures, serde_json::json!({}), "{log}");
}

//! One listener for each node of a cluster, each paired with its node, now and after a restart.

use std::net::SocketAddr;

use cqlens_node::Announcement;

use crate::proxy::{
    ring::{Ring, Rule, follow, host_id_at, node},
    wire::LIMIT,
};

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_leads_to_its_own_node() {
    let ring = Ring::start(3).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(1), &["--listen", &rule.text()]);
    let status = followed.listening(3).await;
    // In the order of their host ids, several times each.
    for _ in 0..3 {
        for (number, node) in (1..).zip(&ring.nodes) {
            assert_eq!(host_id_at(rule.nth(number)).await, node.host_id().to_string());
        }
    }
    assert_eq!(status["state"], "accepting");
    assert_eq!(status["listen"], rule.text());
    assert_eq!(status["upstream"], ring.address(1));
    assert_eq!(status["bypass"], serde_json::Value::Null, "{status}");
    assert_eq!(status["listeners"][0]["listen"], rule.nth(1).to_string());
    assert_eq!(
        status["listeners"][0]["upstream"].as_str().map(str::is_empty),
        Some(false)
    );
    let ended = followed.proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    for number in 1..=3 {
        assert!(std::net::TcpStream::connect(rule.nth(number)).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_may_listen_at_the_ports_of_one_address() {
    let ring = Ring::start(2).await;
    // Nobody else has this address.
    let first = Rule::new().nth(1);
    let rule = format!("{first}-{}", first.port().saturating_add(1));
    let mut followed = follow(&ring.address(0), &["--listen", &rule]);
    followed.listening(2).await;
    for (offset, node) in (0..).zip(&ring.nodes) {
        let address = SocketAddr::new(first.ip(), first.port() + offset);
        assert_eq!(host_id_at(address).await, node.host_id().to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_gives_every_node_the_address_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("nodes.toml");
    let state = state.to_str().unwrap();
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let arguments = ["--listen", &rule.text(), "--state-file", state];
    let mut followed = follow(&ring.address(0), &arguments);
    followed.listening(2).await;
    // A node joins that is not the last by its id: the order of ids would give other addresses.
    let joined = loop {
        let new = node().await;
        if new.host_id().0 < ring.nodes[1].host_id().0 {
            break new;
        }
    };
    ring.nodes.push(joined);
    ring.tell();
    let joined = ring.nodes.last().unwrap().address();
    ring.announce(&Announcement::Topology("NEW_NODE", joined));
    let count = ring.nodes.len();
    followed.listening(count).await;
    let mut before = Vec::new();
    for number in (1..).take(count) {
        before.push(host_id_at(rule.nth(number)).await);
    }
    assert!(!before.is_sorted(), "{before:?}");
    assert_eq!(followed.proxy.stop(LIMIT).code, 0);

    // By another contact point, too.
    let mut followed = follow(&ring.address(1), &arguments);
    followed.listening(count).await;
    for (number, host_id) in (1..).zip(&before) {
        assert_eq!(host_id_at(rule.nth(number)).await, *host_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_the_nodes_among_them() {
    let ring = Ring::start(3).await;
    let rule = Rule::new();
    let map: Vec<_> = (1..)
        .zip(&ring.nodes)
        .map(|(number, node)| format!("{}={}", node.host_id(), rule.nth(number)))
        .collect();
    let map = map.join(",");
    let own = ring.nodes[0].host_id().to_string();
    let others = [1, 2].map(|index| ring.address(index)).join(",");
    let mut one = follow(&ring.address(0), &["--map", &map, "--listen-for", &own]);
    let mut other = follow(&ring.address(0), &["--map", &map, "--listen-for", &others]);
    let status = one.listening(1).await;
    assert_eq!(
        status["bypass"],
        "Of 3 nodes, this proxy listens for 1. Traffic to the 2 with other listeners is in their reports."
    );
    let states = |status: &serde_json::Value| -> Vec<String> {
        let listeners = status["listeners"].as_array().unwrap().iter();
        listeners
            .map(|listener| listener["state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        states(&status)
            .iter()
            .filter(|state| *state == "elsewhere")
            .count(),
        2
    );
    other.listening(2).await;
    for (number, node) in (1..).zip(&ring.nodes) {
        assert_eq!(host_id_at(rule.nth(number)).await, node.host_id().to_string());
    }
    // Each listener is one process's: without it, nobody is there.
    assert_eq!(one.proxy.stop(LIMIT).code, 0);
    assert!(std::net::TcpStream::connect(rule.nth(1)).is_err());
    assert_eq!(host_id_at(rule.nth(2)).await, ring.nodes[1].host_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_with_one_state_file_agree_on_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("nodes.toml");
    let state = state.to_str().unwrap();
    let ring = Ring::start(2).await;
    let rule = Rule::new();
    let part = |index: usize| {
        let own = ring.address(index);
        follow(
            &ring.address(index),
            &[
                "--listen",
                &rule.text(),
                "--state-file",
                state,
                "--listen-for",
                &own,
            ],
        )
    };
    let (mut one, mut other) = (part(0), part(1));
    one.listening(1).await;
    other.listening(1).await;
    let both = [host_id_at(rule.nth(1)).await, host_id_at(rule.nth(2)).await];
    assert_eq!(
        both,
        [0, 1].map(|index: usize| ring.nodes[index].host_id().to_string())
    );
}

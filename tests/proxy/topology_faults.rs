//! Nodes and settings that do not fit: each is named, the others go on.

use std::{net::TcpListener, process::Command};

use cqlens_node::{Announcement, Node, Options, Peer};

use crate::proxy::{
    ring::{PROGRAM, Ring, Rule, follow, host_id_at, node, own_network},
    wire::LIMIT,
};

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_make_no_sense_are_named_and_the_others_served() {
    let ring = Ring::start(2).await;
    let mut peers = ring.peers();
    let odd = |number: u8, change: &dyn Fn(&mut Peer)| {
        let mut peer = ring.nodes[0].as_peer();
        peer.address = [127, 99, 0, number].into();
        peer.host_id = Some(cqlens_proto::types::Uuid([number; 16]));
        peer.native = Some(([127, 99, 0, number], 9042).into());
        change(&mut peer);
        peer
    };
    peers.push(odd(1, &|peer| peer.host_id = None));
    peers.push(odd(2, &|peer| peer.native = None));
    peers.push(odd(3, &|peer| peer.native = Some(([0, 0, 0, 0], 9042).into())));
    peers.push(odd(4, &|peer| peer.native = Some(ring.nodes[0].address())));
    // As a node has them that is just joining.
    peers.push(odd(5, &|peer| (peer.host_id, peer.native) = (None, None)));
    ring.tell_of(&peers);
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    let status = followed.listening(2).await;
    let problems = status["problems"].as_array().unwrap();
    let id = |number: u8| cqlens_proto::types::Uuid([number; 16]).to_string();
    for (of, about) in [
        ("127.99.0.1".to_owned(), "host_id"),
        (id(2), "rpc_address or native_address is null"),
        (id(3), "broadcast_rpc_address"),
        (id(4), "advertise the same address"),
        ("127.99.0.5".to_owned(), "host_id"),
    ] {
        let is_this = |problem: &str| problem.contains(&of) && problem.contains(about);
        assert!(
            problems.iter().any(|problem| is_this(problem.as_str().unwrap())),
            "{of}: {about}: {status:#}"
        );
    }
    assert_eq!(problems.len(), 5, "{status:#}");
    assert!(
        status["bypass"]
            .as_str()
            .unwrap()
            .contains("Of 7 nodes, this proxy listens for 2")
    );
    for (number, node) in (1..).zip(&ring.nodes) {
        assert_eq!(host_id_at(rule.nth(number)).await, node.host_id().to_string());
    }
    // Said once, and once more when it is over.
    ring.tell();
    ring.announce(&Announcement::Topology("REMOVED_NODE", ring.nodes[0].address()));
    followed
        .until("no problems", |status| status.get("problems").is_none())
        .await;
    let log = followed.proxy.log();
    assert_eq!(log.matches("ERROR").count(), 5, "{log}");
    assert_eq!(log.matches("no longer: ").count(), 5, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_when_a_node_joins_is_tried_again() {
    let mut ring = Ring::start(1).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(1).await;
    let squatter = TcpListener::bind(rule.nth(2)).unwrap();
    let new = node().await;
    let (address, id) = (new.address(), new.host_id().to_string());
    ring.nodes.push(new);
    ring.tell();
    ring.announce(&Announcement::Topology("NEW_NODE", address));
    let status = followed
        .until("a listener that failed", |status| {
            // The problem is told a moment after the state.
            status["listeners"][1]["state"] == "failed" && status["problems"][0].is_string()
        })
        .await;
    let problem = status["problems"][0].as_str().unwrap();
    assert!(
        problem.contains(&format!(
            "listen: cannot listen on {} for the node {address}",
            rule.nth(2)
        )) && problem.contains("in use"),
        "{problem}"
    );
    assert_eq!(host_id_at(rule.nth(1)).await, ring.nodes[0].host_id().to_string());
    drop(squatter);
    let status = followed.listening(2).await;
    assert_eq!(status.get("problems"), None, "{status:#}");
    assert_eq!(host_id_at(rule.nth(2)).await, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_where_no_address_is_left_is_named_and_the_others_are_served() {
    let mut ring = Ring::start(1).await;
    let first = Rule::new().nth(1);
    let rule = format!("{first}-{}", first.port());
    let mut followed = follow(&ring.address(0), &["--listen", &rule]);
    followed.listening(1).await;
    let served = ring.nodes[0].host_id().to_string();
    let new = node().await;
    let address = new.address();
    ring.nodes.push(new);
    ring.tell();
    ring.announce(&Announcement::Topology("NEW_NODE", address));
    let status = followed
        .until("a node without an address", |status| {
            !status["problems"].is_null()
        })
        .await;
    let problem = status["problems"][0].as_str().unwrap();
    let says = format!("listen: {rule} has 1 addresses, too few for the node {address}");
    assert!(problem.contains(&says), "{problem}");
    assert_eq!(host_id_at(first).await, served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_point_that_advertises_no_address_is_named_and_waited_for() {
    let listen = own_network(1);
    let node = Node::start(Options {
        listen,
        advertise: Some(([0, 0, 0, 0], 9042).into()),
        ..Options::default()
    });
    let node = node.await.unwrap();
    let rule = Rule::new();
    let mut followed = follow(&node.address().to_string(), &["--listen", &rule.text()]);
    let status = followed
        .until("a node that leads nowhere", |status| {
            !status["problems"].is_null()
        })
        .await;
    let problem = status["problems"][0].as_str().unwrap();
    assert!(
        problem.contains(&node.host_id().to_string()) && problem.contains("set broadcast_rpc_address"),
        "{problem}"
    );
    assert_eq!((followed.status().0, &status["state"]), (503, &"waiting".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_do_not_fit_the_cluster_end_a_process_that_begins() {
    let ring = Ring::start(3).await;
    let rule = Rule::new();
    let taken = TcpListener::bind(rule.nth(2)).unwrap();
    let two = format!("{}-{}", rule.nth(9), rule.port + 1);
    for (arguments, says) in [
        (
            vec!["--listen", &two],
            format!(
                "listen: {two} has 2 addresses, too few for the node {}",
                ring.address(2)
            ),
        ),
        (
            vec!["--listen", &rule.text()],
            format!(
                "listen: cannot listen on {} for the node {}",
                taken.local_addr().unwrap(),
                ring.address(1)
            ),
        ),
        (
            vec!["--listen", "192.0.2.{n}:9042"],
            format!(
                "listen: cannot listen on 192.0.2.1:9042 for the node {}",
                ring.address(0)
            ),
        ),
        (
            vec!["--map", &format!("{}={}", ring.address(0), rule.nth(1))],
            format!("map: the node {}", ring.address(1)),
        ),
        (
            vec!["--listen", &rule.text(), "--listen-for", "dc:elsewhere"],
            "listen-for: the cluster has none of these nodes".to_owned(),
        ),
        (
            vec!["--listen", &rule.text(), "--state-file", "/nowhere/nodes.toml"],
            "the state file /nowhere/nodes.toml (state-file)".to_owned(),
        ),
    ] {
        let mut followed = follow(&ring.address(0), &arguments);
        followed.proxy.wait_for_log(&says);
        let ended = followed.proxy.wait(LIMIT);
        assert_eq!(ended.code, 2, "{}", ended.log);
    }
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_asked() {
    for (arguments, says) in [
        (
            &["--listen", "127.0.0.1:9042"][..],
            "listen: 127.0.0.1:9042 is one address",
        ),
        (&[], "listen: 127.0.0.1:9142 is one address"),
        (
            &["--listen", "0.0.0.0:9042+"],
            "listen: clients would be told to connect to 0.0.0.0:9042+, which is not reachable",
        ),
        (
            &["--listen", "127.0.1.{n}:9042", "--map", "10.0.0.1=127.0.1.7:9042"],
            "map: 127.0.1.7:9042, the listen address of 10.0.0.1, overlaps with listen (127.0.1.{n}:9042)",
        ),
        (
            &["--listen", "127.0.1.{n}:9042", "--no-control-connection"],
            "topology = cluster needs the control connection",
        ),
        (
            &["--listen", "127.0.1.{n}:9042", "--transparent"],
            "transparent: it leaves addresses as they are",
        ),
        (
            &["--listen", "127.0.1.{m}:9042"],
            "one for each node: 127.0.1.{n}:9042",
        ),
    ] {
        let output = Command::new(PROGRAM)
            .args(["proxy", "--topology", "cluster", "--upstream", "127.0.0.1:1"])
            .args(arguments)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(2));
    }
}

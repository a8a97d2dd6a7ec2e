//! A cluster that changes while clients are connected.

use std::net::SocketAddr;

use cqlens_node::Announcement;

use crate::proxy::{
    ring::{Ring, Rule, client, follow, host_id, host_id_at, node, until_refused},
    settings::File,
    support::proxy::Proxy,
    wire::LIMIT,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_gets_a_listener_and_the_others_notice_nothing() {
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    let mut connected = client(rule.nth(1)).await;
    let new = node().await;
    let (address, id) = (new.address(), new.host_id().to_string());
    ring.nodes.push(new);
    ring.tell();
    ring.announce(&Announcement::Topology("NEW_NODE", address));
    followed.listening(3).await;
    assert_eq!(host_id_at(rule.nth(3)).await, id);
    assert_eq!(host_id(&mut connected).await, ring.nodes[0].host_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_is_drained_and_its_address_stays_free() {
    let mut ring = Ring::start(3).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text(), "--grace", "5s"]);
    followed.listening(3).await;
    let (mut staying, mut leaving) = (client(rule.nth(1)).await, client(rule.nth(2)).await);
    host_id(&mut leaving).await;
    let left = ring.nodes.remove(1);
    ring.tell();
    ring.announce(&Announcement::Topology("REMOVED_NODE", left.address()));
    followed.listening(2).await;
    until_refused(rule.nth(2)).await;
    // Idle connections are closed at once; a request would be answered before that.
    assert!(leaving.query("SELECT host_id FROM system.local").await.is_err());
    assert_eq!(host_id(&mut staying).await, ring.nodes[0].host_id().to_string());
    // Who comes gets another address, and who comes back its own.
    ring.nodes.push(node().await);
    let new = ring.nodes[2].host_id().to_string();
    ring.tell();
    ring.announce(&Announcement::Topology("NEW_NODE", ring.nodes[2].address()));
    followed.listening(3).await;
    assert_eq!(host_id_at(rule.nth(4)).await, new);
    let id = left.host_id().to_string();
    ring.nodes.push(left);
    ring.tell();
    ring.announce(&Announcement::Topology("NEW_NODE", ring.nodes[3].address()));
    followed.listening(4).await;
    assert_eq!(host_id_at(rule.nth(2)).await, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_down_keeps_its_listener() {
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    let down = ring.nodes.remove(1);
    let address = down.address();
    down.shutdown().await;
    ring.announce(&Announcement::Status("DOWN", address));
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    followed.listening(2).await;
    // As without a proxy: nobody answers.
    let refused = cqlens_client::Client::connect(rule.nth(2), &Default::default()).await;
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_changes_its_address_stays_where_clients_know_it() {
    let ring = Ring::start(2).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    let (mut before, mut other) = (client(rule.nth(2)).await, client(rule.nth(1)).await);
    assert_eq!(host_id(&mut before).await, ring.nodes[1].host_id().to_string());
    // The same identity elsewhere; the node there says who it was born as.
    let moved = node().await;
    let mut peer = ring.nodes[1].as_peer();
    peer.native = Some(moved.address());
    ring.nodes[0].set_peers(vec![peer]);
    ring.nodes[0].announce(Announcement::Topology("MOVED_NODE", moved.address()));
    followed.proxy.wait_for_log("forwarding to another address");
    followed
        .until("the new address", |status| {
            status["listeners"][1]["upstream"] == moved.address().to_string()
        })
        .await;
    assert_eq!(host_id_at(rule.nth(2)).await, moved.host_id().to_string());
    assert!(before.next_event().await.is_err(), "it led to the old address");
    assert_eq!(host_id(&mut other).await, ring.nodes[0].host_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_connection_goes_on_with_another_node() {
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let contact = ring.nodes.remove(0);
    let mut followed = follow(&contact.address().to_string(), &["--listen", &rule.text()]);
    followed.listening(2).await;
    followed
        .until("a control connection", |status| {
            status["control_connection"] == "open"
        })
        .await;
    contact.shutdown().await;
    followed.proxy.wait_for_log("control connection lost");
    // What only the other one can tell.
    let new = node().await;
    let peers = vec![new.as_peer()];
    ring.nodes[0].set_peers(peers);
    ring.announce(&Announcement::Topology("NEW_NODE", new.address()));
    let id = new.host_id().to_string();
    followed
        .until("the new node", |status| {
            status.to_string().contains(&id) && status["control_connection"] == "open"
        })
        .await;
    assert_eq!(host_id_at(rule.nth(3)).await, new.host_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_changes_moves_one_node_and_disturbs_no_other() {
    let ring = Ring::start(2).await;
    let (rule, admin) = (Rule::new(), cqlens_testing::proxy::free_address());
    let settings = |second: SocketAddr| {
        let (one, other) = (ring.address(0), ring.nodes[1].host_id());
        format!(
            "[proxy]\ntopology = 'cluster'\nupstream = ['{one}']\nadmin = '{admin}'\n[proxy.map]\n'{one}' = '{}'\n{other} = '{second}'\n",
            rule.nth(1)
        )
    };
    let file = File::new(&settings(rule.nth(2)));
    let mut proxy = Proxy::spawn(
        crate::proxy::ring::PROGRAM,
        &["--config", file.path().to_str().unwrap()],
    );
    proxy.wait_for_log(&format!("listen={}", rule.nth(2)));
    let mut untouched = client(rule.nth(1)).await;
    file.write(&settings(rule.nth(3)));
    let answer = crate::proxy::admin::post(admin, "/reload");
    assert_eq!(
        answer.json()["applied"],
        serde_json::json!(["map"]),
        "{}",
        answer.body
    );
    assert_eq!(host_id_at(rule.nth(3)).await, ring.nodes[1].host_id().to_string());
    until_refused(rule.nth(2)).await;
    assert_eq!(host_id(&mut untouched).await, ring.nodes[0].host_id().to_string());
    // What cannot work changes nothing.
    file.write(&settings(rule.nth(1)));
    let refused = crate::proxy::admin::post(admin, "/reload");
    assert_eq!(refused.code, 422);
    assert!(
        refused.body.contains("have the same listen address"),
        "{}",
        refused.body
    );
    // What was settled at the start waits for the next one.
    file.write(
        &settings(rule.nth(3)).replace("'cluster'\n", "'cluster'\nstate-file = '/nowhere/nodes.toml'\n"),
    );
    let waits = crate::proxy::admin::post(admin, "/reload");
    assert_eq!(waits.json()["need_restart"], serde_json::json!(["state-file"]));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

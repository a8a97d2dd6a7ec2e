//! What clients are told of a cluster leads to listeners, from the first connection on and when nodes join.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use cqlens::node::Announcement;
use cqlens_proto::message::{Event, Extensions, Register, Request, Response};

use crate::ring::{Ring, Rule, client, follow, host_id_at, node};

#[tokio::test(flavor = "multi_thread")]
async fn clients_learn_listeners_in_place_of_nodes() {
    let ring = Ring::start(3).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(2), &["--listen", &rule.text()]);
    followed.listening(3).await;
    for number in 1..=3 {
        let mut client = client(rule.nth(number)).await;
        let local = client
            .query("SELECT rpc_address, rpc_port FROM system.local")
            .await
            .unwrap();
        let own = rule.nth(number);
        assert_eq!(local.shown(), [[own.ip().to_string(), own.port().to_string()]]);
        let peers = client
            .query("SELECT native_address, native_port FROM system.peers_v2")
            .await
            .unwrap();
        let told: BTreeSet<_> = peers.shown().into_iter().map(|row| row.join(":")).collect();
        let others = (1..=3).filter(|other| *other != number);
        assert_eq!(told, others.map(|other| rule.nth(other).to_string()).collect());
        let peers = client
            .query("SELECT rpc_address FROM system.peers")
            .await
            .unwrap();
        assert_eq!(peers.rows.len(), 2);
        assert!(
            peers
                .shown()
                .iter()
                .flatten()
                .all(|address| *address != own.ip().to_string())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hears_of_a_node_can_connect_to_it_at_once() {
    let mut ring = Ring::start(2).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    let mut listening = client(rule.nth(1)).await;
    let register = Register {
        event_types: vec!["TOPOLOGY_CHANGE", "STATUS_CHANGE"],
    };
    listening.call(&Request::Register(register)).await.unwrap();
    let new = node().await;
    let (address, id) = (new.address(), new.host_id().to_string());
    ring.nodes.push(new);
    // As nodes do it: the event first, the rows a moment later.
    ring.announce(&Announcement::Topology("NEW_NODE", address));
    tokio::time::sleep(Duration::from_millis(300)).await;
    ring.tell();
    let event = tokio::time::timeout(crate::wire::LIMIT, listening.next_event());
    let event = event.await.unwrap().unwrap();
    let Response::Event(Event::TopologyChange(change)) =
        Response::decode(&event, Extensions::NONE).unwrap().message
    else {
        panic!("{event:?}");
    };
    let told = SocketAddr::new(change.address, u16::try_from(change.port).unwrap());
    assert_eq!((change.change, told), ("NEW_NODE", rule.nth(3)));
    assert_eq!(host_id_at(told).await, id);
}

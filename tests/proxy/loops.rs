//! What would lead from cqlens back to cqlens: a node that announces a listener of it as its address, settings that
//! name one as the node.

use std::{io::Write as _, process::Command};

use cqlens_node::{Announcement, Peer};
use cqlens_proto::types::Uuid;

use crate::proxy::{
    ring::{PROGRAM, Ring, Rule, follow, host_id_at},
    shadow::{node, runtime, traffic},
    support::proxy::{Proxy, free_address},
    wire::{LIMIT, connect, envelope, read_to_end},
};

/// As a wrong `broadcast_rpc_address` has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_announces_a_listener_of_cqlens_takes_no_seats() {
    let ring = Ring::start(1).await;
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(1).await;
    let mut wrong = ring.nodes[0].as_peer();
    wrong.address = [127, 99, 0, 1].into();
    // The second of the two, whose listener is its own address.
    wrong.host_id = Some(Uuid([0xff; 16]));
    wrong.native = Some(rule.nth(2));
    let mut peers = ring.peers();
    peers.push(wrong);
    ring.tell_of(&peers);
    ring.announce(&Announcement::Topology("NEW_NODE", rule.nth(2)));
    followed.listening(2).await;
    for _ in 0..3 {
        // OPTIONS, as drivers begin.
        let mut client = connect(rule.nth(2));
        client.write_all(&envelope(4, 3, 0x05, &[])).unwrap();
        let error = String::from_utf8_lossy(&read_to_end(&mut client)).into_owned();
        assert!(
            error.contains("leads back to a listener of cqlens") && error.contains("broadcast_rpc_address"),
            "{error}"
        );
    }
    assert_eq!(host_id_at(rule.nth(1)).await, ring.nodes[0].host_id().to_string());
    assert!(
        followed
            .proxy
            .log()
            .contains("leads back to a listener of cqlens")
    );
}

#[test]
fn a_node_that_is_the_listener_is_refused_at_the_start_and_by_check() {
    let address = free_address();
    let port = address.port();
    for (listen, upstream) in [
        (address.to_string(), address.to_string()),
        (format!("0.0.0.0:{port}"), address.to_string()),
        (format!("0.0.0.0:{port}"), format!("127.0.0.7:{port}")),
        (format!("0.0.0.0:{port}"), format!("localhost:{port}")),
        (address.to_string(), format!("0.0.0.0:{port}")),
        (format!("[::]:{port}"), address.to_string()),
    ] {
        for more in [&[][..], &["--check"]] {
            let output = Command::new(PROGRAM)
                .args(["proxy", "--listen", &listen, "--upstream", &upstream])
                .args(more)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{listen} {upstream}: {said}");
            let named = format!("upstream: {upstream} leads back to cqlens, which listens at {listen}");
            assert!(said.contains(&named), "{said}");
        }
    }
}

#[test]
fn a_shadow_that_is_the_listener_is_refused_at_the_start_and_by_check() {
    let (address, upstream) = (free_address(), free_address().to_string());
    let port = address.port();
    for (listen, shadow) in [
        (address.to_string(), address.to_string()),
        (format!("0.0.0.0:{port}"), format!("127.0.0.7:{port}")),
        (format!("0.0.0.0:{port}"), format!("localhost:{port}")),
    ] {
        for more in [&["--check"][..], &[]] {
            let output = Command::new(PROGRAM)
                .args(["proxy", "--listen", &listen, "--upstream", &upstream, "--shadow"])
                .args([&shadow])
                .args(more)
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{listen} {shadow}: {said}");
            let named = format!("shadow: {shadow} leads back to cqlens, which listens at {listen}");
            assert!(said.contains(&named), "{said}");
        }
    }
}

/// Each copy would be copied again.
#[test]
fn a_shadow_that_announces_the_listener_gets_no_copies_there() {
    let runtime = runtime();
    let (first, other) = (node(&runtime, ""), node(&runtime, ""));
    let address = free_address();
    other.set_peers(vec![Peer {
        address: [127, 99, 0, 1].into(),
        host_id: Some(Uuid([0xff; 16])),
        native: Some(address),
        ..other.as_peer()
    }]);
    let shadow = other.address().to_string();
    let mut proxy = Proxy::start_at(address, PROGRAM, first.address(), &["--shadow", &shadow]);
    proxy.wait_for_log("leads back to a listener of cqlens");
    runtime.block_on(traffic(address, 1));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

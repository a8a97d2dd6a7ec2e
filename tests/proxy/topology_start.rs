//! In which order things start does not matter; and who is not let in says so.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use cqlens::node::{Node, Options};

use crate::{
    ring::{PROGRAM, Ring, Rule, follow, host_id_at},
    support::proxy::Proxy,
    wire::{self, LIMIT, connect},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_later_is_waited_for() {
    let ring = Ring::start(1).await;
    let address = ring.nodes[0].address();
    let [node] = ring.nodes.try_into().unwrap();
    node.shutdown().await;
    let rule = Rule::new();
    // The first of the contact points stays away.
    let contacts = format!("127.99.1.1:1,{address}");
    let mut followed = follow(&contacts, &["--listen", &rule.text()]);
    let status = followed
        .until("the reason", |status| {
            !status["control_connection_error"].is_null()
        })
        .await;
    assert_eq!(followed.status().0, 503);
    assert_eq!(
        (&status["state"], &status["control_connection"]),
        (&"waiting".into(), &"trying".into())
    );
    assert!(TcpStream::connect(rule.nth(1)).is_err());
    let node = Node::start(Options {
        listen: address,
        ..Options::default()
    });
    let node = node.await.unwrap();
    let status = followed.listening(1).await;
    assert_eq!(
        (followed.status().0, &status["state"]),
        (200, &"accepting".into())
    );
    followed
        .until("no trouble", |status| {
            status["control_connection_error"].is_null()
        })
        .await;
    assert_eq!(host_id_at(rule.nth(1)).await, node.host_id().to_string());
}

#[test]
fn a_process_that_is_to_refuse_does_not_start_without_a_cluster() {
    for more in [
        &["--topology", "cluster", "--listen", "127.0.1.{n}:9042"][..],
        &[],
    ] {
        let output = Command::new(PROGRAM)
            .args([
                "proxy",
                "--upstream",
                "127.99.1.1:1",
                "--start-without-cluster",
                "refuse",
            ])
            .args(more)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains("start-without-cluster: no node lets cqlens in: cannot connect to 127.99.1.1:1"),
            "{error}"
        );
    }
}

/// A node that wants to know who asks, and takes nobody.
fn asking() -> wire::Node {
    wire::Node::start(|mut connection| {
        let mut header = [0; 9];
        while connection.read_exact(&mut header).is_ok() {
            let length = u32::from_be_bytes(header[5..9].try_into().unwrap());
            let mut body = vec![0; usize::try_from(length).unwrap()];
            connection.read_exact(&mut body).unwrap();
            let class = b"org.apache.cassandra.auth.PasswordAuthenticator";
            let mut authenticate = u16::try_from(class.len()).unwrap().to_be_bytes().to_vec();
            authenticate.extend(class);
            let answer = wire::envelope(header[0] | 0x80, 0, 0x03, &authenticate);
            if connection.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_node_that_asks_for_a_password_is_forwarded_to_and_the_reason_is_told() {
    let node = asking();
    let admin = crate::support::proxy::free_address();
    let admin_text = admin.to_string();
    let mut proxy = Proxy::start(PROGRAM, node.address, &["--admin", &admin_text]);
    proxy.wait_for_log("the control connection needs a username and password that the node takes");
    let status = crate::admin::get(admin, "/readyz");
    let why = status.json()["control_connection_error"].to_string();
    assert!(
        why.contains("PasswordAuthenticator") && why.contains(&node.address.to_string()),
        "{why}"
    );
    assert_eq!(status.code, 200);
    // Clients that know a password come through.
    let mut client = connect(proxy.address);
    client.write_all(&wire::envelope(4, 0, 0x05, &[])).unwrap();
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[4]), (0x84, 0x03));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_cannot_be_reached_is_as_it_is_without_a_proxy() {
    let ring = Ring::start(1).await;
    let mut gone = ring.nodes[0].as_peer();
    gone.address = [127, 99, 2, 1].into();
    gone.host_id = Some(cqlens_proto::types::Uuid([0xff; 16]));
    gone.native = Some(([127, 99, 2, 1], 1).into());
    ring.nodes[0].set_peers(vec![gone]);
    let rule = Rule::new();
    let mut followed = follow(&ring.address(0), &["--listen", &rule.text()]);
    followed.listening(2).await;
    // Its listener is there, and what comes to it ends as soon as the node is found to be away.
    let mut client = connect(rule.nth(2));
    assert_eq!(wire::read_to_end(&mut client), b"");
    assert_eq!(host_id_at(rule.nth(1)).await, ring.nodes[0].host_id().to_string());
}

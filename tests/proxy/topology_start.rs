//! In which order things start does not matter; and who is not let in says so.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use cqlens_node::{Node, Options};

use crate::proxy::{
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
            error.contains(
                "start-without-cluster: no node accepts a control connection: cannot connect to 127.99.1.1:1"
            ),
            "{error}"
        );
    }
}

/// A node that wants to know who asks, and takes nobody. It speaks version 4, in which answers stand alone.
fn asking() -> wire::Node {
    wire::Node::start(|mut connection| {
        let mut header = [0; 9];
        while connection.read_exact(&mut header).is_ok() {
            let length = u32::from_be_bytes(header[5..9].try_into().unwrap());
            let mut body = vec![0; usize::try_from(length).unwrap()];
            connection.read_exact(&mut body).unwrap();
            let string = |text: &str| {
                let length = u16::try_from(text.len()).unwrap().to_be_bytes();
                [&length[..], text.as_bytes()].concat()
            };
            let error = |code: u32, why: &str| (ERROR, [&code.to_be_bytes()[..], &string(why)].concat());
            let (opcode, body) = match (header[0], header[4]) {
                (5.., _) => error(PROTOCOL_ERROR, "Invalid or unsupported protocol version"),
                (_, AUTH_RESPONSE) => {
                    error(BAD_CREDENTIALS, "Provided username and/or password are incorrect")
                }
                _ => (
                    AUTHENTICATE,
                    string("org.apache.cassandra.auth.PasswordAuthenticator"),
                ),
            };
            let stream = i16::from_be_bytes([header[2], header[3]]);
            let answer = wire::envelope(0x80 | header[0].min(4), stream, opcode, &body);
            if connection.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

const ERROR: u8 = 0x00;
const AUTHENTICATE: u8 = 0x03;
const AUTH_RESPONSE: u8 = 0x0f;

const PROTOCOL_ERROR: u32 = 0x000a;
const BAD_CREDENTIALS: u32 = 0x0100;

const WRONG: [&str; 4] = ["--username", "reader", "--password", "hunter2"];

#[test]
fn a_node_that_asks_for_a_password_is_forwarded_to_and_the_reason_is_told() {
    let node = asking();
    let admin = cqlens_testing::proxy::free_address();
    let admin_text = admin.to_string();
    let mut proxy = Proxy::start(PROGRAM, node.address, &["--admin", &admin_text]);
    proxy.wait_for_log("the control connection needs a username and password accepted by the node");
    let status = crate::proxy::admin::get(admin, "/readyz");
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
    assert_eq!((answer[0], answer[4]), (0x84, AUTHENTICATE));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_password_that_the_node_does_not_take_is_told_and_not_shown() {
    let node = asking();
    let admin = cqlens_testing::proxy::free_address();
    let admin_text = admin.to_string();
    let arguments = [&["--admin", &admin_text], &WRONG[..]].concat();
    let mut proxy = Proxy::start(PROGRAM, node.address, &arguments);
    proxy.wait_for_log("the control connection needs a username and password accepted by the node");
    let status = crate::proxy::admin::get(admin, "/readyz");
    assert_eq!(status.code, 200);
    let why = status.json()["control_connection_error"].to_string();
    assert!(
        why.contains("BAD_CREDENTIALS") && why.contains(&node.address.to_string()),
        "{why}"
    );
    // It forwards.
    let mut client = connect(proxy.address);
    client.write_all(&wire::envelope(4, 0, 0x05, &[])).unwrap();
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[4]), (0x84, AUTHENTICATE));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0);
    assert!(!(ended.log + &status.body).contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_password_that_the_nodes_take_nobody_knows_the_cluster() {
    let node = asking();
    let rule = Rule::new();
    let rule_text = rule.text();
    let arguments = [&["--listen", &rule_text], &WRONG[..]].concat();
    let mut followed = follow(&node.address.to_string(), &arguments);
    let status = followed
        .until("the reason", |status| {
            let why = status["control_connection_error"].as_str().unwrap_or_default();
            why.contains("needs a username and password accepted by the node")
        })
        .await;
    assert_eq!((followed.status().0, &status["state"]), (503, &"waiting".into()));
    assert!(TcpStream::connect(rule.nth(1)).is_err());
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

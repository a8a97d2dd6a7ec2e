//! Connections that the kernel redirects reach the node that they were going to, and none goes around in a
//! circle.
//!
//! The rules are those of a real machine, in a network namespace of their own, which `unshare` makes without
//! privileges.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
};

use crate::proxy::{
    ring::PROGRAM,
    support::{
        Missing, available,
        namespace::{in_a_network_of_its_own, run, run_all},
        proxy::Proxy,
    },
    wire::{LIMIT, envelope, read_to_end},
};

const INSIDE: &str = "proxy::transparent::inside_a_network_of_its_own";

#[test]
fn redirected_connections_reach_the_node_that_they_were_going_to() {
    let Some(()) = available("redirection by the kernel", tools()) else {
        return;
    };
    in_a_network_of_its_own(INSIDE);
}

fn tools() -> Result<(), Missing> {
    run_all(&[
        ("nft", &["--version"]),
        ("ip", &["-V"]),
        ("unshare", &["--user", "--map-root-user", "--net", "true"]),
    ])
}

/// A node that answers everything with its own address.
pub(crate) fn node(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let own = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 9];
            // A client that only checked whether the port is open sends nothing.
            if connection.read_exact(&mut request).is_ok() {
                let peer = connection.peer_addr().unwrap().ip();
                connection
                    .write_all(format!("{own} to {peer}").as_bytes())
                    .unwrap();
            }
        }
    });
    own
}

/// What is answered to a client with the address `from` that connects to `to`.
pub(crate) fn answered(from: &str, to: SocketAddr) -> String {
    let from: SocketAddr = from.parse().unwrap();
    let socket =
        socket2::Socket::new(socket2::Domain::for_address(from), socket2::Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    if socket.connect(&to.into()).is_err() {
        return "refused".to_owned();
    }
    let mut connection = TcpStream::from(socket);
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    // OPTIONS.
    connection.write_all(&envelope(4, 0, 0x05, &[])).unwrap();
    let mut answer = Vec::new();
    // A circle may end in a reset.
    let _ = connection.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
#[ignore = "it changes the rules of the network that it is in: the test above runs it in one of its own"]
fn inside_a_network_of_its_own() {
    run("ip link set lo up");
    for address in ["fd00::1", "fd00::99"] {
        run(&format!("ip addr add {address}/128 dev lo nodad"));
    }
    let nodes = ["127.20.0.1:9042", "127.20.0.2:9042", "[fd00::1]:9042"].map(node);
    run("nft add table inet t");
    run("nft add chain inet t out { type nat hook output priority -100 ; }");
    run("nft add rule inet t out ip saddr 127.0.0.99 tcp dport 9042 redirect to :9142");
    run("nft add rule inet t out ip6 saddr fd00::99 tcp dport 9042 redirect to :9142");
    let arguments = "--transparent --listen [::]:9142 --upstream 127.20.0.1:9042 --no-control-connection";
    let arguments: Vec<_> = arguments.split(' ').collect();
    let mut proxy = Proxy::launch(PROGRAM, &arguments, &[], None);

    for (from, node) in ["127.0.0.99:0", "127.0.0.99:0", "[fd00::99]:0"]
        .into_iter()
        .zip(nodes)
    {
        let answer = answered(from, node);
        assert!(
            answer.starts_with(&node.to_string()),
            "{node}: {answer:?}\n{}",
            proxy.log()
        );
        // It is cqlens that the node talks to.
        assert!(
            !answer.contains("127.0.0.99") && !answer.contains("fd00::99"),
            "{answer}"
        );
    }
    // Others are not redirected.
    assert_eq!(
        answered("127.0.0.98:0", nodes[0]),
        format!("{} to 127.0.0.98", nodes[0])
    );
    // Nobody listens there: as without a proxy, but for the connection that is accepted first.
    assert_eq!(answered("127.0.0.99:0", "127.20.0.3:9042".parse().unwrap()), "");
    // Who knows the listener is told what is wrong.
    let answer = answered("127.0.0.98:0", "127.0.0.1:9142".parse().unwrap());
    assert!(
        answer.contains("it connected to the listener itself, 127.0.0.1:9142, and was not redirected"),
        "{answer:?}"
    );

    // Rules that take what cqlens sends as well.
    run("nft add rule inet t out tcp dport 9042 redirect to :9142");
    assert_eq!(answered("127.0.0.99:0", nodes[0]), "");
    proxy.wait_for_log("it is cqlens' own connection to 127.20.0.1:9042, redirected back to cqlens");
    run("nft flush chain inet t out");
    run("nft add rule inet t out ip saddr 127.0.0.99 tcp dport 9042 redirect to :9142");
    assert!(answered("127.0.0.99:0", nodes[1]).starts_with("127.20.0.2:9042"));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
}

#[test]
fn without_a_redirection_there_is_nowhere_to_go() {
    let node = node("127.0.0.1:0");
    let proxy = Proxy::start(PROGRAM, node, &["--transparent", "--no-control-connection"]);
    let mut client = crate::proxy::wire::connect(proxy.address);
    client.write_all(&envelope(4, 3, 0x05, &[])).unwrap();
    let answer = read_to_end(&mut client);
    assert_eq!(
        (answer[0], answer[3], answer[4]),
        (0x84, 3, 0),
        "an ERROR on the same stream"
    );
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.contains("was not redirected"), "{text}");
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

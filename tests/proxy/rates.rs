//! Clients that come too fast: all together they wait, one alone is refused.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::proxy::{
    limits::{connect_from, error_in},
    wire::{LIMIT, Node, connect, proxy, query, read_to_end, report, void},
};

const QUERY: &str = "SELECT k FROM s.t";

/// A node that answers every query.
fn node() -> Node {
    Node::start(|mut connection| {
        let mut request = vec![0; query(7, QUERY).len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&void(7)).unwrap();
        }
    })
}

fn ask(client: &mut TcpStream) {
    let mut answer = vec![0; void(7).len()];
    client.write_all(&query(7, QUERY)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, void(7));
}

#[test]
fn together_clients_wait_until_the_process_may_accept_them() {
    let node = node();
    let proxy = proxy(node.address, &["--max-connection-rate", "10"]);
    let begun = Instant::now();
    let mut clients: Vec<_> = (0..30).map(|_| connect(proxy.address)).collect();
    clients.iter_mut().for_each(ask);
    // A second's worth at once, the others a tenth of a second apart.
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1_900), "{took:?}");
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0);
    let said = ended.log.matches("faster than max-connection-rate").count();
    assert!((1..=5).contains(&said), "{}", ended.log);
}

#[test]
fn one_client_that_comes_too_fast_is_told_so_and_others_are_not() {
    let (folder, node) = (tempfile::tempdir().unwrap(), node());
    let file = folder.path().join("report.json");
    let arguments = [
        "--max-connection-rate-per-client",
        "1",
        "--report",
        file.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    let from = |source| connect_from(source, proxy.address);
    let mut first = from("127.0.0.31");
    ask(&mut first);
    // However slow the machine is, some of them come within a second of the one before.
    let refused = (0..20).find_map(|_| {
        let mut client = from("127.0.0.31");
        let (mut header, request) = ([0; 9], query(7, QUERY));
        client.write_all(&request).unwrap();
        client.read_exact(&mut header).unwrap();
        (header[4] == 0).then(|| error_in(&[&header[..], &read_to_end(&mut client)].concat(), &request))
    });
    let message = "cqlens refuses the connection: 1 connection has come from this address within a second, and \
                   max-connection-rate-per-client allows no more";
    assert_eq!(refused, Some((0x1001, message.to_owned())));
    ask(&mut from("127.0.0.32"));
    ask(&mut first);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let refused = &report(&file)["coverage"]["refused_connections"];
    assert_eq!(refused["max-connection-rate-per-client"], 1, "{refused}");
}

//! Bytes out are bytes in, and ends are passed on.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
};

use crate::proxy::wire::{LIMIT, Node, connect, converse, proxy, query, read_to_end, void};

#[test]
fn bytes_pass_unchanged_in_both_directions_whatever_they_are() {
    // Bytes of all values, more than any buffer, from a fixed generator.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()
    };
    let request: Vec<u8> = (0..40_000).flat_map(|_| noise()).collect();
    let answer: &'static [u8] = (0..40_000).flat_map(|_| noise()).collect::<Vec<_>>().leak();
    let (node, received) = Node::answering(answer);
    let proxy = proxy(node.address, &[]);
    assert!(
        converse(proxy.address, &request) == answer,
        "the answer was changed"
    );
    assert!(
        received.recv_timeout(LIMIT).unwrap() == request,
        "the request was changed"
    );
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_client_that_finishes_sending_still_gets_its_answer() {
    let (node, received) = Node::answering(b"the answer");
    let proxy = proxy(node.address, &[]);
    assert_eq!(converse(proxy.address, &query(1, "SELECT")), b"the answer");
    assert_eq!(received.recv_timeout(LIMIT).unwrap(), query(1, "SELECT"));
}

#[test]
fn a_node_that_finishes_sending_can_still_be_sent_to() {
    let (sender, received) = std::sync::mpsc::channel();
    let node = Node::start(move |mut connection| {
        let mut first = [0; 5];
        // The connection that only asked whether the proxy listens sends nothing.
        if connection.read_exact(&mut first).is_err() {
            return;
        }
        connection.shutdown(Shutdown::Write).unwrap();
        sender.send(read_to_end(&mut connection)).unwrap();
    });
    let proxy = proxy(node.address, &[]);
    let mut client = connect(proxy.address);
    client.write_all(b"hello").unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    client.write_all(b", still here").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(received.recv_timeout(LIMIT).unwrap(), b", still here");
}

#[test]
fn a_refused_upstream_closes_the_client_and_says_so_in_one_line() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = proxy(nobody, &[]);
    let mut client = connect(proxy.address);
    assert_eq!(read_to_end(&mut client), b"");
    drop(client);
    let log = proxy.stop(LIMIT).log;
    let lines = log
        .lines()
        .filter(|line| line.contains("upstream refused the connection"));
    // One for the client, one for the connection that asked whether the proxy listens.
    assert_eq!(lines.clone().count(), 2, "{log}");
    assert!(
        lines
            .clone()
            .all(|line| line.contains(&nobody.to_string()) && line.contains("WARN")),
        "{log}"
    );
}

#[test]
fn connections_do_not_notice_each_other() {
    let node = Node::start(|mut connection| {
        let mut header = [0; 9];
        while connection.read_exact(&mut header).is_ok() {
            let length = u32::from_be_bytes(header[5..9].try_into().unwrap());
            let mut body = vec![0; usize::try_from(length).unwrap()];
            if connection.read_exact(&mut body).is_err() {
                return;
            }
            connection
                .write_all(&void(i16::from_be_bytes([header[2], header[3]])))
                .unwrap();
        }
    });
    let proxy = proxy(node.address, &[]);
    let mut good = connect(proxy.address);
    let mut ask = |stream: i16| {
        good.write_all(&query(stream, "SELECT k FROM s.t")).unwrap();
        let mut answer = vec![0; void(0).len()];
        good.read_exact(&mut answer).unwrap();
        assert_eq!(answer, void(stream));
    };
    ask(1);
    let _silent = connect(proxy.address);
    for bad in [
        &b"\x04\x00\x00\x01\x07\x7f\xff\xff\xff"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 100],
        &[4, 0, 0],
    ] {
        let mut client = connect(proxy.address);
        client.write_all(bad).unwrap();
        ask(2);
        drop(client);
        ask(3);
    }
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

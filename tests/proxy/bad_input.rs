//! Whatever a client or a node sends: it passes, it is counted, and nothing else happens.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::proxy::wire::{LIMIT, Node, connect, converse, envelope, proxy, query, report};

/// Sends `request` through the proxy to a node that answers with `answer`; the coverage of the report, after
/// both have passed unchanged and the proxy has ended well.
fn coverage_of(request: &[u8], answer: &'static [u8]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let (node, received) = Node::answering(answer);
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    assert_eq!(converse(proxy.address, request), answer);
    assert_eq!(received.recv_timeout(LIMIT).unwrap(), request);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    report(&file)["coverage"].clone()
}

#[test]
fn garbage_is_forwarded_and_counted() {
    let coverage = coverage_of(
        &[0x9c, 0x13, 0x07, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        b"\x01garbage",
    );
    assert_eq!(coverage["requests"], 0);
    assert_eq!(coverage["opaque_connections"], json!({"unknown-version": 1}));
}

#[test]
fn a_truncated_envelope_is_forwarded() {
    let coverage = coverage_of(&query(1, "SELECT k FROM s.t")[..20], b"");
    assert_eq!(coverage["audited"], 0);
}

#[test]
fn an_envelope_that_claims_two_gigabytes_is_forwarded_and_nothing_is_allocated_for_it() {
    let coverage = coverage_of(b"\x04\x00\x00\x01\x07\x7f\xff\xff\xffSELECT", b"");
    assert_eq!(coverage["opaque_connections"], json!({"impossible-length": 1}));
}

#[test]
fn an_envelope_of_the_greatest_length_is_not_waited_for_by_the_audit() {
    // 256 MB are announced, a few bytes come.
    let coverage = coverage_of(b"\x04\x00\x00\x01\x07\x0f\xff\xff\xffSELECT", b"");
    assert_eq!(coverage["audited"], 0);
}

#[test]
fn tls_on_a_plain_port_is_forwarded_and_named() {
    let client_hello = [
        0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0xaa,
    ];
    let coverage = coverage_of(&client_hello, &[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46]);
    assert_eq!(coverage["opaque_connections"], json!({"tls": 1}));
}

#[test]
fn an_http_request_is_forwarded_and_named() {
    let coverage = coverage_of(
        b"GET / HTTP/1.1\r\nHost: db\r\n\r\n",
        b"\x83\x00\x00\x00\x00\x00\x00\x00\x04oops",
    );
    assert_eq!(coverage["opaque_connections"], json!({"text": 1}));
}

#[test]
fn a_client_that_sends_nothing_disturbs_nobody() {
    let (node, _) = Node::answering(b"");
    let proxy = proxy(node.address, &[]);
    let silent = connect(proxy.address);
    assert_eq!(
        converse(proxy.address, b"\x04\x00\x00\x01\x05\x00\x00\x00\x00"),
        b""
    );
    drop(silent);
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn the_answer_to_an_unknown_version_passes_and_the_connection_goes_on() {
    // OPTIONS at DSE's version 66; Cassandra answers with an ERROR in an envelope of version 5 and keeps
    // listening.
    let refusal = {
        let text = "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)";
        let mut body = 0x0000_000a_u32.to_be_bytes().to_vec();
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
        envelope(0x85, 0, 0x00, &body)
    };
    let expected = refusal.clone();
    let node = Node::start(move |mut connection| {
        let mut request = [0; 9];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&refusal).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    let mut client = connect(proxy.address);
    for version in [66, 65] {
        client.write_all(&envelope(version, 0, 0x05, &[])).unwrap();
        let mut answer = vec![0; expected.len()];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, expected);
    }
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let coverage = report(&file)["coverage"].clone();
    assert_eq!(
        (&coverage["audited"], &coverage["opaque_connections"]),
        (&json!(2), &json!({}))
    );
}

#[test]
fn a_request_that_does_not_decode_is_forwarded_and_counted() {
    // A QUERY whose text is longer than its body.
    let coverage = coverage_of(&envelope(4, 1, 0x07, &[0, 0, 0xff, 0xff, b'S']), &[]);
    assert_eq!(
        (&coverage["requests"], &coverage["undecoded"]),
        (&json!(1), &json!(1))
    );
}

/// The attack: Cassandra refuses what it cannot read and reads on, so that a client could hide from the audit with its first byte.
#[test]
fn a_client_is_audited_after_the_node_has_refused_what_it_could_not_read() {
    let node = Node::start(move |mut connection| {
        let mut request = [0; 4_096];
        while connection.read(&mut request).is_ok_and(|read| read > 0) {
            let answer = match (request[0], request[4]) {
                (4, 0x01) => envelope(0x84, 0, 0x02, &[]),
                (4, _) => envelope(0x84, 1, 0x08, &1_u32.to_be_bytes()),
                _ => envelope(0x85, 0, 0x00, &[&10_u32.to_be_bytes()[..], b"\0\x02no"].concat()),
            };
            connection.write_all(&answer).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    let mut client = connect(proxy.address);
    let mut exchange = |request: &[u8]| {
        client.write_all(request).unwrap();
        let mut header = [0; 9];
        client.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes(header[5..].try_into().unwrap());
        client.read_exact(&mut vec![0; length as usize]).unwrap();
        header[4]
    };
    let startup = envelope(4, 0, 0x01, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
    for unreadable in [
        &envelope(7, 0, 0x05, &[])[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0, 0],
    ] {
        assert_eq!(exchange(unreadable), 0x00);
    }
    assert_eq!(exchange(&startup), 0x02);
    for _ in 0..2 {
        assert_eq!(exchange(&query(1, "SELECT k FROM s.t")), 0x08);
        assert_eq!(exchange(&envelope(127, 0, 0x05, &[])), 0x00);
    }
    assert_eq!(exchange(&query(1, "SELECT k FROM s.t")), 0x08);
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let coverage = report(&file)["coverage"].clone();
    let found = ["audited", "undecoded", "dropped", "responses_lost"].map(|name| coverage[name].clone());
    assert_eq!(
        (found, &coverage["opaque_connections"]),
        ([4, 0, 0, 0].map(Value::from), &json!({}))
    );
}

//! Bodies that are longer than what the audit keeps of one.

use std::io::{Read, Write};

use crate::proxy::wire::{LIMIT, Node, connect, envelope, proxy, query, report};

const LONG: usize = 20 << 20;

/// A row of version 4 with one cell, and a mark at its end.
fn long_row() -> Vec<u8> {
    let head = [
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1][..],
        &u32::try_from(LONG).unwrap().to_be_bytes(),
    ]
    .concat();
    let cell = (0..LONG).map(|at| at.to_le_bytes()[1] ^ at.to_le_bytes()[2]);
    envelope(0x84, 1, 0x08, &head.into_iter().chain(cell).collect::<Vec<_>>())
}

#[test]
fn twenty_megabytes_each_way_pass_unchanged_and_are_counted() {
    let text = format!("INSERT INTO s.t (k, v) VALUES (1, 0x{})", "ab".repeat(LONG / 2));
    let requests = [query(1, "SELECT v FROM s.t WHERE k = 1"), query(1, &text)];
    let answers = [long_row(), envelope(0x84, 1, 0x08, &[0, 0, 0, 1])];
    let startup = envelope(4, 0, 1, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0");
    let ready = envelope(0x84, 0, 2, &[]);
    let exchanges: Vec<_> = std::iter::once((startup, ready))
        .chain(requests.into_iter().zip(answers))
        .collect();
    let script = exchanges.clone();
    let node = Node::start(move |mut connection| {
        for (request, answer) in &script {
            let mut came = vec![0; request.len()];
            // The connection that only asked whether the proxy listens sends nothing.
            if connection.read_exact(&mut came).is_err() {
                return;
            }
            assert!(came == *request, "the request was changed");
            connection.write_all(answer).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let proxy = proxy(node.address, &["--report", file.to_str().unwrap()]);
    let mut client = connect(proxy.address);
    for (request, answer) in &exchanges {
        client.write_all(request).unwrap();
        let mut came = vec![0; answer.len()];
        client.read_exact(&mut came).unwrap();
        assert!(came == *answer, "the answer was changed");
    }
    drop(client);
    assert_eq!(proxy.stop(LIMIT).code, 0);
    let report = report(&file);
    let coverage = &report["coverage"];
    for nothing in ["unanswered", "responses_lost", "undecoded", "dropped"] {
        assert_eq!(coverage[nothing], 0, "{nothing}: {coverage}");
    }
    let patterns = report["patterns"].as_array().unwrap();
    let of = |kind: &str| {
        patterns
            .iter()
            .find(|pattern| pattern["cql"].as_str().unwrap().starts_with(kind))
            .unwrap()
    };
    let [read, write] = ["SELECT", "INSERT"].map(of);
    assert_eq!(read["rows"]["max"], 1, "{read}");
    assert_eq!(read["response_bytes"]["max"], exchanges[1].1.len(), "{read}");
    assert_eq!(write["latency_us"]["count"], 1, "{write}");
}

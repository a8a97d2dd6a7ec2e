//! With mutual TLS, reports name clients by their certificates.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::proxy::{
    certificates::{self, Authority},
    wire::{LIMIT, Node, envelope, proxy, query, report, void},
};

/// A STARTUP in which the client says what it is called.
fn startup(application: &str) -> Vec<u8> {
    let mut body = vec![0, 2];
    for text in ["CQL_VERSION", "3.0.0", "APPLICATION_NAME", application] {
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    envelope(4, 1, 0x01, &body)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_named_by_what_their_certificates_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let authority = Authority::new(folder.path(), "authority");
    let identity = authority.issue("proxy", &["127.0.0.1"]);
    let clients = [
        (authority.issue("orders-service", &[]), &TLS13),
        (authority.issue("billing", &["billing.example.com"]), &TLS12),
    ];
    let node = Node::start(|mut connection| {
        use std::io::{Read, Write};
        let mut byte = [0; 9];
        while connection.read_exact(&mut byte).is_ok() {
            let length = u32::from_be_bytes(byte[5..].try_into().unwrap());
            let mut body = vec![0; length.try_into().unwrap()];
            connection.read_exact(&mut body).unwrap();
            let answer = match byte[4] {
                0x01 => envelope(0x84, 1, 0x02, &[]),
                _ => void(7),
            };
            connection.write_all(&answer).unwrap();
        }
    });
    let arguments = [
        "--client-tls-cert",
        identity.certificate.to_str().unwrap(),
        "--client-tls-key",
        identity.key.to_str().unwrap(),
        "--client-tls-ca",
        authority.file.to_str().unwrap(),
        "--report",
        file.to_str().unwrap(),
    ];
    let proxy = proxy(node.address, &arguments);
    for (identity, version) in &clients {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let mut client = certificates::handshake(socket, &authority, Some(identity), &[*version]).await;
        for (request, answer) in [
            (startup("shop"), envelope(0x84, 1, 0x02, &[])),
            (query(7, "SELECT k FROM s.t"), void(7)),
        ] {
            client.write_all(&request).await.unwrap();
            let mut got = vec![0; answer.len()];
            client.read_exact(&mut got).await.unwrap();
            assert_eq!(got, answer);
        }
    }
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = report(&file);
    let times =
        |count: u64| json!({"CN=orders-service shop 127.0.0.1": count, "CN=billing shop 127.0.0.1": count});
    assert_eq!(report["clients"], times(2));
    assert_eq!(report["patterns"][0]["clients"], times(1));
}

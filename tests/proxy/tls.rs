//! TLS on either side, or on both: what passes is the same, and what is wrong is refused and said.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use cqlens_client::{Bind, Client, ClientError, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck, TlsIdentity};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::proxy::{
    certificates::{self, Authority, BOTH, Issued, acceptor, in_front_of, listen},
    support::proxy::Proxy,
    wire::{self, LIMIT, query, report},
};

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.users (name text PRIMARY KEY, age int);";

/// One authority for all, and a certificate for each who may need one.
struct Setup {
    folder: TempDir,
    authority: Authority,
    node: Issued,
    proxy: Issued,
    client: Issued,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority");
        Self {
            node: authority.issue("node", &["127.0.0.1"]),
            proxy: authority.issue("proxy", &["127.0.0.1"]),
            client: authority.issue("client", &["somebody.example"]),
            authority,
            folder,
        }
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    /// The arguments with which cqlens speaks TLS to clients.
    fn to_clients(&self) -> Vec<&str> {
        let Issued { certificate, key } = &self.proxy;
        vec![
            "--client-tls-cert",
            text(certificate),
            "--client-tls-key",
            text(key),
        ]
    }

    /// The arguments with which cqlens speaks TLS to the node.
    fn to_node(&self) -> Vec<&str> {
        vec!["--upstream-tls-ca", text(&self.authority.file)]
    }

    /// A proxy without a connection of its own, which keeps a report.
    fn proxy(&self, upstream: SocketAddr, arguments: &[Vec<&str>]) -> Proxy {
        let file = self.report();
        wire::proxy(
            upstream,
            &[&["--report", text(&file)], &arguments.concat()[..]].concat(),
        )
    }

    /// A client that speaks TLS, and shows a certificate if it has one.
    async fn connect(&self, address: SocketAddr, identity: Option<&Issued>) -> Result<Client, ClientError> {
        let authorities = Authorities::read(&self.authority.file).unwrap();
        let identity =
            identity.map(|Issued { certificate, key }| TlsIdentity::read(certificate, key).unwrap());
        let connector = Connector::new(authorities, identity, "127.0.0.1", HostnameCheck::On).unwrap();
        let options = ClientOptions {
            tls: Some(std::sync::Arc::new(connector)),
            timeout: LIMIT,
            ..ClientOptions::default()
        };
        Client::connect(address, &options).await
    }

    /// Stops the proxy; whose TLS failed how often, and what it has logged.
    fn failures(&self, proxy: Proxy) -> (Value, String) {
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
        (
            report(&self.report())["coverage"]["tls_failures"].clone(),
            ended.log,
        )
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn node() -> Node {
    Node::start(Options::default()).await.unwrap()
}

/// What a report says of some requests that went through with TLS on the sides that were asked for. The
/// schema comes over the control connection.
async fn counted(client_tls: bool, upstream_tls: bool) -> Value {
    let (setup, node) = (Setup::new(), node().await);
    let mut direct = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    direct.script(SCHEMA).await.unwrap();
    let (file, mut arguments) = (setup.report(), Vec::new());
    arguments.extend(["--report", text(&file)]);
    let mut upstream = node.address();
    if client_tls {
        arguments.extend(setup.to_clients());
    }
    if upstream_tls {
        arguments.extend(setup.to_node());
        upstream = in_front_of(upstream, acceptor(&setup.node, None, BOTH)).await;
    }
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), upstream, &arguments);
    until(&proxy, "control connection open, schema read").await;
    let mut client = if client_tls {
        setup.connect(proxy.address, None).await.unwrap()
    } else {
        Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap()
    };
    let prepared = client
        .prepare("SELECT age FROM shop.users WHERE name IN (?, ?)")
        .await
        .unwrap();
    for _ in 0..5 {
        let names = [Bind::text("anna"), Bind::text("bert")];
        client
            .run(Run::Prepared(&prepared, &names), &RunOptions::default())
            .await
            .unwrap();
    }
    drop(client);
    assert_eq!(setup.failures(proxy).0, json!({}));
    let mut report = report(&file);
    // They name ports.
    report["coverage"]["notices"].take();
    let own = &report["applications"][0];
    let expected = if client_tls {
        ("tls", "plain")
    } else {
        ("plain", "tls")
    };
    assert_eq!(
        (&own[expected.0], &own[expected.1]),
        (&own["connections"], &json!(0)),
        "{own}"
    );
    assert!(own["connections"].as_u64() >= Some(1), "{own}");
    assert_eq!(own["encryption_unknown"], json!(0));
    let pattern = &report["patterns"][0];
    json!([
        report["coverage"],
        pattern["cql"],
        pattern["count"],
        pattern["partitions"]
    ])
}

// In all tests here the node must answer while the proxy is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_sees_the_same_whichever_side_speaks_tls() {
    let plain = counted(false, false).await;
    assert_eq!(
        (&plain[0]["partitions_exact"], &plain[3]["total"]),
        (&json!(5), &json!(10))
    );
    for (client_tls, upstream_tls) in [(true, false), (false, true), (true, true)] {
        assert_eq!(
            counted(client_tls, upstream_tls).await,
            plain,
            "{client_tls} {upstream_tls}"
        );
    }
}

/// More than any buffer of TLS or of the kernel holds, from a fixed generator.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()
    };
    (0..len / 8).flat_map(|_| next()).collect()
}

/// A node that reads to the end, says what came, and answers with `answer`.
async fn answering(setup: &Setup, answer: Vec<u8>) -> (SocketAddr, mpsc::Receiver<Vec<u8>>) {
    let (sender, received) = mpsc::channel(1);
    let address = listen(acceptor(&setup.node, None, BOTH), move |mut stream| {
        let (sender, answer) = (sender.clone(), answer.clone());
        async move {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            stream.write_all(&answer).await.unwrap();
            stream.shutdown().await.unwrap();
            sender.send(bytes).await.unwrap();
        }
    })
    .await;
    (address, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_pass_unchanged_and_ends_are_passed_on_in_both_versions() {
    let (request, answer) = (noise(3 << 20), noise(5 << 20));
    for version in [&TLS13, &TLS12] {
        let setup = Setup::new();
        let (node, mut received) = answering(&setup, answer.clone()).await;
        let proxy = setup.proxy(node, &[setup.to_clients(), setup.to_node()]);
        let mut client = certificates::connect(proxy.address, &setup.authority, &[version]).await;
        client.write_all(&request).await.unwrap();
        client.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        // Fails unless the end is said, and not only the connection cut.
        client.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes == answer, "the answer was changed");
        assert!(
            received.recv().await.unwrap() == request,
            "the request was changed"
        );
        assert_eq!(setup.failures(proxy).0, json!({}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_ends_without_a_goodbye_has_ended_all_the_same() {
    let setup = Setup::new();
    let (node, mut received) = answering(&setup, b"the answer".to_vec()).await;
    let proxy = setup.proxy(node, &[setup.to_clients(), setup.to_node()]);
    let mut client = certificates::connect(proxy.address, &setup.authority, BOTH).await;
    client.write_all(&query(1, "SELECT")).await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    let came = tokio::time::timeout(LIMIT, received.recv()).await;
    assert_eq!(came.unwrap().unwrap(), query(1, "SELECT"));
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, b"the answer");
    assert_eq!(setup.failures(proxy).0, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_gets_the_last_byte_while_the_connection_stays_open() {
    let setup = Setup::new();
    let answer = noise(12 << 20);
    let sent = answer.clone();
    let node = listen(acceptor(&setup.node, None, BOTH), move |mut stream| {
        let sent = sent.clone();
        async move {
            stream.write_all(&sent).await.unwrap();
            stream.flush().await.unwrap();
            // Until the client has gone.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    })
    .await;
    let proxy = setup.proxy(node, &[setup.to_clients(), setup.to_node()]);
    let mut client = certificates::connect(proxy.address, &setup.authority, BOTH).await;
    let mut bytes = vec![0; answer.len()];
    let reading = async {
        // Slower than the node sends: there is no room when the last bytes are written.
        for piece in bytes.chunks_mut(64 << 10) {
            client.read_exact(piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, reading)
        .await
        .expect("all bytes come");
    assert!(bytes == answer, "the answer was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_certificate_are_refused_where_one_is_asked_for() {
    let (setup, node) = (Setup::new(), node().await);
    let strangers = Authority::new(setup.folder.path(), "strangers");
    let stranger = strangers.issue("stranger", &["somebody.example"]);
    let ask = vec!["--client-tls-ca", text(&setup.authority.file)];
    let proxy = setup.proxy(node.address(), &[setup.to_clients(), ask]);
    let mut known = setup.connect(proxy.address, Some(&setup.client)).await.unwrap();
    setup.connect(proxy.address, None).await.unwrap_err();
    setup.connect(proxy.address, Some(&stranger)).await.unwrap_err();
    known
        .query("SELECT release_version FROM system.local")
        .await
        .unwrap();
    let (failures, log) = setup.failures(proxy);
    assert_eq!(failures, json!({"client": 2}));
    for said in [
        "no TLS with the client: peer sent no certificates",
        "no TLS with the client, whose certificate is for CN=stranger: invalid peer certificate: UnknownIssuer",
    ] {
        assert!(log.contains(said), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_asks_for_a_certificate_gets_one() {
    let (setup, node) = (Setup::new(), node().await);
    for version in [&TLS13, &TLS12] {
        let front = acceptor(&setup.node, Some(&setup.authority), &[version]);
        let upstream = in_front_of(node.address(), front).await;
        let Issued { certificate, key } = &setup.proxy;
        let shown = vec![
            "--upstream-tls-cert",
            text(certificate),
            "--upstream-tls-key",
            text(key),
        ];
        let proxy = setup.proxy(upstream, &[setup.to_node(), shown]);
        Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap();
        assert_eq!(setup.failures(proxy).0, json!({}));

        let proxy = setup.proxy(upstream, &[setup.to_node()]);
        Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap_err();
        let (failures, log) = setup.failures(proxy);
        assert!(failures["upstream"].as_u64() >= Some(1), "{failures}");
        assert!(
            log.contains("received fatal alert") && log.contains("WARN"),
            "{log}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_is_refused_unless_that_is_asked_for() {
    let (setup, node) = (Setup::new(), node().await);
    let elsewhere = setup.authority.issue("elsewhere", &["db.example"]);
    let upstream = in_front_of(node.address(), acceptor(&elsewhere, None, BOTH)).await;

    let proxy = setup.proxy(upstream, &[setup.to_node()]);
    Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap_err();
    let (failures, log) = setup.failures(proxy);
    assert!(failures["upstream"].as_u64() >= Some(1), "{failures}");
    assert!(
        log.contains("not valid for name") && log.contains("db.example"),
        "{log}"
    );

    for asked in [
        vec!["--upstream-tls-name", "db.example"],
        vec!["--upstream-tls-no-hostname-check"],
    ] {
        let proxy = setup.proxy(upstream, &[setup.to_node(), asked]);
        Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap();
        assert_eq!(setup.failures(proxy).0, json!({}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_refused_even_without_the_hostname_check() {
    let (setup, node) = (Setup::new(), node().await);
    let strangers = Authority::new(setup.folder.path(), "strangers");
    let stranger = strangers.issue("stranger", &["127.0.0.1"]);
    let upstream = in_front_of(node.address(), acceptor(&stranger, None, BOTH)).await;
    for more in [vec![], vec!["--upstream-tls-no-hostname-check"]] {
        let proxy = setup.proxy(upstream, &[setup.to_node(), more]);
        Client::connect(proxy.address, &ClientOptions::default())
            .await
            .unwrap_err();
        let (failures, log) = setup.failures(proxy);
        assert!(failures["upstream"].as_u64() >= Some(1), "{failures}");
        assert!(log.contains("UnknownIssuer"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_tls_is_named_as_such() {
    let (setup, node) = (Setup::new(), node().await);
    let proxy = setup.proxy(node.address(), &[setup.to_node()]);
    Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap_err();
    let (failures, log) = setup.failures(proxy);
    assert!(failures["upstream"].as_u64() >= Some(1), "{failures}");
    assert!(log.contains("the node does not use TLS"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_of_a_tls_listener_is_refused_and_disturbs_nobody() {
    let (setup, node) = (Setup::new(), node().await);
    let proxy = setup.proxy(node.address(), &[setup.to_clients()]);
    let mut other = setup.connect(proxy.address, None).await.unwrap();
    for bytes in [
        query(1, "SELECT").as_slice(),
        b"GET / HTTP/1.1\r\n\r\n",
        &[5, 0, 0, 0, 5, 0, 0, 0, 0],
    ] {
        let mut plain = wire::connect(proxy.address);
        plain.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // Whether the end is a reset is not the question.
        let _ = plain.read_to_end(&mut answer);
        // An alert of TLS, and nothing else.
        assert_eq!((answer.first(), answer.len()), (Some(&0x15), 7), "{answer:?}");
        other
            .query("SELECT release_version FROM system.local")
            .await
            .unwrap();
    }
    // Gone without a word: a health check, no failure.
    drop(wire::connect(proxy.address));
    other
        .query("SELECT release_version FROM system.local")
        .await
        .unwrap();
    let (failures, log) = setup.failures(proxy);
    assert_eq!(failures, json!({"plain-client": 3}));
    assert_eq!(log.matches("the client does not use TLS").count(), 3, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_waits_for_no_handshake_and_says_goodbye() {
    let (setup, node) = (Setup::new(), node().await);
    let proxy = setup.proxy(node.address(), &[setup.to_clients()]);
    let mut idle = certificates::connect(proxy.address, &setup.authority, BOTH).await;
    let _silent = wire::connect(proxy.address);
    let begun = Instant::now();
    let (stopped, bytes) = tokio::join!(tokio::task::spawn_blocking(move || proxy.stop(LIMIT)), async {
        let mut bytes = Vec::new();
        // Fails unless the end is said, and not only the connection cut.
        idle.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    assert_eq!((stopped.unwrap().code, bytes), (0, vec![]));
    // The handshake has 10 seconds, and as many are the grace period.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_change_are_for_those_who_come_later() {
    let (setup, node) = (Setup::new(), node().await);
    let mut proxy = setup.proxy(node.address(), &[setup.to_clients()]);
    let mut before = setup.connect(proxy.address, None).await.unwrap();
    // What cannot be used changes nothing.
    std::fs::write(&setup.proxy.certificate, "nonsense").unwrap();
    proxy.signal("HUP");
    until(&proxy, "the previous ones stay").await;
    setup.connect(proxy.address, None).await.unwrap();
    // Another authority, on the same files: first by a signal, then found by itself.
    for (name, how) in [("second", Some("HUP")), ("third", None)] {
        let authority = Authority::new(setup.folder.path(), name);
        let issued = authority.issue(&format!("{name}-proxy"), &["127.0.0.1"]);
        let read = proxy.log().matches("keys reloaded").count();
        std::fs::copy(&issued.key, &setup.proxy.key).unwrap();
        std::fs::copy(&issued.certificate, &setup.proxy.certificate).unwrap();
        if let Some(signal) = how {
            proxy.signal(signal);
        }
        let deadline = Instant::now() + LIMIT;
        while proxy.log().matches("keys reloaded").count() == read {
            assert!(Instant::now() < deadline, "{}", proxy.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        certificates::connect(proxy.address, &authority, BOTH).await;
        setup.connect(proxy.address, None).await.unwrap_err();
    }
    before
        .query("SELECT release_version FROM system.local")
        .await
        .unwrap();
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

/// Waits until the proxy has logged `what`.
async fn until(proxy: &Proxy, what: &str) {
    let deadline = Instant::now() + LIMIT;
    while !proxy.log().contains(what) {
        assert!(Instant::now() < deadline, "never: {what}\n{}", proxy.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a proxy says that does not start.
fn refused(arguments: &[&str]) -> String {
    let started = Command::new(env!("CARGO_BIN_EXE_cqlens"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:9"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert_eq!(started.status.code(), Some(2), "{said}");
    said
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let setup = Setup::new();
    let (certificate, key) = (text(&setup.proxy.certificate), text(&setup.proxy.key));
    let with = |certificate, key| refused(&["--client-tls-cert", certificate, "--client-tls-key", key]);
    assert!(refused(&["--client-tls-cert", certificate]).contains("--client-tls-key"));
    assert!(refused(&["--upstream-tls-name", "db"]).contains("--upstream-tls-ca"));
    assert!(with("/nowhere.pem", key).contains("cannot read /nowhere.pem"));
    assert!(with(key, key).contains("contains no certificate"));
    assert!(with(certificate, certificate).contains("contains no private key"));
    let said = with(certificate, text(&setup.node.key));
    assert!(
        said.contains("cannot be used with the key of") && said.contains("node.key"),
        "{said}"
    );
    let authority = ["--upstream-tls-ca", text(&setup.authority.file)];
    let said = refused(&[&authority[..], &["--upstream-tls-name", "no host"]].concat());
    assert!(
        said.contains("`no host` is neither a host name nor an address"),
        "{said}"
    );
}

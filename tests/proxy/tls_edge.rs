//! TLS as operators of proxies expect it: revocation lists, several certificates, a lowest version.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientError, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_proxy::tls::{Authorities, Connector, HostnameCheck, TlsIdentity};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::proxy::settings::{File, printed};
use crate::proxy::{
    certificates::{Authority, BOTH, Issued, acceptor, in_front_of},
    support::proxy::Proxy,
    wire::{self, LIMIT, report},
};

struct Setup {
    folder: TempDir,
    authority: Authority,
    proxy: Issued,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority");
        Self {
            proxy: authority.issue("proxy", &["127.0.0.1"]),
            authority,
            folder,
        }
    }

    /// A proxy that speaks TLS to clients, and keeps a report.
    fn proxy(&self, upstream: SocketAddr, more: &[&str]) -> Proxy {
        let report = self.folder.path().join("report.json");
        let Issued { certificate, key } = &self.proxy;
        let tls = [
            "--client-tls-cert",
            text(certificate),
            "--client-tls-key",
            text(key),
        ];
        wire::proxy(upstream, &[&["--report", text(&report)][..], &tls, more].concat())
    }

    async fn connect(&self, proxy: &Proxy, identity: Option<&Issued>) -> Result<Client, ClientError> {
        let authorities = Authorities::read(&self.authority.file).unwrap();
        let identity = identity.map(|issued| TlsIdentity::read(&issued.certificate, &issued.key).unwrap());
        let connector = Connector::new(authorities, identity, "127.0.0.1", HostnameCheck::On).unwrap();
        let options = ClientOptions {
            tls: Some(std::sync::Arc::new(connector)),
            timeout: LIMIT,
            ..ClientOptions::default()
        };
        Client::connect(proxy.address, &options).await
    }

    fn failures(&self) -> serde_json::Value {
        report(&self.folder.path().join("report.json"))["coverage"]["tls_failures"].clone()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn until(proxy: &Proxy, what: &str, times: usize) {
    let deadline = Instant::now() + LIMIT;
    while proxy.log().matches(what).count() < times {
        assert!(Instant::now() < deadline, "never: {what}\n{}", proxy.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_certificate_is_revoked_is_refused_counted_and_named() {
    let (setup, node) = (Setup::new(), Node::start(Options::default()).await.unwrap());
    let (kept, revoked) = (
        setup.authority.issue("kept", &[]),
        setup.authority.issue("orders-batch", &[]),
    );
    let list = setup.authority.revoke("list", &[], 2100);
    let more = [
        "--client-tls-ca",
        text(&setup.authority.file),
        "--client-tls-crl",
        text(&list),
    ];
    let mut proxy = setup.proxy(node.address(), &more);
    for client in [&kept, &revoked] {
        setup.connect(&proxy, Some(client)).await.unwrap();
    }
    // The list is read again, as all files are.
    setup.authority.revoke("list", &[&revoked], 2100);
    proxy.signal("HUP");
    until(&proxy, "reloaded, for new connections", 1).await;
    setup.connect(&proxy, Some(&kept)).await.unwrap();
    setup.connect(&proxy, Some(&revoked)).await.unwrap_err();
    // One that has run out says nothing of anybody.
    setup.authority.revoke("list", &[], 2021);
    proxy.signal("HUP");
    until(&proxy, "reloaded, for new connections", 2).await;
    setup.connect(&proxy, Some(&kept)).await.unwrap_err();
    let log = proxy.stop(LIMIT).log;
    assert_eq!(setup.failures(), json!({"client": 2}));
    for said in [
        "whose certificate is for CN=orders-batch: invalid peer certificate: Revoked",
        "whose certificate is for CN=kept: invalid peer certificate: certificate revocation list expired",
    ] {
        assert!(log.contains(said), "{said}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_certificate_is_revoked_is_refused_with_and_without_the_hostname_check() {
    let (setup, node) = (Setup::new(), Node::start(Options::default()).await.unwrap());
    let issued = setup.authority.issue("node", &["127.0.0.1"]);
    let upstream = in_front_of(node.address(), acceptor(&issued, None, BOTH)).await;
    for (revoked, check) in [
        (vec![], true),
        (vec![], false),
        (vec![&issued], true),
        (vec![&issued], false),
    ] {
        let list = setup.authority.revoke("list", &revoked, 2100);
        let mut arguments = vec![
            "--upstream-tls-ca",
            text(&setup.authority.file),
            "--upstream-tls-crl",
            text(&list),
        ];
        if !check {
            arguments.push("--upstream-tls-no-hostname-check");
        }
        let proxy = wire::proxy(upstream, &arguments);
        let connected = Client::connect(proxy.address, &ClientOptions::default()).await;
        let log = proxy.stop(LIMIT).log;
        assert_eq!(connected.is_ok(), revoked.is_empty(), "{log}");
        assert_eq!(
            log.contains("invalid peer certificate: Revoked"),
            !revoked.is_empty(),
            "{log}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_see_the_certificate_for_the_name_that_they_ask_for() {
    let (setup, node) = (Setup::new(), Node::start(Options::default()).await.unwrap());
    let second = setup.authority.issue("second", &["*.db.example"]);
    let more = [
        "--client-tls-cert",
        text(&second.certificate),
        "--client-tls-key",
        text(&second.key),
    ];
    let mut proxy = setup.proxy(node.address(), &more);
    let sees = async |name: &str, address: SocketAddr| {
        let authorities = Authorities::read(&setup.authority.file).unwrap();
        let connector = Connector::new(authorities, None, name, HostnameCheck::On).unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        connector
            .connect(socket)
            .await
            .map_err(|error| error.to_string())
            .err()
    };
    assert_eq!(sees("127.0.0.1", proxy.address).await, None, "no name: the first");
    assert_eq!(sees("one.db.example", proxy.address).await, None);
    let other = sees("other.example", proxy.address).await.unwrap();
    assert!(
        other.contains("not valid for name"),
        "the first, which is for another: {other}"
    );
    // Both are read again.
    let renewed = setup.authority.issue("renewed", &["new.example"]);
    std::fs::copy(&renewed.key, &second.key).unwrap();
    std::fs::copy(&renewed.certificate, &second.certificate).unwrap();
    proxy.signal("HUP");
    until(&proxy, "reloaded, for new connections", 1).await;
    assert_eq!(sees("new.example", proxy.address).await, None);
    assert!(sees("one.db.example", proxy.address).await.is_some());
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lowest_version_is_kept_on_either_side() {
    let (setup, node) = (Setup::new(), Node::start(Options::default()).await.unwrap());
    let proxy = setup.proxy(node.address(), &["--client-tls-min-version", "1.3"]);
    for (versions, is_taken) in [(&[&TLS13], true), (&[&TLS12], false)] {
        let socket = TcpStream::connect(proxy.address).await.unwrap();
        let done = crate::proxy::certificates::try_handshake(socket, &setup.authority, None, versions).await;
        assert_eq!(done.is_ok(), is_taken, "{done:?}");
    }
    proxy.stop(LIMIT);
    assert_eq!(setup.failures(), json!({"client": 1}));

    let issued = setup.authority.issue("node", &["127.0.0.1"]);
    let old = in_front_of(node.address(), acceptor(&issued, None, &[&TLS12])).await;
    for (version, is_taken) in [("1.2", true), ("1.3", false)] {
        let ca = ["--upstream-tls-ca", text(&setup.authority.file)];
        let proxy = wire::proxy(old, &[&ca[..], &["--upstream-tls-min-version", version]].concat());
        let connected = Client::connect(proxy.address, &ClientOptions::default()).await;
        assert_eq!(connected.is_ok(), is_taken, "{}", proxy.log());
    }
}

#[test]
fn settings_of_tls_are_printed_as_they_can_be_read_back() {
    let file = File::new(
        "[proxy]\nclient-tls-cert = ['a.crt', 'b.crt']\nclient-tls-key = ['a.key', 'b.key']\nclient-tls-ca = 'ca.pem'\n\
         client-tls-crl = 'list.pem'\nclient-tls-min-version = '1.3'\nlisten = '127.0.0.1:9042'\nupstream = '127.0.0.1:9142'\n",
    );
    let path = file.path();
    let printed = printed(&["proxy", "--config", text(&path), "--print-config"], &[]);
    for line in [
        r#"client-tls-cert = ["a.crt", "b.crt"]"#,
        r#"client-tls-key = ["a.key", "b.key"]"#,
        r#"client-tls-crl = "list.pem""#,
        r#"client-tls-min-version = "1.3""#,
        r#"upstream-tls-min-version = "1.2""#,
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let second = File::new(&printed);
    let path = second.path();
    let again = crate::proxy::settings::printed(&["proxy", "--config", text(&path), "--print-config"], &[]);
    assert!(
        again.contains(r#"client-tls-key = ["a.key", "b.key"]"#),
        "{again}"
    );
}

#[test]
fn what_does_not_fit_together_is_refused_at_the_start() {
    let setup = Setup::new();
    let Issued { certificate, key } = &setup.proxy;
    let tls = [
        "--client-tls-cert",
        text(certificate),
        "--client-tls-key",
        text(key),
    ];
    let ca = ["--client-tls-ca", text(&setup.authority.file)];
    let refused = |more: &[&str]| {
        let started = Command::new(env!("CARGO_BIN_EXE_cqlens"))
            .args(["proxy", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:9"])
            .args([&tls[..], more].concat())
            .output()
            .unwrap();
        let said = String::from_utf8(started.stderr).unwrap();
        assert_eq!(started.status.code(), Some(2), "{said}");
        said
    };
    assert!(refused(&["--client-tls-cert", text(certificate)]).contains("got 2 and 1"));
    assert!(refused(&["--client-tls-crl", "list"]).contains("--client-tls-ca"));
    assert!(refused(&["--client-tls-min-version", "1.1"]).contains("[possible values: 1.2, 1.3]"));
    let with = |file: &Path| refused(&[&ca[..], &["--client-tls-crl", text(file)]].concat());
    assert!(with(Path::new("/nowhere.pem")).contains("cannot read /nowhere.pem"));
    assert!(with(certificate).contains("contains no list of revoked certificates"));
    let broken = setup.folder.path().join("broken.crl");
    std::fs::write(
        &broken,
        "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
    )
    .unwrap();
    assert!(with(&broken).contains("broken.crl contains a list of revoked certificates that cannot be used"));
}

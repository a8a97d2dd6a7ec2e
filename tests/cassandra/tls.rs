//! TLS on both sides of `cqlens`, between a real driver and a real Cassandra that asks for certificates.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    time::Duration,
};

use crate::support::driver::{Compression, Driver, Session};
use crate::support::proxy::Proxy;
use crate::support::{Missing, available, cache, first_or_all};
use crate::{node, shared};

const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// What the keystores are locked with.
const PASSWORD: &str = "cassandra";

/// What the second node and its clients know each other by.
pub(crate) struct Keys {
    folder: PathBuf,
}

impl Keys {
    /// The same for all.
    pub(crate) fn get() -> Result<&'static Self, Missing> {
        static KEYS: LazyLock<Result<Keys, Missing>> = LazyLock::new(Keys::make);
        KEYS.as_ref().map_err(Clone::clone)
    }

    fn make() -> Result<Self, Missing> {
        let made = Self {
            folder: cache::lasting_folder("keys"),
        };
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(made.file("cqlens.pem"), own.cert.pem()).unwrap();
        std::fs::write(made.file("cqlens.key"), own.signing_key.serialize_pem()).unwrap();
        keystores(&made.folder)?;
        Ok(made)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Optional: so that a driver can be asked without TLS too. Who comes with TLS must show a certificate.
    pub(crate) fn encryption_options(&self) -> String {
        format!(
            "{{enabled: true, optional: true, require_client_auth: true, \
             keystore: {}, keystore_password: {PASSWORD}, truststore: {}, truststore_password: {PASSWORD}}}",
            self.file("node.p12"),
            self.file("trusted.p12")
        )
    }
}

#[test]
fn a_driver_sees_through_tls_on_both_sides_what_it_sees_without() {
    let Some(keys) = available("TLS to a real node", Keys::get()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(cluster) = shared::second() else { return };
    let [own, key, node] = ["cqlens.pem", "cqlens.key", "node.pem"].map(|name| keys.file(name));
    let report = folder.path().join("report.json").display().to_string();
    let to_clients = ["--client-tls-cert", &own, "--client-tls-key", &key];
    let to_node = [
        "--upstream-tls-ca",
        &node,
        "--upstream-tls-name",
        "cassandra.test",
    ];
    let shown = ["--upstream-tls-cert", &own, "--upstream-tls-key", &key];
    assert_certificates_are_asked_for(cluster.address(), &to_node);
    let all = [(Some(5), Compression::Lz4), (Some(4), Compression::None)];
    for &(version, compression) in first_or_all("TLS in version 4", 1, &all) {
        let session = Session::new(version, compression);
        let direct = python.run(cluster.address(), &session);
        let arguments = [
            &to_node[..],
            &shown,
            &to_clients,
            &["--window", "3600s", "--report", &report],
        ]
        .concat();
        let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), cluster.address(), &arguments);
        assert_eq!(
            python.run_over_tls(proxy.address, &session, Path::new(&own)),
            direct
        );
        let ended = proxy.stop(ENDS_WITHIN);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let written = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
        crate::report::assert_agrees(&written, &session, &direct);
    }
    let shadow = [
        "--shadow-tls-ca",
        &node,
        "--shadow-tls-name",
        "cassandra.test",
        "--shadow-tls-cert",
        &own,
        "--shadow-tls-key",
        &key,
    ];
    assert_is_shadow(cluster.address(), &shadow, &python, folder.path());
}

/// What the driver sends to another node is copied to this one over TLS, with a certificate to show.
fn assert_is_shadow(shadow: SocketAddr, tls: &[&str], python: &Driver, folder: &Path) {
    let Some(first) = node() else { return };
    let session = Session {
        keyspace: "seen_by_a_shadow".to_owned(),
        ..Session::new(Some(5), Compression::None)
    };
    let (address, report) = (shadow.to_string(), folder.join("shadow.json"));
    let copied = [
        "--shadow",
        &address,
        "--shadow-report",
        report.to_str().unwrap(),
        "--shadow-ddl-keyspaces",
        &session.keyspace,
        "--shadow-write-keyspaces",
        &session.keyspace,
    ];
    let arguments = [&copied[..], tls].concat();
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), first.address(), &arguments);
    python.run(proxy.address, &session);
    let ended = proxy.stop(ENDS_WITHIN);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let compared = report["totals"]["compared"].as_u64().unwrap();
    assert!(compared > 10, "{report:#}\n{}", ended.log);
    assert_eq!(report["connections"]["connections_lost"], 0, "{report:#}");
}

/// Without a certificate to show, nothing comes back from the node.
fn assert_certificates_are_asked_for(node: SocketAddr, arguments: &[&str]) {
    let arguments = [&["--no-control-connection"], arguments].concat();
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node, &arguments);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    client.set_read_timeout(Some(ENDS_WITHIN)).unwrap();
    // OPTIONS, version 4.
    client.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let log = proxy.stop(ENDS_WITHIN).log;
    assert!(answer.is_empty() && log.contains("received fatal alert"), "{log}");
}

/// The node's own certificate, as most are made (signed by itself, named `cassandra.test`): `node.p12` for
/// the node and `node.pem` for others; and `trusted.p12`, with which it knows `cqlens.pem`.
fn keystores(folder: &Path) -> Result<(), Missing> {
    let keytool = |keystore: &str, arguments: &str| {
        let ran = Command::new("keytool")
            .current_dir(folder)
            .args([
                "-storetype",
                "PKCS12",
                "-storepass",
                PASSWORD,
                "-keystore",
                keystore,
            ])
            .args(arguments.split_whitespace())
            .output()
            .map_err(|error| Missing(format!("`keytool` cannot be run: {error}")))?;
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        Ok(())
    };
    let named = "-alias node -dname CN=node -ext san=dns:cassandra.test";
    keytool(
        "node.p12",
        &format!("-genkeypair -keyalg RSA -validity 30 {named}"),
    )?;
    keytool("node.p12", "-exportcert -rfc -alias node -file node.pem")?;
    keytool(
        "trusted.p12",
        "-importcert -noprompt -alias cqlens -file cqlens.pem",
    )
}

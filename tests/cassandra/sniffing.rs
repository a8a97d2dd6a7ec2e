//! tcpdump looks on while drivers go through the proxy: the capture says what the proxy says.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::node;
use crate::support::driver::{Compression, Driver, Session};
use crate::support::proxy::Proxy;
use crate::support::{available, first_or_all};
use crate::{shared, tls::Keys};

#[path = "../sniff/record/lookout.rs"]
#[allow(dead_code, reason = "the recorder of captures uses the rest of it")]
mod lookout;
#[path = "../sniff/report.rs"]
#[allow(dead_code, reason = "the tests of captures use the rest of it")]
mod seen;

use lookout::{Kind, Lookout};

const ENDS_WITHIN: Duration = Duration::from_secs(300);
const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

#[test]
fn tcpdump_and_the_proxy_see_the_same_of_the_python_driver() {
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    let all = [
        (5, Compression::Lz4),
        (4, Compression::None),
        (3, Compression::Lz4),
    ];
    for &(version, compression) in first_or_all("captures of the Python driver in versions 3 and 4", 1, &all)
    {
        let session = Session {
            keyspace: format!("sniffed_v{version}"),
            ..Session::new(Some(version), compression)
        };
        both_see_the_same(&python, node.address(), &session, Kind::Any);
    }
}

#[test]
fn tcpdump_and_the_proxy_see_the_same_of_gocql() {
    let Some(go) = available("gocql", Driver::go(".")) else {
        return;
    };
    let Some(node) = node() else { return };
    let session = Session {
        keyspace: "sniffed_gocql".to_owned(),
        ..Session::new(Some(5), Compression::Lz4)
    };
    both_see_the_same(&go, node.address(), &session, Kind::Plain);
}

/// The driver speaks TLS with the node itself and writes its key log; tcpdump sees nothing but that.
#[test]
fn a_capture_of_tls_with_its_key_log_agrees_with_what_the_driver_asked_for() {
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(keys) = available("TLS to a real node", Keys::get()) else {
        return;
    };
    let Some(node) = shared::second() else { return };
    let all = [
        ("TLSv1_3", 5, Compression::Lz4),
        ("TLSv1_2", 4, Compression::None),
    ];
    for (tls, version, compression) in all {
        let session = Session {
            keyspace: format!("sniffed_{}", tls.to_lowercase()),
            ..Session::new(Some(version), compression)
        };
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (capture, key_log) = (file("session.pcap"), file("keys.log"));
        let (key, settings) = (file("hash.key"), file("cqlens.toml"));
        std::fs::write(&key, include_str!("../sniff/captures/hash.key")).unwrap();
        std::fs::write(&settings, seen::WHATEVER_THE_LATENCY).unwrap();
        let started = Lookout::start(Kind::Plain, &capture, node.address(), None);
        let Some(lookout) = available("a capture", started) else {
            return;
        };
        let shown = ["node.pem", "cqlens.pem", "cqlens.key"].map(|name| keys.file(name));
        let more = [&shown[..], &[key_log.display().to_string(), tls.to_owned()]].concat();
        let asked = python.run_with([session.arguments(node.address()), more].concat());
        // What a socket still has to say when its process has gone.
        std::thread::sleep(Duration::from_millis(500));
        lookout.end();
        let port = node.address().port().to_string();
        let opened = [OsStr::new("--tls-key-log"), key_log.as_os_str()];
        let report = sniff(&capture, &port, (&key, &settings), &file("sniffed.json"), &opened);
        crate::report::assert_agrees(&report, &session, &asked);
    }
}

/// The same run of a driver, encrypted on its way to the proxy and plain behind it.
#[test]
fn a_capture_of_tls_with_its_key_log_says_what_the_proxy_says() {
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(keys) = available("TLS to the proxy", Keys::get()) else {
        return;
    };
    let Some(node) = node() else { return };
    let session = Session {
        keyspace: "sniffed_through_tls".to_owned(),
        ..Session::new(Some(5), Compression::Lz4)
    };
    let key_log = tempfile::NamedTempFile::new().unwrap();
    let [own, key] = ["cqlens.pem", "cqlens.key"].map(|name| keys.file(name));
    let encrypted = Encrypted {
        arguments: ["--client-tls-cert", &own, "--client-tls-key", &key].map(str::to_owned),
        key_log: key_log.path(),
        shown: [own.clone(), own.clone(), key.clone()],
    };
    see_the_same(&python, node.address(), &session, Kind::Plain, Some(&encrypted));
}

/// How a driver speaks TLS with the proxy.
struct Encrypted<'a> {
    /// What the proxy needs for it.
    arguments: [String; 4],
    /// Where the driver writes its secrets.
    key_log: &'a Path,
    /// The driver's authority, certificate and key.
    shown: [String; 3],
}

fn both_see_the_same(driver: &Driver, node: SocketAddr, session: &Session, kind: Kind) {
    see_the_same(driver, node, session, kind, None);
}

fn see_the_same(
    driver: &Driver,
    node: SocketAddr,
    session: &Session,
    kind: Kind,
    encrypted: Option<&Encrypted<'_>>,
) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let key = file("hash.key");
    std::fs::write(&key, include_str!("../sniff/captures/hash.key")).unwrap();
    let settings = file("cqlens.toml");
    std::fs::write(&settings, seen::WHATEVER_THE_LATENCY).unwrap();
    let (report, capture) = (file("proxy.json"), file("session.pcap"));
    let arguments = [
        "--window",
        "3600s",
        // Both look at all: a sample is another one at each place.
        "--sequence-budget",
        "100000",
        "--report",
        report.to_str().unwrap(),
        "--hash-key-file",
        key.to_str().unwrap(),
        "--config",
        settings.to_str().unwrap(),
    ];
    let of_tls = encrypted
        .iter()
        .flat_map(|tls| &tls.arguments)
        .map(String::as_str);
    let arguments: Vec<&str> = arguments.into_iter().chain(of_tls).collect();
    let proxy = Proxy::start(PROGRAM, node, &arguments);
    let started = Lookout::start(kind, &capture, proxy.address, None);
    let Some(lookout) = available("a capture", started) else {
        return;
    };
    let of_driver = encrypted.iter().flat_map(|tls| {
        let log = tls.key_log.display().to_string();
        [&tls.shown[..], &[log, "TLSv1_3".to_owned()]].concat()
    });
    driver.run_with(
        session
            .arguments(proxy.address)
            .into_iter()
            .chain(of_driver)
            .collect(),
    );
    // What a socket still has to say when its process has gone.
    std::thread::sleep(Duration::from_millis(500));
    lookout.end();
    let port = proxy.address.port().to_string();
    let ended = proxy.stop(ENDS_WITHIN);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let proxy_said = read(&report);
    let opened = encrypted
        .iter()
        .flat_map(|tls| [OsStr::new("--tls-key-log"), tls.key_log.as_os_str()]);
    let opened: Vec<&OsStr> = opened.collect();
    let sniffed = sniff(&capture, &port, (&key, &settings), &file("sniffed.json"), &opened);
    let lines = seen::contradictions(&proxy_said, &sniffed);
    assert!(lines.is_empty(), "{session:?}\n{}", lines.join("\n"));
}

fn sniff(
    capture: &Path,
    port: &str,
    (key, settings): (&Path, &Path),
    report: &Path,
    more: &[&OsStr],
) -> Value {
    let output = Command::new(PROGRAM)
        .arg("sniff")
        .arg(capture)
        .args(["--port", port, "--hash-key-file"])
        .arg(key)
        .arg("--config")
        .arg(settings)
        .args(["--sequence-budget", "100000"])
        .args(more)
        .arg("--report")
        .arg(report)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    read(report)
}

fn read(report: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap()
}

//! tcpdump looks on while drivers go through the proxy: the capture says what the proxy says.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::node;
use crate::support::driver::{Compression, Driver, Session};
use crate::support::proxy::Proxy;
use crate::support::{available, first_or_all};

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

fn both_see_the_same(driver: &Driver, node: SocketAddr, session: &Session, kind: Kind) {
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
        "100",
        "--report",
        report.to_str().unwrap(),
        "--hash-key-file",
        key.to_str().unwrap(),
        "--config",
        settings.to_str().unwrap(),
    ];
    let proxy = Proxy::start(PROGRAM, node, &arguments);
    let started = Lookout::start(kind, &capture, proxy.address, None);
    let Some(lookout) = available("a capture", started) else {
        return;
    };
    driver.run(proxy.address, session);
    // What a socket still has to say when its process has gone.
    std::thread::sleep(Duration::from_millis(500));
    lookout.end();
    let port = proxy.address.port().to_string();
    let ended = proxy.stop(ENDS_WITHIN);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let proxy_said = read(&report);
    let sniffed = sniff(&capture, &port, (&key, &settings), &file("sniffed.json"));
    let lines = seen::contradictions(&proxy_said, &sniffed);
    assert!(lines.is_empty(), "{session:?}\n{}", lines.join("\n"));
}

fn sniff(capture: &Path, port: &str, (key, settings): (&Path, &Path), report: &Path) -> Value {
    let output = Command::new(PROGRAM)
        .arg("sniff")
        .arg(capture)
        .args(["--port", port, "--hash-key-file"])
        .arg(key)
        .arg("--config")
        .arg(settings)
        .args(["--sequence-budget", "100"])
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

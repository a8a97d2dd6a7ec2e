//! Drivers through `cqlens proxy` see what they see without it, not a byte differs, and the report knows what
//! they asked for.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::support::driver::{Compression, Driver, Session};
use crate::support::proxy::Proxy;
use crate::support::tap::{Recording, Tap, assert_passed_unchanged};
use crate::support::{available, first_or_all, with_everything};
use crate::{node, report};

/// For connections and the proxy to end once nobody uses them.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

#[test]
fn version_3_passes_unchanged_with_every_compression() {
    if with_everything("the bytes of the Python driver in version 3") {
        python_passes(
            Some(3),
            &[Compression::Snappy, Compression::None, Compression::Lz4],
        );
    }
}

#[test]
fn version_4_passes_unchanged_with_every_compression() {
    if with_everything("the bytes of the Python driver in version 4") {
        python_passes(
            Some(4),
            &[Compression::None, Compression::Lz4, Compression::Snappy],
        );
    }
}

#[test]
fn version_5_passes_unchanged_with_every_compression() {
    python_passes(Some(5), &[Compression::Lz4, Compression::None]);
}

/// The Python driver asks for version 66 first, then for 65, then for 5.
#[test]
fn version_negotiation_passes_unchanged() {
    if with_everything("the bytes of a version that the driver negotiates") {
        python_passes(None, &[Compression::None]);
    }
}

#[test]
fn gocql_passes_unchanged() {
    let Some(go) = available("gocql", Driver::go(".")) else {
        return;
    };
    let Some(node) = node() else { return };
    let all = [
        (5, Compression::Lz4),
        (4, Compression::None),
        (3, Compression::Snappy),
    ];
    for &(version, compression) in first_or_all("the bytes of gocql in versions 3 and 4", 1, &all) {
        let session = Session {
            keyspace: format!("gocql_v{version}"),
            ..Session::new(Some(version), compression)
        };
        passes(&go, node.address(), &session);
    }
}

fn python_passes(version: Option<u8>, compressions: &[Compression]) {
    let Some(python) = available("the Python driver", Driver::python("driver.py")) else {
        return;
    };
    let Some(node) = node() else { return };
    let left_out = "the bytes of the Python driver with other compressions";
    for &compression in first_or_all(left_out, 1, compressions) {
        passes(&python, node.address(), &Session::new(version, compression));
    }
}

/// Driver, tap, proxy, tap, node.
fn passes(driver: &Driver, node: SocketAddr, session: &Session) {
    let direct = driver.run(node, session);

    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let back = Tap::start(node);
    // One window for the whole run.
    let arguments = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), back.address, &arguments);
    println!("{session:?}: the proxy's log is {}", proxy.log_path().display());
    let front = Tap::start(proxy.address);
    assert_eq!(driver.run(front.address, session), direct, "{session:?}");

    let front = front.finish(ENDS_WITHIN);
    let ended = proxy.stop(ENDS_WITHIN);
    assert_eq!(ended.code, 0, "{}", ended.log);
    let added = assert_passed_unchanged(&front, &back.finish(ENDS_WITHIN));
    added.iter().for_each(assert_of_the_proxy_itself);

    let text = std::fs::read_to_string(&report_file).unwrap();
    let written: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in the report\n{text}"));
    report::assert_agrees(&written, session, &direct);
}

/// cqlens' control connections say who they are; the connection that only asked whether the proxy listens has
/// sent nothing.
fn assert_of_the_proxy_itself(recording: &Recording) {
    let says_so = recording.requests.windows(6).any(|bytes| bytes == b"cqlens");
    assert!(
        recording.requests.is_empty() || says_so,
        "a connection behind the proxy that is neither a driver's nor cqlens' own: {:02x?}",
        &recording.requests[..recording.requests.len().min(64)]
    );
}

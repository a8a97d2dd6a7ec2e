//! The clients that a real node lists are compared with the connections of the proxy: whether any of them came another way.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::available;
use crate::support::cassandra::{Cassandra, Options};
use crate::support::proxy::Proxy;

/// A STARTUP of version 4 from a driver of that name.
fn startup(driver: &str) -> Vec<u8> {
    let pairs = ["CQL_VERSION", "3.0.0", "DRIVER_NAME", driver];
    let mut body = vec![0, 2];
    for text in pairs {
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[4, 0, 0, 0, 1], &length[..], &body].concat()
}

fn connect(to: std::net::SocketAddr, driver: &str) -> TcpStream {
    let mut client = TcpStream::connect(to).unwrap();
    client.write_all(&startup(driver)).unwrap();
    client
}

#[test]
fn a_client_of_the_node_itself_is_named_and_one_of_the_proxy_is_not() {
    // No other test connects to it.
    let Some(node) = available("a node of its own", Cassandra::start(&Options::default())) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "1s", "--report", report_file.to_str().unwrap()];
    let mut proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
    let _through = connect(proxy.address, "through the proxy");
    proxy.wait_for_log("Traffic may bypass this proxy");
    proxy.wait_for_log("all clients come through this proxy");
    let _past = connect(node.address(), "past the proxy");
    let said =
        "the node has 1 connection of clients that are connected to it directly: (past the proxy, 127.0.0.1)";
    proxy.wait_for_log(said);
    let ended = proxy.stop(Duration::from_secs(300));
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    let notices = report["notices"].as_array().unwrap();
    let is_said = notices
        .iter()
        .any(|notice| notice.as_str().unwrap().contains(said));
    assert!(is_said, "{notices:?}");
}

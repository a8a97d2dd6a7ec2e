//! A real node joins a ring, and leaves it: its listener is there before a driver hears of it, and no longer
//! than the node.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::cassandra::{Cassandra, Options, loopback::free_addresses};
use crate::support::driver::Driver;
use crate::support::process::Supervised;
use crate::support::proxy::Proxy;
use crate::support::{available, cache, with_everything};

/// For anything that a cluster does on a busy machine; a node that leaves tells the others for half a minute
/// first.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_node_that_joins_has_its_listener_before_a_driver_hears_of_it_and_loses_it_when_it_leaves() {
    if !with_everything("a real node that joins a ring, and leaves it") {
        return;
    }
    let Some(python) = available("the Python driver", Driver::python("joining.py")) else {
        return;
    };
    // The nodes that are there before.
    let count = 2;
    let options = Options {
        nodes: count,
        ..Options::default()
    };
    // A node that leaves waits for as long as two writes of others may take.
    let options = options.with("write_request_timeout", "15s");
    let Some(mut cluster) = available("a ring", Cassandra::start(&options)) else {
        return;
    };
    let listeners = free_addresses(count + 1, cluster.address().port());
    let rule = listeners[0].to_string().replacen(".1:", ".{n}:", 1);
    let upstream = cluster.address().to_string();
    let arguments = [
        "--topology",
        "cluster",
        "--upstream",
        &upstream,
        "--listen",
        &rule,
    ];
    let proxy = Proxy::launch(env!("CARGO_BIN_EXE_cqlens"), &arguments, &[], None);
    wait_until("its listeners", &proxy, || listeners[..count].iter().all(accepts));

    let folder = tempfile::tempdir().unwrap();
    let stages = folder.path().join("stages");
    std::fs::write(&stages, "begin").unwrap();
    let mut command = python.command().to_vec();
    command.extend([listeners[0].ip().to_string(), listeners[0].port().to_string()]);
    command.push(stages.display().to_string());
    let mut driver = Watching(Supervised::spawn(
        &command,
        &[],
        &cache::log_file("joining"),
        None,
    ));
    let seen = driver.waits_for("seen", &proxy);
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(seen["addresses"], Value::from(texts(&listeners[..count])));
    assert!(!accepts(&listeners[count]));

    available("another node", cluster.join(&options)).unwrap();
    let added = driver.waits_for("added", &proxy);
    assert_eq!(added["address"], listeners[count].to_string());
    assert_eq!(added["accepts"], true, "{}", proxy.log());
    let is_told = format!(
        "listen={} upstream={}",
        listeners[count],
        cluster.nodes()[count].address
    );
    let log = proxy.log().replace('"', "");
    let line = log.lines().find(|line| line.contains(&is_told)).unwrap();
    assert!(
        line.contains(&format!("host_id={}", added["host_id"].as_str().unwrap())),
        "{line}"
    );

    available("that node", cluster.dismiss()).unwrap();
    let removed = driver.waits_for("removed", &proxy);
    assert_eq!(removed["address"], listeners[count].to_string());
    wait_until("its listener closes", &proxy, || !accepts(&listeners[count]));
    assert!(listeners[..count].iter().all(accepts));

    std::fs::write(&stages, "end").unwrap();
    let ended = driver.waits_for("ended", &proxy);
    assert!(ended["asked"].as_u64().unwrap() > 100, "{ended}");
    assert_eq!(ended["errors"], Value::Array(Vec::new()), "{}", proxy.log());
    let stopped = proxy.stop(LIMIT);
    assert_eq!(stopped.code, 0, "{}", stopped.log);
    assert!(!stopped.log.contains("ERROR"), "{}", stopped.log);
}

/// The driver's program.
struct Watching(Supervised);

impl Watching {
    /// Its line about `event`, once it is there.
    fn waits_for(&mut self, event: &str, proxy: &Proxy) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let log = self.0.log();
            let mut lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["event"] == event) {
                return line;
            }
            let ended = self.0.ended().is_some();
            assert!(
                !ended && Instant::now() < deadline,
                "never: {event}\n{log}\n{}",
                proxy.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn accepts(address: &SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

fn wait_until(what: &str, proxy: &Proxy, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}\n{}", proxy.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

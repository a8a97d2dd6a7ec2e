//! Three nodes on two racks: tokens, replicas and load are what Cassandra and a driver say they are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cqlens::control::follow;
use cqlens_audit::catalog::Live;
use cqlens_client::ClientOptions;
use cqlens_cql::murmur3;
use serde::Deserialize;
use serde_json::Value;

use crate::drivers::place::{DATA_CENTER, RACKS};
use crate::shared;
use crate::support::available;
use crate::support::cassandra::Cassandra;
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;

/// For the proxy to end, and for the control connection to read schema and ring.
const LIMIT: Duration = Duration::from_secs(300);

/// A key that `ring.py` has written and read once each through the proxy.
#[derive(Debug, Deserialize)]
struct Written {
    keyspace: String,
    key: (String, i32),
    /// As the driver computes it.
    token: i64,
    /// The nodes that read it when all replicas had to.
    holders: BTreeSet<String>,
}

impl Written {
    /// The routing key of `PRIMARY KEY ((k text, n int))`: length, bytes and a zero for each component.
    fn routing_key(&self) -> Vec<u8> {
        let number = self.key.1.to_be_bytes();
        let mut bytes = Vec::new();
        for component in [self.key.0.as_bytes(), &number] {
            bytes.extend(u16::try_from(component.len()).unwrap().to_be_bytes());
            bytes.extend(component);
            bytes.push(0);
        }
        bytes
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_replicas_and_load_are_those_of_the_servers_and_the_driver() {
    let Some(python) = available("the Python driver", Driver::python("ring.py")) else {
        return;
    };
    let load = Driver::python("load.py").unwrap_or_else(|missing| panic!("{missing:?}"));
    let Some(cluster) = shared::ring() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report_file = folder.path().join("report.json");
    let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), cluster.address(), &options);
    let addresses = [cluster.address(), proxy.address];
    let arguments = addresses.map(|address| [address.ip().to_string(), address.port().to_string()]);
    let written: Vec<Written> = python
        .run_with(arguments.into_iter().flatten().collect())
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(written.len() >= 100, "{written:?}");
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);

    let live = catalog_of(cluster.address()).await;
    for key in &written {
        let token = murmur3::token(&key.routing_key());
        assert_eq!(token, key.token, "{key:?}");
        assert_eq!(holders(&live, &key.keyspace, token), key.holders, "{key:?}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
    assert_eq!(
        report["coverage"]["partitions_unknown"], 0,
        "{}",
        report["coverage"]
    );
    check_load(&cluster, &load, folder.path());
}

/// A request of `load.py`, and where it went.
#[derive(Debug, Deserialize)]
struct Asked {
    /// The statement, or `batch`.
    cql: String,
    write: bool,
    /// The host id of the node that answered the driver.
    coordinator: String,
    partitions: Vec<Partition>,
}

/// As the driver's token map has it.
#[derive(Debug, Deserialize)]
struct Partition {
    token: i64,
    replicas: BTreeSet<String>,
}

/// What the report should say, summed up from what the driver says of each request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    /// Coordinated, reads and writes by host id.
    nodes: BTreeMap<String, [u64; 3]>,
    /// Reads and writes by slice of the ring.
    slices: BTreeMap<u64, [u64; 2]>,
    /// By statement: requests for one partition whose coordinator holds it, and others.
    routing: BTreeMap<String, [u64; 2]>,
    without_keys: u64,
}

impl Expected {
    fn of(asked: &[Asked]) -> Self {
        let mut expected = Self::default();
        for request in asked {
            let kind = usize::from(request.write);
            expected.nodes.entry(request.coordinator.clone()).or_default()[0] += 1;
            expected.without_keys += u64::from(request.partitions.is_empty());
            for partition in &request.partitions {
                // 256 slices from the smallest token on: the highest byte, counted from the negative ones.
                let slice = u64::try_from((partition.token >> 56) + 128).unwrap();
                expected.slices.entry(slice).or_default()[kind] += 1;
                for replica in &partition.replicas {
                    expected.nodes.entry(replica.clone()).or_default()[1 + kind] += 1;
                }
            }
            if let [only] = request.partitions.as_slice() {
                let holds = only.replicas.contains(&request.coordinator);
                expected.routing.entry(request.cql.clone()).or_default()[usize::from(!holds)] += 1;
            }
        }
        expected
    }

    /// The same as a report has it.
    fn from(report: &Value) -> Self {
        let load = &report["load"];
        let node = |node: &Value| {
            (
                text(&node["id"]),
                numbers(node, ["coordinated", "reads", "writes"]),
            )
        };
        let slice = |slice: &Value| {
            (
                slice["slice"].as_u64().unwrap(),
                numbers(slice, ["reads", "writes"]),
            )
        };
        let routed = |pattern: &Value| {
            let routing = pattern.get("routing")?;
            assert_eq!(routing["unknown"], 0, "{pattern}");
            Some((text(&pattern["cql"]), numbers(routing, ["replica", "other"])))
        };
        Self {
            nodes: all(&load["nodes"]).map(node).collect(),
            slices: all(&load["ring"]["loads"]).map(slice).collect(),
            routing: all(&report["patterns"]).filter_map(routed).collect(),
            without_keys: load["without_keys"].as_u64().unwrap(),
        }
    }
}

fn all(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().unwrap().iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn numbers<const N: usize>(of: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| of[name].as_u64().unwrap())
}

/// A proxy in front of each node; their snapshots together say what the driver says of the same requests.
fn check_load(cluster: &Cassandra, load: &Driver, folder: &Path) {
    let snapshots = folder.join("snapshots");
    let options = ["--window", "3600s", "--snapshot-dir", snapshots.to_str().unwrap()];
    let nodes: Vec<_> = cluster.nodes().iter().map(|node| node.address).collect();
    let proxies: Vec<_> = nodes
        .iter()
        .map(|&node| Proxy::start_at(beside(node), env!("CARGO_BIN_EXE_cqlens"), node, &options))
        .collect();
    proxies.iter().for_each(wait_for_the_ring);
    let mut arguments = vec![nodes[0].port().to_string()];
    arguments.extend(
        nodes
            .iter()
            .map(|&node| format!("{}={}", node.ip(), beside(node).ip())),
    );
    let lines = load.run_with(arguments);
    for proxy in proxies {
        assert_eq!(proxy.stop(LIMIT).code, 0);
    }
    let asked: Vec<Asked> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected = Expected::of(&asked);
    assert!(asked.len() >= 300 && expected.nodes.len() == 3, "{expected:?}");

    let report = merged(&snapshots, folder);
    assert_eq!(Expected::from(&report), expected);
    let load = &report["load"];
    assert_eq!(
        (&load["coordinator_unknown"], &load["unplaced"]),
        (&0.into(), &Value::Object([].into_iter().collect()))
    );
    let told: BTreeSet<_> = all(&load["nodes"])
        .map(|node| [&node["address"], &node["data_center"], &node["rack"]].map(text))
        .collect();
    let racks = nodes.iter().zip(RACKS);
    assert_eq!(
        told,
        racks
            .map(|(node, rack)| [node.to_string(), DATA_CENTER.to_owned(), rack.to_owned()])
            .collect()
    );
    // What a driver that knows the ring sends, and what one does that takes nodes in turn.
    let share = |start: &str| {
        let of = expected
            .routing
            .iter()
            .filter(|(cql, _)| cql.starts_with(start) && cql.contains("_1.t"));
        let [replica, other] = of.fold([0, 0], |sum, (_, counts)| {
            [sum[0] + counts[0], sum[1] + counts[1]]
        });
        (replica, other)
    };
    assert_eq!(share("SELECT").1, 0, "{:?}", expected.routing);
    assert!(
        share("INSERT").0 > 0 && share("INSERT").1 > 0,
        "{:?}",
        expected.routing
    );
}

/// Another address of this machine with the same port: a driver that translates addresses keeps the port.
fn beside(node: SocketAddr) -> SocketAddr {
    let IpAddr::V4(address) = node.ip() else {
        panic!("nodes of tests are on 127.0.0.0/8, not on {node}")
    };
    let [a, b, c, last] = address.octets();
    SocketAddr::from((Ipv4Addr::new(a, b, c, last + 100), node.port()))
}

/// What passes before is counted without its nodes.
fn wait_for_the_ring(proxy: &Proxy) {
    let deadline = Instant::now() + LIMIT;
    while !proxy.log().contains("control connection open") {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The report of all snapshots in a folder.
fn merged(snapshots: &Path, folder: &Path) -> Value {
    let file = folder.join("merged.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    command.arg("report").arg(snapshots).arg("--output").arg(&file);
    assert!(command.status().unwrap().success());
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

/// What a control connection finds out.
async fn catalog_of(node: SocketAddr) -> Arc<Live> {
    let live = Arc::new(Live::default());
    let following = tokio::spawn(follow(
        Arc::clone(&live),
        node.to_string(),
        ClientOptions::default(),
    ));
    let deadline = Instant::now() + LIMIT;
    while live.cluster().nodes.len() < 3 || !live.is_known() {
        assert!(Instant::now() < deadline, "{:?}", live.cluster());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    following.abort();
    live
}

fn holders(live: &Live, keyspace: &str, token: i64) -> BTreeSet<String> {
    let placement = live.placement(keyspace).unwrap();
    let cluster = live.cluster();
    placement
        .replicas(token)
        .iter()
        .map(|&node| cluster.nodes[usize::from(node)].address.clone().unwrap())
        .collect()
}

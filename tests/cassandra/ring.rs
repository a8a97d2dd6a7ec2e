//! Three nodes on two racks: tokens, replicas and load are what Cassandra and a driver say they are.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cqlens::catalog::client::ClientOptions;
use cqlens::catalog::{Live, follow, murmur3};
use serde::Deserialize;
use serde_json::Value;

use crate::support::available;
use crate::support::cassandra::{Cassandra, Options};
use crate::support::driver::Driver;
use crate::support::proxy::Proxy;

/// For the proxy to end, and for the control connection to read schema and ring.
const LIMIT: Duration = Duration::from_secs(60);

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
async fn tokens_and_replicas_are_those_of_the_servers_and_the_driver() {
    let Some(python) = available("the Python driver", Driver::python("ring.py")) else {
        return;
    };
    let started = Cassandra::start(&Options::default().on_racks(&["r1", "r1", "r2"]));
    let Some(cluster) = available("a ring of three nodes", started) else {
        return;
    };
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
    while live.cluster().nodes.len() < 3 {
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

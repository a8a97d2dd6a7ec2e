//! A cluster that proxies watch, and the report of what they wrote into a store.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_testing::proxy::{Proxy, free_address};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A node with a table.
pub(crate) struct Cluster {
    runtime: Runtime,
    node: Node,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let node = runtime.block_on(Node::start(Options::default())).unwrap();
        let cluster = Self { runtime, node };
        let schema =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
            CREATE TABLE shop.items (id int PRIMARY KEY, v text);";
        cluster.send(cluster.node.address(), schema);
        cluster
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.node.address()
    }

    pub(crate) fn client(&self, address: SocketAddr) -> ClusterClient<'_> {
        let options = ClientOptions::default();
        let client = self.runtime.block_on(Client::connect(address, &options));
        ClusterClient {
            runtime: &self.runtime,
            client: client.unwrap(),
        }
    }

    pub(crate) fn send(&self, address: SocketAddr, script: &str) {
        self.client(address).script(script);
    }

    /// Runs a proxy under a name until it has passed on so many scans and reads of single partitions, which are in
    /// `arguments`' outputs then.
    pub(crate) fn watch(
        &self,
        name: &str,
        rounds: usize,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> String {
        let (listen, upstream) = (free_address().to_string(), self.node.address().to_string());
        let named = [
            "--listen",
            &listen,
            "--upstream",
            &upstream,
            "--name",
            name,
            "--window",
            "200ms",
        ];
        let proxy = Proxy::launch(PROGRAM, &[&named, arguments].concat(), environment, None);
        for id in 0..rounds {
            self.send(
                proxy.address,
                &format!("SELECT * FROM shop.items; SELECT v FROM shop.items WHERE id = {id};"),
            );
        }
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        ended.log
    }
}

/// A client that stays connected.
pub(crate) struct ClusterClient<'a> {
    runtime: &'a Runtime,
    client: Client,
}

impl ClusterClient<'_> {
    pub(crate) fn script(&mut self, script: &str) {
        self.runtime.block_on(self.client.script(script)).unwrap();
    }
}

pub(crate) fn report(arguments: &[&str], environment: &[(String, String)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["report", "--format", "json"]).args(arguments);
    command.envs(environment.iter().cloned()).output().unwrap()
}

pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A report without what differs from run to run: when it was made, and points of time shorter than merged windows.
pub(crate) fn comparable(mut report: Value) -> Value {
    let parts = report.as_object_mut().unwrap();
    assert!(parts.remove("generated_at").is_some(), "{:?}", parts.keys());
    parts.remove("timeline");
    report
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

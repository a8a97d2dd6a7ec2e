//! A shop whose figures go to an OpenTelemetry collector.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_testing::proxy::Proxy;
use tokio::runtime::Runtime;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A node with a table of items.
pub(crate) struct Shop {
    runtime: Runtime,
    node: Node,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let runtime = Runtime::new().unwrap();
        let node = runtime.block_on(async {
            let node = Node::start(Options::default()).await.unwrap();
            let schema =
                "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                CREATE TABLE shop.items (id int PRIMARY KEY, v text);";
            connect(node.address()).await.script(schema).await.unwrap();
            node
        });
        Self { runtime, node }
    }

    /// A proxy that sends its figures to `collector` several times a second.
    pub(crate) fn proxy(&self, collector: &str, more: &[&str]) -> Proxy {
        let common = [
            "--otlp",
            collector,
            "--otlp-every",
            "200ms",
            "--window",
            "300ms",
            "--name",
            "shop-1",
        ];
        Proxy::start(PROGRAM, self.node.address(), &[&common[..], more].concat())
    }

    /// Searches that are a finding.
    pub(crate) fn search(&self, proxy: &Proxy, times: usize) {
        self.runtime.block_on(async {
            let mut client = connect(proxy.address).await;
            for _search in 0..times {
                let search = "SELECT * FROM shop.items WHERE v = 'secret' ALLOW FILTERING";
                client.query(search).await.unwrap();
            }
        });
    }
}

pub(crate) async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &ClientOptions::default()).await.unwrap()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

//! Which requests a shadow copies: a share of connections, keyspaces, patterns, so many a second.

use std::net::SocketAddr;

use cqlens_node::Node;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::proxy::shadow::{ProxyWithShadow, connect, node, runtime, traffic};

struct Clusters {
    runtime: Runtime,
    first: Node,
    other: Node,
}

impl Clusters {
    fn new() -> Self {
        let runtime = runtime();
        let (first, other) = (node(&runtime, ""), node(&runtime, ""));
        Self {
            runtime,
            first,
            other,
        }
    }

    /// What is reported of the shadow of a proxy with these arguments, once so many requests are compared or left out.
    fn with<F: Future<Output = ()>>(
        &self,
        arguments: &[&str],
        clients: impl Fn(SocketAddr) -> F,
        requests: u64,
    ) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let (first, other) = (self.first.address(), self.other.address());
        let shadowed = ProxyWithShadow::start(first, other, folder.path(), arguments);
        self.runtime.block_on(clients(shadowed.proxy.address));
        shadowed.finish(requests)
    }
}

const ROUNDS: i32 = 20;
/// Pages of a prepared read, a plain one, and one that is refused.
const READS: u64 = 3 * ROUNDS as u64;

async fn one_client(address: SocketAddr) {
    traffic(address, ROUNDS).await;
}

async fn plain_reads(address: SocketAddr, reads: u64) {
    let mut client = connect(address).await;
    for b in 0..reads {
        let read = format!("SELECT v FROM k.t WHERE a = 1 AND b = {b}");
        client.query(&read).await.unwrap();
    }
}

fn compared(report: &Value) -> u64 {
    report["totals"]["compared"].as_u64().unwrap()
}

fn skipped(report: &Value, why: &str) -> u64 {
    report["totals"]["skipped"][why].as_u64().unwrap_or(0)
}

#[test]
fn keyspaces_that_are_not_named_are_not_copied() {
    let clusters = Clusters::new();
    let named = clusters.with(&["--shadow-keyspaces", "other,k"], one_client, READS + 1);
    assert_eq!(
        (compared(&named), skipped(&named, "not-sampled")),
        (READS, 0),
        "{named:#}"
    );
    let others = clusters.with(&["--shadow-keyspaces", "other"], one_client, READS + 1);
    assert_eq!(compared(&others), 0, "{others:#}");
    assert!(skipped(&others, "not-sampled") >= READS, "{others:#}");
}

#[test]
fn patterns_are_chosen_by_their_ids_in_the_report() {
    let clusters = Clusters::new();
    let all = clusters.with(&[], one_client, READS + 1);
    let patterns = all["patterns"].as_array().unwrap();
    let prepared = patterns.iter().find(|pattern| {
        let cql = pattern["cql"].as_str().unwrap();
        cql.starts_with("SELECT b, v FROM")
    });
    let id = prepared.unwrap()["id"].as_str().unwrap();
    let chosen = clusters.with(&["--shadow-patterns", id], one_client, READS + 1);
    assert_eq!(compared(&chosen), READS / 3, "{chosen:#}");
    assert!(skipped(&chosen, "not-sampled") >= READS / 3 * 2, "{chosen:#}");
}

#[test]
fn a_share_of_connections_is_copied_as_a_whole() {
    const CLIENTS: u64 = 40;
    let clusters = Clusters::new();
    let sampled = clusters.with(
        &["--shadow-sample", "25"],
        |address| async move {
            for _client in 0..CLIENTS {
                plain_reads(address, 5).await;
            }
        },
        5 * CLIENTS,
    );
    let not = sampled["not_offered"]["not in the sample"].as_u64().unwrap();
    let copied = compared(&sampled);
    assert_eq!(copied + not, 5 * CLIENTS, "{sampled:#}");
    assert_eq!(copied % 5, 0, "{sampled:#}");
    assert!((1..CLIENTS / 2).contains(&(copied / 5)), "{sampled:#}");
}

#[test]
fn no_more_are_copied_in_a_second_than_it_may_have() {
    let clusters = Clusters::new();
    let limited = clusters.with(
        &["--shadow-rate", "1"],
        |address| plain_reads(address, READS),
        READS,
    );
    let (copied, not) = (compared(&limited), skipped(&limited, "rate-limited"));
    assert!(
        copied >= 1 && copied + not == READS && not > READS / 2,
        "{limited:#}"
    );
}

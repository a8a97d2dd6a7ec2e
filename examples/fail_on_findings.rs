//! An application's integration test that fails on findings: its requests go through a proxy in the test's
//! own process, and what the rules find in them at or above a severity fails the test.
//!
//! `cargo test --example fail_on_findings`; the node is the embedded one here and could be any.
#![allow(clippy::panic, reason = "a test that fails panics")]

use std::net::SocketAddr;

use cqlens::in_process;
use cqlens_rules::{Settings, Severity};

/// Runs `test` with the address of a proxy in front of `node`. Severities say how bad one execution is: what a
/// test sends is no load.
///
/// # Panics
/// With the titles of all findings of at least `least`.
pub async fn fail_on_findings<T>(
    node: SocketAddr,
    least: Severity,
    test: impl AsyncFnOnce(SocketAddr) -> T,
) -> T {
    let audited = in_process::audit(node, "integration test", test).await;
    let (given, audited) = audited.expect("the proxy runs in front of the node");
    let found: Vec<_> = audited
        .judgement(&Settings::whatever_the_load())
        .findings
        .into_iter()
        .filter(|finding| finding.severity >= least)
        .map(|finding| format!("{:?} {}: {}", finding.severity, finding.rule, finding.title))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    given
}

fn main() {}

#[cfg(test)]
mod tests {
    use cqlens_client::{Client, ClientOptions};
    use cqlens_node::{Node, Options};

    use super::*;

    const TABLE: &str =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.users (name text PRIMARY KEY, email text);";

    /// What the application does in its test.
    async fn find_user(cql: &str) {
        let node = Node::start(Options::default()).await.expect("the node starts");
        fail_on_findings(node.address(), Severity::Medium, async |proxy: SocketAddr| {
            let mut client = Client::connect(proxy, &ClientOptions::default())
                .await
                .expect("it connects");
            client.script(TABLE).await.expect("the table is new");
            client.query(cql).await.expect("the node answers");
        })
        .await;
        node.shutdown().await;
    }

    #[tokio::test]
    async fn a_user_is_found_by_name() {
        find_user("SELECT email FROM shop.users WHERE name = 'anna'").await;
    }

    #[tokio::test]
    #[should_panic(expected = "allow-filtering")]
    async fn a_user_is_found_by_email() {
        find_user("SELECT name FROM shop.users WHERE email = 'anna@example.org' ALLOW FILTERING").await;
    }
}

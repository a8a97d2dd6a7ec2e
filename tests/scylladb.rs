//! A node that answers like ScyllaDB where it is asked who it is: the report names it, and judges its indexes
//! as what they are. No ScyllaDB server takes part.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;

use cqlens::in_process::{self, Audited};
use cqlens_audit::rules::Settings;
use cqlens_client::{Client, ClientOptions};
use cqlens_cql::Product;
use cqlens_node::{Node, Options};

const TABLE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1};
    CREATE TABLE shop.users (id int PRIMARY KEY, email text);
    CREATE INDEX by_email ON shop.users (email);";

/// Users with an e-mail address each, who are looked for by it.
async fn audited(scylladb: Option<&str>) -> Audited {
    let options = Options {
        scylladb: scylladb.map(str::to_owned),
        ..Options::default()
    };
    let node = Node::start(options).await.unwrap();
    let traffic = async |proxy: SocketAddr| {
        let mut client = Client::connect(proxy, &ClientOptions::default()).await.unwrap();
        client.script(TABLE).await.unwrap();
        for id in 0..150 {
            let insert = format!("INSERT INTO shop.users (id, email) VALUES ({id}, '{id}@example.org')");
            client.query(&insert).await.unwrap();
            let read = format!("SELECT id FROM shop.users WHERE email = '{id}@example.org'");
            client.query(&read).await.unwrap();
        }
    };
    let audited = in_process::audit(node.address(), "test", traffic).await;
    node.shutdown().await;
    audited.unwrap().1
}

fn rules(audited: &Audited) -> Vec<&'static str> {
    let judgement = audited.judgement(&Settings::whatever_the_load());
    judgement.findings.iter().map(|finding| finding.rule).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn its_version_and_its_global_indexes_are_known() {
    let scylladb = audited(Some("6.2.0")).await;
    assert_eq!(scylladb.cluster.product, Some(Product::ScyllaDb));
    assert_eq!(scylladb.cluster.software().as_deref(), Some("ScyllaDB 6.2.0"));
    assert!(!rules(&scylladb).contains(&"index-high-cardinality"));

    let cassandra = audited(None).await;
    assert_eq!(cassandra.cluster.product, Some(Product::Cassandra));
    assert!(rules(&cassandra).contains(&"index-high-cardinality"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_index_is_there_is_what_the_report_says() {
    let options = Options {
        scylladb: Some("6.2.0".to_owned()),
        ..Options::default()
    };
    let node = Node::start(options).await.unwrap();
    let traffic = async |proxy: SocketAddr| {
        let mut client = Client::connect(proxy, &ClientOptions::default()).await.unwrap();
        client.script(TABLE).await.unwrap();
        for id in 0..450 {
            let insert = format!(
                "INSERT INTO shop.users (id, email) VALUES ({id}, 'group-{}')",
                id % 3
            );
            client.query(&insert).await.unwrap();
            let read = format!("SELECT id FROM shop.users WHERE email = 'group-{}'", id % 3);
            client.query(&read).await.unwrap();
        }
    };
    let audited = in_process::audit(node.address(), "test", traffic).await;
    node.shutdown().await;
    let judgement = audited.unwrap().1.judgement(&Settings::whatever_the_load());
    let advice = |rule| {
        let mut findings = judgement.findings.iter();
        let found = findings.find(|finding| finding.rule == rule);
        found.map(|finding| finding.advice.clone())
    };
    let crowded = advice("index-low-cardinality").unwrap();
    assert!(crowded.contains("each value is one partition"), "{crowded}");
}

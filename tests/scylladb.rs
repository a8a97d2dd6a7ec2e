//! A node that answers like ScyllaDB where it is asked who it is: the report names it, and judges its indexes
//! as what they are. No ScyllaDB server takes part.

use std::net::SocketAddr;

use cqlens::in_process::{self, Audited};
use cqlens_client::{Client, ClientOptions};
use cqlens_cql::Product;
use cqlens_node::{Node, Options};
use cqlens_report::Format;
use cqlens_rules::Settings;

const TABLES: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1};
    CREATE TABLE shop.users (id int PRIMARY KEY, email text, name text);
    CREATE INDEX by_email ON shop.users (email);
    CREATE TABLE shop.visits (user int, at int, page text, PRIMARY KEY (user, at));";

/// What is seen of some traffic before a node that is ScyllaDB of this version, or Cassandra.
async fn seen(scylladb: Option<&str>, traffic: impl AsyncFnOnce(&mut Client)) -> Audited {
    let options = Options {
        scylladb: scylladb.map(str::to_owned),
        ..Options::default()
    };
    let node = Node::start(options).await.unwrap();
    let traffic = async |proxy: SocketAddr| {
        let mut client = Client::connect(proxy, &ClientOptions::default()).await.unwrap();
        client.script(TABLES).await.unwrap();
        traffic(&mut client).await;
    };
    let audited = in_process::audit(node.address(), "test", traffic).await;
    node.shutdown().await;
    audited.unwrap().1
}

/// Users with an e-mail address each, who are looked for by it.
async fn looked_for(client: &mut Client) {
    for id in 0..150 {
        let insert = format!("INSERT INTO shop.users (id, email) VALUES ({id}, '{id}@example.org')");
        client.query(&insert).await.unwrap();
        let read = format!("SELECT id FROM shop.users WHERE email = '{id}@example.org'");
        client.query(&read).await.unwrap();
    }
}

/// Visits, of which the newest are read although the oldest come first.
async fn newest_first(client: &mut Client) {
    for at in 0..150 {
        let insert = format!(
            "INSERT INTO shop.visits (user, at, page) VALUES ({}, {at}, 'home')",
            at % 5
        );
        client.query(&insert).await.unwrap();
        let read = format!(
            "SELECT at FROM shop.visits WHERE user = {} ORDER BY at DESC LIMIT 10",
            at % 5
        );
        client.query(&read).await.unwrap();
    }
}

/// Batches over two partitions of so many bytes each.
async fn batches(client: &mut Client, bytes: usize) {
    let page = "x".repeat(bytes / 2);
    for at in 0..30 {
        let insert =
            |user| format!("INSERT INTO shop.visits (user, at, page) VALUES ({user}, {at}, '{page}');");
        let batch = format!("BEGIN UNLOGGED BATCH {} {} APPLY BATCH", insert(1), insert(2));
        client.query(&batch).await.unwrap();
    }
}

fn rules(audited: &Audited) -> Vec<&'static str> {
    let judgement = audited.judgement(&Settings::whatever_the_load());
    judgement.findings.iter().map(|finding| finding.rule).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn its_version_and_its_global_indexes_are_known() {
    let scylladb = seen(Some("6.2.0"), looked_for).await;
    assert_eq!(scylladb.cluster.product, Some(Product::ScyllaDb));
    assert_eq!(scylladb.cluster.software().as_deref(), Some("ScyllaDB 6.2.0"));
    assert!(!rules(&scylladb).contains(&"index-high-cardinality"));

    let cassandra = seen(None, looked_for).await;
    assert_eq!(cassandra.cluster.product, Some(Product::Cassandra));
    assert!(rules(&cassandra).contains(&"index-high-cardinality"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_index_is_there_is_what_the_report_says() {
    let traffic = async |client: &mut Client| {
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
    let judgement = seen(Some("6.2.0"), traffic)
        .await
        .judgement(&Settings::whatever_the_load());
    let advice = |rule| {
        let mut findings = judgement.findings.iter();
        let found = findings.find(|finding| finding.rule == rule);
        found.map(|finding| finding.advice.clone())
    };
    let crowded = advice("index-low-cardinality").unwrap();
    assert!(crowded.contains("each value is one partition"), "{crowded}");
}

/// The title of what a rule found, with the settings under which load does not count.
fn title(audited: &Audited, rule: &str) -> Option<String> {
    let findings = audited.judgement(&Settings::whatever_the_load()).findings;
    let found = findings.into_iter().find(|finding| finding.rule == rule);
    found.map(|finding| finding.title)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_by_its_index_looks_up_keys_and_asks_no_node_in_vain() {
    let scylladb = title(&seen(Some("6.2.0"), looked_for).await, "secondary-index-read").unwrap();
    assert!(
        scylladb.contains("look up keys in a global index, then read a partition for each"),
        "{scylladb}"
    );
    let cassandra = title(&seen(None, looked_for).await, "secondary-index-read").unwrap();
    assert!(cassandra.contains("on all nodes"), "{cassandra}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_reads_both_ways_alike() {
    let rule = "reversed-read";
    assert_eq!(title(&seen(Some("6.2.0"), newest_first).await, rule), None);
    assert!(title(&seen(None, newest_first).await, rule).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_measured_by_its_own_thresholds() {
    let rule = "batch-too-large";
    let small = async |client: &mut Client| batches(client, 20 << 10).await;
    assert_eq!(title(&seen(Some("6.2.0"), small).await, rule), None);
    assert!(title(&seen(None, small).await, rule).is_some());
    let large = async |client: &mut Client| batches(client, 200 << 10).await;
    let found = title(&seen(Some("6.2.0"), large).await, rule).unwrap();
    assert!(found.contains("200 KiB") || found.contains("201 KiB"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_names_it_and_advises_nothing_that_it_lacks() {
    let all = async |client: &mut Client| {
        looked_for(client).await;
        newest_first(client).await;
        for id in 0..30 {
            let read = format!("SELECT id FROM shop.users WHERE name = 'name-{id}' ALLOW FILTERING");
            client.query(&read).await.unwrap();
        }
    };
    let said = |audited: &Audited| {
        let report = audited.report();
        let text = |format| {
            let mut text = Vec::new();
            report.render(format, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        [text(Format::Html), text(Format::Md), text(Format::Json)]
    };
    let is_of_sai = |audited: &Audited| {
        let findings = audited.judgement(&Settings::default()).findings;
        findings.iter().any(|finding| {
            let cql = finding.suggested_cql.join(" ");
            let texts = [&finding.title, &finding.advice, &cql];
            texts
                .iter()
                .any(|text| text.contains("SAI") || text.contains("torage-attached"))
        })
    };
    let scylladb = seen(Some("6.2.0"), all).await;
    assert!(rules(&scylladb).contains(&"allow-filtering"));
    let [html, markdown, json] = said(&scylladb);
    assert!(html.contains("ScyllaDB 6.2.0"));
    for text in [&html, &markdown, &json] {
        assert!(!text.contains("Cassandra 3.0.8"), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cluster"]["product"], "scylladb");
    assert!(!is_of_sai(&scylladb));
    assert!(is_of_sai(&seen(None, all).await), "where there are such indexes");
}

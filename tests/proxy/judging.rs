//! Thresholds and accepted findings of the settings, as an operator sees them: in the report of a running
//! proxy, after a reload, and in what the other commands print.

use std::{fs, path::Path, process::Command};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use serde_json::Value;

use crate::proxy::{settings::File, wire::LIMIT};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// How severe this rule's finding is depends on how fast the requests came.
const WHATEVER_THE_TIME: &str = "[rules.unprepared-statement]\nseverity = 'off'\n";

const ACCEPT: &str = "
[[accept]]
rule = 'allow-filtering'
table = 'shop.items'
owner = 'platform'
reason = 'admin page only'
until = 9999-01-01

[rules.select-star]
";

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn rules(findings: &Value) -> Vec<&str> {
    let findings = findings.as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}

fn cqlens(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Filters the table of items, which accepts something that is not found and something that is not
/// understood.
async fn traffic(address: std::net::SocketAddr) {
    let mut client = Client::connect(address, &ClientOptions::default()).await.unwrap();
    let schema = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, a int) WITH comment =
        'Q1. Items. cqlens:accept timeouts owner=a until=9999-01-01 reason=slow disks cqlens:acept timeouts';";
    client.script(schema).await.unwrap();
    for _ in 0..200 {
        let filter = "SELECT id FROM shop.items WHERE a = 1 ALLOW FILTERING";
        client.query(filter).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_accepts_what_was_found_since_the_start() {
    let node = Node::start(Options::default()).await.unwrap();
    let file = File::new("");
    let (report_file, snapshots) = (file.below("report.json"), file.below("snapshots"));
    let settings = format!(
        "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{}'\nwindow = '200ms'\nreport = '{report_file}'\nsnapshot-dir = '{snapshots}'\n{WHATEVER_THE_TIME}",
        node.address()
    );
    file.write(&settings);
    let mut proxy = file.proxy();
    traffic(proxy.address).await;
    let found = || rules(&report(Path::new(&report_file))["findings"]).contains(&"allow-filtering");
    let until = std::time::Instant::now() + LIMIT;
    while !found() {
        assert!(std::time::Instant::now() < until, "no finding: {}", proxy.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    file.write(&format!("{settings}{ACCEPT}"));
    proxy.signal("HUP");
    proxy.wait_for_log("settings reloaded, in force");
    assert!(proxy.log().contains("changed=\"accept\""), "{}", proxy.log());
    // The report follows: its writer may be at work.
    while found() {
        assert!(std::time::Instant::now() < until, "it stays: {}", proxy.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let now = report(Path::new(&report_file));
    assert!(!rules(&now["findings"]).contains(&"allow-filtering"), "{now}");
    let accepted = &now["accepted"][0];
    assert_eq!(accepted["acceptance"]["owner"], "platform");
    assert_eq!(accepted["acceptance"]["place"], "cqlens.toml:10");
    assert_eq!(now["idle_acceptances"][0]["rule"], "timeouts");
    assert_eq!(now["idle_acceptances"][0]["place"], "comment of shop.items");
    let mistake = now["acceptance_mistakes"][0].as_str().unwrap();
    assert!(mistake.contains("`cqlens:acept timeouts`"), "{mistake}");
    assert_eq!(now["tables"][0]["comment"], "Q1. Items");
    assert_eq!(proxy.stop(LIMIT).code, 0);

    let path = file.path();
    let config = [
        "report",
        &snapshots,
        "--fail-on",
        "low",
        "--config",
        path.to_str().unwrap(),
    ];
    assert_eq!(cqlens(&config[..4]).0, Some(1));
    let (code, markdown) = cqlens(&config);
    assert_eq!(code, Some(0), "{markdown}");
    assert!(markdown.contains("(comment of shop.items)."), "{markdown}");
    assert!(
        markdown.contains("Accepted by platform until 1 January 9999: admin page only (cqlens.toml:10)."),
        "{markdown}"
    );
}

#[test]
fn thresholds_that_are_set_are_shown_and_decide() {
    let file = File::new(
        "[rules.in-partition-key]\nlow_partitions = 40\nmedium_partitions = 50\nhigh_partitions = 60\n",
    );
    let path = file.path();
    let config = ["--config", path.to_str().unwrap()];
    let printed = |arguments: &[&str]| cqlens(&[&config[..], arguments].concat()).1;
    let page = printed(&["rules", "in-partition-key"]);
    assert!(
        page.contains("`low_partitions` = 40 partitions at p99, as set"),
        "{page}"
    );
    let all = printed(&["proxy", "--upstream", "db", "--print-config"]);
    let table = all.split("[rules.in-partition-key]").nth(1).unwrap();
    assert!(
        table.trim_start().starts_with("low_partitions = 40  # file: "),
        "{all}"
    );

    fs::write(
        file.below("q.cql"),
        "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy'};
        CREATE TABLE s.t (k int PRIMARY KEY); SELECT k FROM s.t WHERE k IN (1, 2, 3, 4, 5);",
    )
    .unwrap();
    let query = file.below("q.cql");
    let explain = ["explain", query.as_str(), "--fail-on", "low"];
    assert_eq!(cqlens(&explain).0, Some(1));
    assert_eq!(cqlens(&[&config[..], &explain].concat()).0, Some(0));
}

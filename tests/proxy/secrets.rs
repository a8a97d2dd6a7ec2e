//! Nothing leaks: no value is in a log, a snapshot or a report.

use std::{fs, path::Path};

use cqlens::{
    catalog::client::{Bind, Client, ClientOptions, Run, RunOptions},
    node::{Node, Options},
};

use crate::{support::proxy::Proxy, wire::LIMIT};

/// Planted in every place where a value can stand.
const SECRET: &str = "hunter2";

#[tokio::test]
async fn no_value_is_in_the_log_a_snapshot_or_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let (report, snapshots) = (folder.path().join("report.html"), folder.path().join("snapshots"));
    let node = Node::start(Options::default()).await.unwrap();
    let arguments = [
        "--log",
        "debug",
        "--report",
        report.to_str().unwrap(),
        "--snapshot-dir",
        snapshots.to_str().unwrap(),
    ];
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &arguments);
    let mut client = Client::connect(proxy.address, &ClientOptions::default())
        .await
        .unwrap();
    client
        .script(
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE s.users (name text PRIMARY KEY, word text);",
        )
        .await
        .unwrap();
    for cql in [
        "INSERT INTO s.users (name, word) VALUES ('hunter2', 'hunter2')",
        "SELECT word FROM s.users WHERE name IN ('hunter2', $$hunter2$$)",
        "SELECT word FROM s.users WHERE word = 'hunter2' ALLOW FILTERING",
        // Refused, not CQL, or neither: the texts hold values all the same.
        "SELECT word FROM s.users WHERE word = 'hunter2'",
        "SELECT 'hunter2 FROM s.users",
        "SELEKT word FROM s.users WHERE name = 'hunter2' /* hunter2 */",
        "CREATE ROLE anna WITH PASSWORD = 'hunter2' AND LOGIN = true",
    ] {
        // Whether the node takes it is not the question.
        let _ = client.query(cql).await;
    }
    let prepared = client
        .prepare("SELECT word FROM s.users WHERE name = ?")
        .await
        .unwrap();
    client
        .run(
            Run::Prepared(&prepared, &[Bind::text(SECRET)]),
            &RunOptions::default(),
        )
        .await
        .unwrap();
    drop(client);
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0);

    assert_clean("the log", &ended.log);
    assert_clean("the report", &fs::read_to_string(&report).unwrap());
    let files: Vec<_> = fs::read_dir(&snapshots)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(
        files.iter().any(|file| seen(file, "s.users")),
        "the statements are there, without their values"
    );
    for file in files {
        assert_clean(&file.display().to_string(), &fs::read_to_string(&file).unwrap());
    }
}

fn assert_clean(what: &str, text: &str) {
    if let Some(at) = text.find(SECRET) {
        let shown: String = text[..at]
            .chars()
            .rev()
            .take(80)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        panic!("a value is in {what}, after {shown:?}");
    }
}

fn seen(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).unwrap().contains(text)
}

//! Settings that change while clients are connected.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::proxy::{
    certificates::{self, Authority, BOTH, Issued},
    settings::File,
    support::snapshots,
    wire::{LIMIT, Node, connect, query, void},
};

/// A node that answers every query of this text with `answer`.
pub(crate) fn answering(answer: Vec<u8>) -> Node {
    Node::start(move |mut connection| {
        let mut request = vec![0; query(1, "SELECT k FROM s.t").len()];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&answer).unwrap();
        }
    })
}

pub(crate) fn ask(client: &mut TcpStream) -> Vec<u8> {
    client.write_all(&query(1, "SELECT k FROM s.t")).unwrap();
    let mut answer = vec![0; void(1).len()];
    client.read_exact(&mut answer).unwrap();
    answer
}

fn settings(upstream: SocketAddr, more: &str) -> String {
    format!(
        "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{upstream}'\nno-control-connection = true\n{more}\n"
    )
}

#[test]
fn new_settings_are_for_new_connections_and_old_connections_stay() {
    let (old, new) = (answering(void(1)), answering(void(2)));
    let file = File::new(&settings(old.address, ""));
    let mut proxy = file.proxy();
    let mut early = connect(proxy.address);
    assert_eq!(ask(&mut early), void(1));

    file.write(&settings(new.address, "window = '1h'"));
    proxy.signal("HUP");
    proxy.wait_for_log("settings reloaded, in force");
    let mut late = connect(proxy.address);
    assert_eq!(ask(&mut late), void(2));
    assert_eq!(ask(&mut early), void(1));

    proxy.signal("HUP");
    proxy.wait_for_log("nothing has changed");
    drop((early, late));
    let ended = proxy.stop(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("upstream, window"), "{}", ended.log);
}

#[test]
fn what_needs_a_restart_is_named_and_stays() {
    let node = answering(void(1));
    let file = File::new(&settings(node.address, ""));
    let mut proxy = file.proxy();
    let elsewhere = settings(
        node.address,
        "admin = '127.0.0.1:1'\nreuse-port = true\nshow-values = true",
    )
    .replace(":0'", ":1'");
    file.write(&elsewhere);
    proxy.signal("HUP");
    proxy.wait_for_log("nothing has changed");
    let log = proxy.log();
    for key in ["listen", "admin", "reuse-port", "show-values"] {
        assert!(
            log.contains("needs a restart") && log.contains(&format!("setting=\"{key}\"")),
            "{key}: {log}"
        );
    }
    assert_eq!(ask(&mut connect(proxy.address)), void(1));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[test]
fn a_broken_file_changes_nothing_and_no_secret_is_logged() {
    let (old, new) = (answering(void(1)), answering(void(2)));
    let file = File::new(&settings(old.address, ""));
    let mut proxy = file.proxy();
    for (broken, why) in [
        ("nonsense", "cqlens.toml:5:"),
        ("window = 'soon'", "window: \"soon\" is not a valid value"),
        (
            "report = 'report.pdf'",
            "must end in .html, .md, .json, .csv, .tsv or .svg",
        ),
        ("schema = '/no/such.cql'", "/no/such.cql"),
        (
            "client-tls-cert = '/no/such.crt'\nclient-tls-key = '/no/such.key'",
            "cannot read /no/such.crt",
        ),
        ("username = 'hunter2'", "--password"),
        ("password = 5", "password: expected a string in quotes"),
    ] {
        // Everything else in that file would be fine.
        file.write(&settings(new.address, broken));
        proxy.signal("HUP");
        proxy.wait_for_log(why);
        assert!(proxy.log().contains("the previous ones stay"), "{}", proxy.log());
        assert_eq!(ask(&mut connect(proxy.address)), void(1), "{broken}");
    }
    file.write(&settings(new.address, "username = 'anna'\npassword = 'hunter2'"));
    proxy.signal("HUP");
    proxy.wait_for_log("upstream, username, password");
    assert_eq!(ask(&mut connect(proxy.address)), void(2));
    let ended = proxy.stop(LIMIT);
    assert!(!ended.log.contains("hunter2"), "{}", ended.log);
}

#[test]
fn log_filter_report_snapshots_and_name_change_at_once() {
    let node = answering(void(1));
    let file = File::new(&settings(
        node.address,
        "name = 'before'\ngrace = '1h'\nwindow = '1h'",
    ));
    let mut proxy = file.proxy();
    assert_eq!(ask(&mut connect(proxy.address)), void(1));
    assert!(!proxy.log().contains("connection opened"), "{}", proxy.log());

    let (report, snapshots) = (file.below("report.json"), file.below("snapshots"));
    let more = format!(
        "name = 'after'\ngrace = '0s'\nwindow = '100ms'\nreport = '{report}'\nsnapshot-dir = '{snapshots}'"
    );
    file.write(&format!("log = 'debug'\n{}", settings(node.address, &more)));
    proxy.signal("HUP");
    proxy.wait_for_log("settings reloaded, in force");
    let mut client = connect(proxy.address);
    assert_eq!(ask(&mut client), void(1));
    proxy.wait_for_log("connection opened");
    let deadline = Instant::now() + LIMIT;
    let written = |ending: &str| {
        let names = fs::read_dir(&snapshots).unwrap();
        names
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().ends_with(ending))
    };
    // The window that was begun before keeps its name.
    while !(written("-after.cqlens.json.gz") && written("-before.cqlens.json.gz")) {
        assert!(Instant::now() < deadline, "{}", proxy.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Who gets the snapshots does not get the key.
    assert!(!written("hash.key"));
    let reported = crate::proxy::wire::report(report.as_ref());
    // Over everything since the start, not since the reload.
    assert!(
        reported["coverage"]["requests"].as_u64().unwrap() >= 1,
        "{reported}"
    );
    // Nobody waits for an hour.
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_switched_on_for_new_connections() {
    let node = answering(void(1));
    let file = File::new(&settings(node.address, ""));
    let authority = Authority::new(file.folder.path(), "authority");
    let Issued { certificate, key } = authority.issue("proxy", &["127.0.0.1"]);
    let mut proxy = file.proxy();
    let mut early = connect(proxy.address);
    assert_eq!(ask(&mut early), void(1));

    let (certificate, key) = (certificate.display(), key.display());
    let more = format!("client-tls-cert = '{certificate}'\nclient-tls-key = '{key}'");
    file.write(&settings(node.address, &more));
    proxy.signal("HUP");
    proxy.wait_for_log("client-tls-cert, client-tls-key");
    let mut late = certificates::connect(proxy.address, &authority, BOTH).await;
    late.write_all(&query(1, "SELECT k FROM s.t")).await.unwrap();
    let mut answer = vec![0; void(1).len()];
    late.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, void(1));
    assert_eq!(ask(&mut early), void(1));
    drop((early, late));
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

fn definitions(table: &str) -> String {
    format!(
        "CREATE KEYSPACE s WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
         CREATE TABLE s.table_{table} (k int PRIMARY KEY);"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_connection_and_the_schema_follow_the_settings() {
    let (first, second) = (
        cqlens_node::Node::start(cqlens_node::Options::default())
            .await
            .unwrap(),
        cqlens_node::Node::start(cqlens_node::Options::default())
            .await
            .unwrap(),
    );
    let file = File::new("");
    let (schema, snapshot_dir, admin) = (
        file.below("schema.cql"),
        file.below("snapshots"),
        cqlens_testing::proxy::free_address(),
    );
    let write = |upstream: SocketAddr, more: &str| {
        file.write(&format!(
            "[proxy]\nlisten = '127.0.0.1:0'\nupstream = '{upstream}'\nwindow = '50ms'\nsnapshot-dir = '{snapshot_dir}'\nadmin = '{admin}'\n{more}\n"
        ));
    };
    let schema_of_snapshots = |table: &str| {
        let is_there = || {
            let files = snapshots::files(snapshot_dir.as_ref());
            files
                .iter()
                .filter_map(|file| snapshots::text(file))
                .any(|text| text.contains(table))
        };
        let deadline = Instant::now() + LIMIT;
        while !is_there() {
            assert!(Instant::now() < deadline, "{table} is in no snapshot");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for (node, table) in [(&first, "one"), (&second, "two")] {
        let mut client = Client::connect(node.address(), &ClientOptions::default())
            .await
            .unwrap();
        client.script(&definitions(table)).await.unwrap();
    }
    let control = |state: &str| {
        let deadline = Instant::now() + LIMIT;
        while crate::proxy::admin::get(admin, "/readyz").json()["control_connection"] != state {
            assert!(Instant::now() < deadline, "never {state}");
        }
    };
    write(first.address(), "");
    let mut proxy = file.proxy();
    control("open");
    schema_of_snapshots("table_one");

    write(second.address(), "");
    assert_eq!(crate::proxy::admin::post(admin, "/reload").code, 200);
    control("open");
    schema_of_snapshots("table_two");

    fs::write(&schema, definitions("three")).unwrap();
    write(
        second.address(),
        &format!("no-control-connection = true\nschema = '{schema}'"),
    );
    assert_eq!(crate::proxy::admin::post(admin, "/reload").code, 200);
    assert_eq!(
        crate::proxy::admin::get(admin, "/readyz").json()["control_connection"],
        "off"
    );
    schema_of_snapshots("table_three");

    // The same name, another content.
    fs::write(&schema, definitions("four")).unwrap();
    proxy.signal("HUP");
    schema_of_snapshots("table_four");
    assert_eq!(proxy.stop(LIMIT).code, 0);
}

//! What the quick start says, done: its proxy in front of the embedded node, with addresses of this machine in place of those
//! of the page. It leaves what the commands of all other pages speak of.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Output},
    sync::LazyLock,
    time::{Duration, Instant},
};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_testing::{cache, process::Supervised};
use tempfile::TempDir;

use crate::docs::page::{Page, checkout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");

/// A folder in which commands of the documentation find the files that they name.
pub(crate) struct Place(TempDir);

/// One for all tests. Files of results are written anew by each.
pub(crate) static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let place = Place(tempfile::tempdir().unwrap());
    for (name, recorded) in [
        ("monday.pcap.gz", "gocql-v4-none.pcap.gz"),
        ("tuesday.pcap.zst", "java-v4-none.pcap.zst"),
        ("requests.pcap", "python-v4-none.pcap"),
        ("responses.pcap", "python-v5-lz4.pcap"),
    ] {
        let recorded = checkout().join("tests/sniff/captures").join(recorded);
        fs::copy(recorded, place.path().join(name)).unwrap();
    }
    let comparison = checkout().join("tests/golden/comparison-v1.json");
    fs::copy(comparison, place.path().join("comparison.json")).unwrap();
    for name in ["fqltool-dump.txt", "log.txt"] {
        place.write(name, LOG);
    }
    place.write("schema.cql", SCHEMA);
    place.write("queries/orders.cql", QUERIES);
    place.write("migrations/V1__orders.cql", SCHEMA);
    place.write("cqlens.toml", &settings());
    place.watch();
    // Other pages have a report of this name written.
    fs::rename(
        place.path().join("report.html"),
        place.path().join("quick-start.html"),
    )
    .unwrap();
    for report in ["last-week.json", "week.json"] {
        let output = place.sh(&format!("cqlens report snapshots/ -o {report}"));
        assert!(output.status.success(), "{output:?}");
    }
    place
});

const SCHEMA: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3};
CREATE TABLE shop.orders (id int PRIMARY KEY, status text);";
const LOG: &str = "Type: single-query
Query start time: 1795240800000
Protocol version: 4
Generated timestamp:-9223372036854775808
Generated nowInSeconds:1795240800
Query: SELECT status FROM orders WHERE id = ?
Values: 
00000000 00 00 00 01                                      ....
-----

";
const QUERIES: &str = "USE shop;\nSELECT * FROM orders WHERE status = ? ALLOW FILTERING;";

/// The file of settings that the page on the proxy shows.
fn settings() -> String {
    let page = Page::read("docs/proxy.md");
    let blocks = page.blocks();
    let shown = blocks.iter().find(|block| block.language == "toml").unwrap();
    shown.lines.join("\n")
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a shell makes of `script` here. `cqlens` is this build; there is no other program.
    pub(crate) fn sh(&self, script: &str) -> Output {
        let (name, value) = self.state();
        Command::new("/bin/sh")
            .args(["-euc", script])
            .current_dir(self.path())
            .env(name, value)
            .env("PATH", Path::new(PROGRAM).parent().unwrap())
            .output()
            .unwrap()
    }

    /// Where the key of hashes goes.
    fn state(&self) -> (String, String) {
        ("XDG_STATE_HOME".to_owned(), self.path().display().to_string())
    }

    /// Runs the proxy of the quick start while a client does what the findings of its report are about.
    fn watch(&self) {
        let page = Page::read("docs/quick-start.md");
        let blocks = page.blocks();
        let lines = || {
            blocks
                .iter()
                .filter(|block| block.language == "sh")
                .flat_map(|block| &block.lines)
        };
        let shown = lines().find(|line| line.starts_with("cqlens proxy ")).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let node = runtime.block_on(Node::start(Options::default())).unwrap();
        let listen = free_address();
        let script = shown
            .replace("127.0.0.1:9142", &listen.to_string())
            .replace("10.0.0.1:9042", &node.address().to_string());
        assert!(
            script.contains(&listen.to_string()) && script.contains(&node.address().to_string()),
            "{script}"
        );

        let arguments = script.trim_start_matches("cqlens ");
        let script = format!("cd '{}' && exec '{PROGRAM}' {arguments}", self.path().display());
        let command = ["/bin/sh", "-c", &script].map(str::to_owned);
        let mut proxy = Supervised::spawn(&command, &[self.state()], &cache::log_file("docs"), None);
        wait_until_it_accepts(listen);
        runtime.block_on(send(listen));
        proxy.signal("TERM");
        let ended = proxy
            .wait(Duration::from_secs(60))
            .expect("it stops when it is told to");
        assert!(ended.success(), "{}", proxy.log());
        runtime.block_on(node.shutdown());
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn wait_until_it_accepts(address: SocketAddr) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "nobody listens at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn send(proxy: SocketAddr) {
    let mut client = Client::connect(proxy, &ClientOptions::default()).await.unwrap();
    client
        .script(&SCHEMA.replace("'datacenter1': 3", "'datacenter1': 1"))
        .await
        .unwrap();
    for id in 0..100 {
        let insert = format!("INSERT INTO shop.orders (id, status) VALUES ({id}, 'new')");
        client.query(&insert).await.unwrap();
        client
            .query("SELECT * FROM shop.orders WHERE status = 'new' ALLOW FILTERING")
            .await
            .unwrap();
    }
}

#[test]
fn the_proxy_of_the_quick_start_leaves_a_report_and_snapshots() {
    let report = fs::read_to_string(PLACE.path().join("quick-start.html")).unwrap();
    assert!(
        report.contains("shop.orders") && report.contains("allow-filtering"),
        "{report}"
    );
    let week: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(PLACE.path().join("week.json")).unwrap()).unwrap();
    assert_eq!(week["findings"][0]["rule"], "allow-filtering", "{week}");
}

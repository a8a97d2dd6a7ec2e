//! A keyspace as the store of a fleet: what is written arrives, also after an outage, and cqlens itself has nothing to say
//! against the statements.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use cqlens_client::{Client, ClientOptions};
use cqlens_node::Node;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    rehearsal::{LOGIN, log_in},
    shared,
    support::proxy::{Proxy, free_address},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cqlens");
const LIMIT: Duration = Duration::from_secs(300);
const SCHEMA: &str = include_str!("../../crates/fleet/src/cassandra/schema.cql");
const KEYSPACE: &str =
    "CREATE KEYSPACE fleet WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1};
    USE fleet;";

/// A node that asks for passwords, the proxy that audits what is sent to it, and what clients of the fleet send.
struct Fleet {
    runtime: Runtime,
    applications: Node,
    folder: tempfile::TempDir,
    /// Where the store is reached: the auditing proxy.
    entrance: SocketAddr,
    /// Further keys of its URL, such as what verifies its certificate.
    keys: String,
}

impl Fleet {
    fn sink(&self) -> String {
        let password = self.folder.path().join("password");
        fs::write(&password, LOGIN.1).unwrap();
        format!(
            "cassandra://{}/fleet?username={}&password-file={}{}",
            self.entrance,
            LOGIN.0,
            password.display(),
            self.keys
        )
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A member of the fleet, which sends a window every second.
    fn member(&self, name: &str) -> Proxy {
        let (sink, spool) = (self.sink(), self.path("spool"));
        let arguments = [
            "--name",
            name,
            "--window",
            "500ms",
            "--sink",
            &sink,
            "--sink-spool",
            &spool,
            "--sink-every",
            "1s",
        ];
        let member = Proxy::start_at(free_address(), PROGRAM, self.applications.address(), &arguments);
        self.send(&member, 20);
        member
    }

    fn send(&self, member: &Proxy, requests: usize) {
        self.runtime.block_on(async {
            let options = ClientOptions::default();
            let mut client = Client::connect(member.address, &options).await.unwrap();
            for id in 0..requests {
                let read = format!("SELECT * FROM shop.items WHERE id = {id}");
                client.query(&read).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }

    fn report(&self) -> Result<Value, String> {
        let output = Command::new(PROGRAM)
            .args([
                "report",
                "--format",
                "json",
                "--since",
                "1d",
                "--from",
                &self.sink(),
            ])
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

#[test]
fn a_fleet_writes_to_cassandra_as_cqlens_itself_would_have_it() {
    let Some(store) = shared::with_password() else {
        return;
    };
    let store = store.nodes()[0].address;
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        log_in(store)
            .await
            .script(&[KEYSPACE, SCHEMA].concat())
            .await
            .unwrap()
    });
    let applications = runtime.block_on(applications());
    let mut fleet = Fleet {
        runtime,
        applications,
        folder: tempfile::tempdir().unwrap(),
        entrance: free_address(),
        keys: String::new(),
    };

    let auditing = audit(&fleet, store, "audit.json", &[]);
    let members = ["checkout-1", "checkout-2", "search-1"].map(|name| fleet.member(name));
    for member in members {
        fleet.send(&member, 40);
        assert_eq!(member.stop(LIMIT).code, 0);
    }
    let found = fleet.report().unwrap();
    assert_eq!(found["window"]["sources"].as_array().unwrap().len(), 3);
    let reads = found["patterns"].as_array().unwrap().iter();
    let of_members = reads.filter(|pattern| pattern["cql"] == "SELECT * FROM shop.items WHERE id = ?");
    assert_eq!(
        of_members
            .map(|pattern| pattern["count"].as_u64().unwrap())
            .sum::<u64>(),
        3 * 60
    );
    assert_eq!(auditing.stop(LIMIT).code, 0);
    assert_is_clean(Path::new(&fleet.path("audit.json")));

    // The way to the store is gone, and comes back with the next process.
    let member = fleet.member("search-2");
    let ended = member.stop(LIMIT);
    assert!(
        ended
            .log
            .contains("sink: snapshots cannot be written and wait in"),
        "{}",
        ended.log
    );
    let error = fleet.report().unwrap_err();
    assert!(error.contains("cannot read cassandra://"), "{error}");

    // By TLS, with a certificate that is verified.
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key, stranger] = ["own.pem", "own.key", "other.pem"].map(|name| fleet.path(name));
    fs::write(&certificate, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    fs::write(&stranger, other.cert.pem()).unwrap();
    let tls = ["--client-tls-cert", &certificate, "--client-tls-key", &key];
    let auditing = audit(&fleet, store, "later.json", &tls);
    for wrong in [String::new(), format!("&tls-ca={stranger}")] {
        fleet.keys = wrong;
        let error = fleet.report().unwrap_err();
        assert!(error.contains("cannot read cassandra://"), "{error}");
    }
    fleet.keys = format!("&tls-ca={certificate}");
    assert_eq!(fleet.member("search-3").stop(LIMIT).code, 0);
    let found = fleet.report().unwrap();
    assert_eq!(found["window"]["sources"].as_array().unwrap().len(), 5);
    assert_eq!(auditing.stop(LIMIT).code, 0);
}

/// The proxy that audits what the fleet sends to its store.
fn audit(fleet: &Fleet, store: SocketAddr, report: &str, more: &[&str]) -> Proxy {
    let report = fleet.path(report);
    let password = fleet.path("password");
    fs::write(&password, LOGIN.1).unwrap();
    let login = ["--username", LOGIN.0, "--password-file", &password];
    let arguments = [&["--report", &report, "--window", "1s"], &login[..], more].concat();
    Proxy::start_at(fleet.entrance, PROGRAM, store, &arguments)
}

async fn applications() -> Node {
    let node = Node::start(cqlens_node::Options::default()).await.unwrap();
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    let schema =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE shop.items (id int PRIMARY KEY, v text);";
    client.script(schema).await.unwrap();
    node
}

/// The report of the traffic between the fleet and its store.
fn assert_is_clean(report: &Path) {
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let patterns = report["patterns"].as_array().unwrap();
    let executions = |text: &str| {
        let of_text = patterns
            .iter()
            .filter(|pattern| pattern["cql"].as_str().unwrap().starts_with(text));
        of_text
            .map(|pattern| pattern["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(executions("INSERT INTO fleet.sources_by_day"), 3, "{patterns:?}");
    assert!(
        executions("INSERT INTO fleet.windows_by_day_and_source") >= 6,
        "{patterns:?}"
    );
    assert_eq!(
        executions("SELECT start, chunk, bytes FROM fleet.windows_by_day_and_source"),
        3
    );
    let findings = report["findings"].as_array().unwrap();
    let about_statements = findings.iter().filter(|finding| finding["severity"] != "info");
    let found: Vec<_> = about_statements
        .map(|finding| (&finding["rule"], &finding["title"]))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

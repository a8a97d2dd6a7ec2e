//! What checks need and are not about: made here for many runs at once, before their programs start.
//!
//! A driver waits after each definition until all nodes have one schema, as they tell each other once a second, and
//! starts anew when another program has defined something meanwhile. So its program defines only what a check is about.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cqlens_client::{Client, ClientError, ClientOptions};

use super::run::{DONE_WITHIN, Order};

/// What is made for whom: the checks that need it, and the statement, `{ks}` in which is the keyspace of a run. There is
/// another one that it changes to, `{ks}_2`, where each row has one replica, and one that it makes itself, `{ks}_own`.
const FIXTURES: &[(&[&str], &str)] = &[
    (
        &["batch"],
        "CREATE TABLE {ks}.counts (id int PRIMARY KEY, n counter)",
    ),
    (
        &["paging"],
        "CREATE TABLE {ks}.paged (part int, seq int, filler text, PRIMARY KEY (part, seq))",
    ),
    (&["types"], "CREATE TYPE {ks}.place (street text, number int)"),
    (
        &["types"],
        "CREATE TABLE {ks}.kinds (id int PRIMARY KEY, l list<text>, s set<int>, m map<text, bigint>, \
         n map<int, frozen<list<int>>>, t tuple<int, text>, u frozen<place>, d decimal, v varint, i inet)",
    ),
    (
        &["vector"],
        "CREATE TABLE {ks}.vectors (id int PRIMARY KEY, v vector<float, 3>)",
    ),
    (&["blob"], "CREATE TABLE {ks}.blobs (id int PRIMARY KEY, b blob)"),
    (
        &["error-function"],
        "CREATE FUNCTION {ks}.broken (v int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS \
         'throw new RuntimeException(\"broken\");'",
    ),
    (
        &["error-read-failure"],
        "CREATE TABLE {ks}.graves (id int, seq int, PRIMARY KEY (id, seq))",
    ),
    (
        &["use", "keyspace-of-request", "outage"],
        "CREATE KEYSPACE {ks}_2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ),
    (
        &["use", "keyspace-of-request"],
        "CREATE TABLE {ks}_2.moved (id int PRIMARY KEY, v int)",
    ),
    (
        &["prepared-again"],
        "CREATE TABLE {ks}.altered (id int PRIMARY KEY, v int)",
    ),
    (
        &["token-aware"],
        "CREATE TABLE {ks}.keyed (k text, n int, PRIMARY KEY ((k, n)))",
    ),
    (
        &["outage"],
        "CREATE TABLE {ks}_2.keyed (k text, n int, PRIMARY KEY ((k, n)))",
    ),
    (
        &["in-flight"],
        "CREATE TABLE {ks}.crowded (id int PRIMARY KEY, v int)",
    ),
    (&["outage"], "CREATE TABLE {ks}.held (id int PRIMARY KEY, v int)"),
];

/// A keyspace, and whose checks it is for.
pub(crate) struct RunKeyspace<'a> {
    pub(crate) keyspace: &'a str,
    pub(crate) replication: usize,
    /// As the program gets them: names with commas between them, or `session` for all but those of outages.
    pub(crate) checks: &'a str,
}

impl RunKeyspace<'_> {
    fn definitions(&self) -> impl Iterator<Item = String> {
        let own = format!(
            "CREATE KEYSPACE {{ks}} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {}}}",
            self.replication
        );
        let needed = FIXTURES
            .iter()
            .filter(|(by, _)| by.iter().any(|check| self.has(check)));
        let needed = needed.map(|(_, statement)| (*statement).to_owned());
        once(own)
            .chain(needed)
            .map(|statement| statement.replace("{ks}", self.keyspace))
    }

    fn has(&self, check: &str) -> bool {
        let mut checks = self.checks.split(',');
        checks.any(|one| one == check || one == "session" && check != "outage")
    }
}

/// Makes what these runs need, each cluster's by itself, and returns when all nodes have it. Every proxy that is there
/// reads the whole schema again and again meanwhile.
pub(super) fn create_for(orders: &[Order<'_>]) {
    in_each_cluster(orders, |orders| {
        let keyspaces: Vec<RunKeyspace<'_>> = orders.iter().map(|order| order.run_keyspace()).collect();
        create(&orders[0].nodes, orders[0].job.place.user(), &keyspaces);
    });
}

/// Makes them on one cluster; `user` logs in where it asks for a password, which is the same.
pub(crate) fn create(nodes: &[SocketAddr], user: Option<&str>, keyspaces: &[RunKeyspace<'_>]) {
    let started = Instant::now();
    let created = block_on(async {
        let mut client = connect(nodes[0], user).await?;
        for definition in keyspaces.iter().flat_map(RunKeyspace::definitions) {
            match client.query(&definition).await {
                // The version lacks it, and the check will say so.
                Err(error @ ClientError::Server { .. }) => println!("{definition}: {error:?}"),
                other => drop(other?),
            }
        }
        agree(nodes, user).await
    });
    created.unwrap_or_else(|error| panic!("what checks need cannot be made: {error}"));
    println!(
        "{} keyspaces created in {:.1?}",
        keyspaces.len(),
        started.elapsed()
    );
}

/// Waits until all nodes have one schema, by what each says of itself: what they say of each other comes later.
async fn agree(nodes: &[SocketAddr], user: Option<&str>) -> Result<(), ClientError> {
    let mut clients = Vec::new();
    for &node in nodes {
        clients.push(connect(node, user).await?);
    }
    let deadline = Instant::now() + DONE_WITHIN;
    loop {
        let mut versions = BTreeSet::new();
        for client in &mut clients {
            let answer = client.query("SELECT schema_version FROM system.local").await?;
            versions.insert(answer.rows);
        }
        if versions.len() == 1 {
            return Ok(());
        }
        assert!(Instant::now() < deadline, "nodes do not agree on a schema");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Drops what these runs have had and made: every driver and every proxy reads the whole schema whenever anybody
/// changes it, and hundreds of runs share it. It takes longer than to make it: for each table that goes, a node writes
/// to disk what it has in memory of all.
pub(super) fn clear_away(orders: &[Order<'_>]) {
    in_each_cluster(orders, |orders| {
        let dropped = block_on(async {
            let mut client = connect(orders[0].nodes[0], orders[0].job.place.user()).await?;
            for order in orders {
                for other in ["", "_2", "_own"] {
                    let keyspace = format!("{}{other}", order.keyspace);
                    client
                        .query(&format!("DROP KEYSPACE IF EXISTS {keyspace}"))
                        .await?;
                }
            }
            Ok::<_, ClientError>(())
        });
        if let Err(error) = dropped {
            // The others only take longer.
            println!("keyspaces stay: {error}");
        }
    });
}

/// Does something for the runs of each cluster, of all clusters at once.
fn in_each_cluster<'a>(orders: &[Order<'a>], work: impl Fn(&[&Order<'a>]) + Sync) {
    let mut clusters: BTreeMap<&[SocketAddr], Vec<&Order<'_>>> = BTreeMap::new();
    for order in orders {
        clusters.entry(&order.nodes).or_default().push(order);
    }
    std::thread::scope(|threads| {
        for orders in clusters.values() {
            threads.spawn(|| work(orders));
        }
    });
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

async fn connect(node: SocketAddr, user: Option<&str>) -> Result<Client, ClientError> {
    let options = ClientOptions {
        credentials: user.map(|user| (user.to_owned(), user.to_owned())),
        timeout: DONE_WITHIN,
        ..ClientOptions::default()
    };
    Client::connect(node, &options).await
}

#[test]
fn a_run_has_what_its_checks_need() {
    let made = |checks| {
        let keyspace = RunKeyspace {
            keyspace: "own",
            replication: 3,
            checks,
        };
        keyspace.definitions().collect::<Vec<_>>()
    };
    let with_three =
        "CREATE KEYSPACE own WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";
    assert_eq!(made("connect,ddl,reconnect"), [with_three]);
    assert_eq!(
        made("connect,blob"),
        [with_three, "CREATE TABLE own.blobs (id int PRIMARY KEY, b blob)"]
    );
    let of_outages = made("connect,ddl,outage");
    assert!(
        of_outages.iter().any(|made| made.contains("own_2.keyed")),
        "{of_outages:?}"
    );
    assert!(
        !of_outages.iter().any(|made| made.contains("own.keyed")),
        "{of_outages:?}"
    );
    assert_eq!(made("session").len() + of_outages.len(), FIXTURES.len() + 3);
}

//! What an application on the Rust driver relies on: the checks of ../drivers, one line of JSON each.
//!
//! usage: matrix NAME=VALUE..., see ../drivers/README.md

mod checks;
mod outage;
#[cfg(feature = "tls")]
mod tls;

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::NodeRef;
use scylla::cluster::metadata::PeriodicFetchMode;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::{Consistency, Statement};
use scylla::value::Row;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(90);

/// Why a check has no result.
enum Reason {
    /// The driver does not have it.
    Absent(&'static str),
    Failed(String),
}

impl<E: Error> From<E> for Reason {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

type Found = Result<Value, Reason>;

struct Application {
    given: HashMap<String, String>,
    keyspace: String,
    nodes: usize,
    session: Session,
}

/// How a session differs from the usual one.
#[derive(Default)]
struct Wish<'a> {
    /// To this node only.
    only: Option<NodeIdentifier>,
    connections: usize,
    user: Option<(&'a str, &'a str)>,
    in_keyspace: Option<&'a str>,
}

async fn open(given: &HashMap<String, String>, wish: Wish<'_>) -> Result<Session, Reason> {
    let mut profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .request_timeout(Some(Duration::from_secs(60)))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()));
    if let Some(node) = wish.only {
        profile = profile.load_balancing_policy(SingleTargetLoadBalancingPolicy::new(node, None));
    }
    let connections = NonZeroUsize::new(wish.connections.max(1)).ok_or(Reason::Absent("none"))?;
    let compression = match given["compression"].as_str() {
        "lz4" => Some(scylla::client::Compression::Lz4),
        "snappy" => Some(scylla::client::Compression::Snappy),
        _ => None,
    };
    let mut builder = SessionBuilder::new()
        .known_node(format!("{}:{}", given["host"], given["port"]))
        .compression(compression)
        .pool_size(PoolSize::PerHost(connections))
        .connection_timeout(Duration::from_secs(60))
        .keepalive_timeout(Duration::from_secs(60))
        .schema_agreement_timeout(Duration::from_secs(60))
        // What it was told of a schema it reads at its next turn, a minute apart if not asked otherwise: the
        // keyspaces that events have named, and no others. Who hears of nothing learns nothing.
        .cluster_metadata_refresh_interval(Duration::from_secs(1))
        .periodic_metadata_fetch_mode(PeriodicFetchMode::AffectedKeyspaces)
        .default_execution_profile_handle(profile.build().into_handle());
    #[cfg(feature = "tls")]
    {
        builder = builder.tls_context(tls::settings(given)?);
    }
    if !cfg!(feature = "tls") && given.contains_key("ca") {
        return Err(Reason::Failed("it is built without TLS".to_owned()));
    }
    let own = given
        .get("user")
        .zip(given.get("password"))
        .map(|(user, password)| (user.as_str(), password.as_str()));
    if let Some((user, password)) = wish.user.or(own) {
        builder = builder.user(user, password);
    }
    if let Some(pairs) = given.get("translate") {
        builder = builder.address_translator(Arc::new(translations(pairs, &given["port"])?));
    }
    if let Some(keyspace) = wish.in_keyspace {
        builder = builder.use_keyspace(keyspace, false);
    }
    Ok(builder.build().await?)
}

/// Where to connect to in place of a node's own address.
fn translations(pairs: &str, port: &str) -> Result<HashMap<SocketAddr, SocketAddr>, Reason> {
    let mut listeners = HashMap::new();
    for (node, listener) in pairs.split(',').filter_map(|pair| pair.split_once('/')) {
        let at = |address: &str| format!("{address}:{port}").parse();
        listeners.insert(at(node)?, at(listener)?);
    }
    Ok(listeners)
}

async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) -> Result<(), Reason> {
    eventually_within(PATIENCE, what, condition).await
}

async fn eventually_within(
    limit: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> Result<(), Reason> {
    let deadline = Instant::now() + limit;
    while !condition().await {
        if Instant::now() > deadline {
            return Err(Reason::Failed(format!("not within {limit:?}: {what}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

impl Application {
    async fn run(&self, statement: impl Into<Statement>) -> Result<(), Reason> {
        self.session.query_unpaged(statement, ()).await?;
        Ok(())
    }

    async fn rows(&self, statement: impl Into<Statement>) -> Found {
        rows(&self.session, statement).await
    }

    /// The node with the first address, which is the contact point whatever the driver calls it.
    fn contact(&self) -> Option<NodeIdentifier> {
        let state = self.session.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let first = nodes.min_by_key(|node| node.address.ip());
        first.map(|node| NodeIdentifier::HostId(node.host_id))
    }

    /// Nodes that the driver has a connection to, or has none to.
    fn nodes(&self, connected: bool) -> Vec<String> {
        let state = self.session.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let mut named: Vec<String> = nodes
            .filter(|node| node.is_connected() == connected)
            .map(described)
            .collect();
        named.sort();
        named
    }

    async fn all_are_connected(&self) -> Result<(), Reason> {
        let all = async || self.nodes(true).len() == self.nodes;
        eventually("all nodes are connected", all).await
    }
}

fn described(node: NodeRef<'_>) -> String {
    format!("{} {:?} {:?}", node.address.ip(), node.datacenter, node.rack)
}

/// As the driver prints them.
async fn rows(session: &Session, statement: impl Into<Statement>) -> Found {
    let result = session.query_unpaged(statement, ()).await?;
    plain(result)
}

fn plain(result: scylla::response::query_result::QueryResult) -> Found {
    let rows = result.into_rows_result()?;
    let found: Result<Vec<Row>, _> = rows.rows::<Row>()?.collect();
    let named = |row: Row| format!("{:?}", row.columns);
    Ok(found?.into_iter().map(named).collect())
}

/// What an error says, all of it.
fn failure<T>(result: Result<T, ExecutionError>) -> Found {
    match result {
        Err(error) => Ok(json!([error.to_string(), format!("{error:?}")])),
        Ok(_) => Err(Reason::Failed("a statement did not fail".to_owned())),
    }
}

fn say(line: Value) {
    println!("{line}");
}

fn passed(check: &str, detail: Value) {
    say(json!({"check": check, "outcome": "passed", "detail": detail}));
}

fn report(check: &str, found: Found) {
    match found {
        Ok(Value::Null) => {}
        Ok(detail) => passed(check, detail),
        Err(Reason::Absent(why)) => {
            say(json!({"check": check, "outcome": "absent", "detail": why}));
        }
        Err(Reason::Failed(why)) => {
            say(json!({"check": check, "outcome": "failed", "detail": why}));
        }
    }
}

#[tokio::main]
async fn main() {
    let given: HashMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|argument| {
            argument
                .split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect();
    let wanted: Vec<&str> = given["checks"].split(',').collect();
    let is_wanted = |name: &str| {
        wanted.contains(&name) || wanted == ["session"] && !["outage", "reconnect"].contains(&name)
    };
    let session = match open(&given, Wish::default()).await {
        Ok(session) => session,
        Err(reason) => return report("connect", Err(reason)),
    };
    let app = Application {
        keyspace: given["keyspace"].clone(),
        nodes: given["nodes"].parse().unwrap_or(1),
        session,
        given: given.clone(),
    };
    for &name in checks::NAMES.iter().filter(|name| is_wanted(name)) {
        report(name, checks::perform(name, &app).await);
    }
}

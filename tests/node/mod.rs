//! The embedded node over real sockets: what tests and the demo rely on, in every protocol version.

use cqlens_client::{Answer, Bind, Client, ClientError, ClientOptions, Run, RunOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::compress::Compression;
use cqlens_proto::envelope::{Opcode, Version};
use cqlens_proto::message::{BatchKind, ErrorCode, Event, Extensions, Register, Request, Response};

mod clean_workload;
mod protocol;
mod reads;
mod scenarios;
mod schema;
mod transactions;
mod writes;

async fn node() -> Node {
    Node::start(Options::default()).await.unwrap()
}

async fn connect(node: &Node) -> Client {
    Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap()
}

/// A client with keyspace `k` in use.
async fn client(node: &Node) -> Client {
    let mut client = connect(node).await;
    client.script(KEYSPACE).await.unwrap();
    client
}

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS k WITH replication = \
    {'class': 'SimpleStrategy', 'replication_factor': 1}; USE k;";

async fn events_table(client: &mut Client) {
    client
        .query("CREATE TABLE e (day text, at int, kind text, n int, PRIMARY KEY (day, at, kind))")
        .await
        .unwrap();
    for (day, at, kind) in [
        ("mon", 1, "a"),
        ("mon", 1, "b"),
        ("mon", 2, "a"),
        ("mon", 3, "c"),
        ("tue", 1, "a"),
    ] {
        let insert = format!("INSERT INTO e (day, at, kind, n) VALUES ('{day}', {at}, '{kind}', {at})");
        client.query(&insert).await.unwrap();
    }
}

async fn rows(client: &mut Client, cql: &str) -> Vec<String> {
    let answer = client
        .query(cql)
        .await
        .unwrap_or_else(|error| panic!("{cql}: {error}"));
    lines(&answer)
}

fn lines(answer: &Answer) -> Vec<String> {
    answer.shown().into_iter().map(|row| row.join(" ")).collect()
}

async fn refusal(client: &mut Client, cql: &str) -> (ErrorCode, String) {
    match client.query(cql).await {
        Err(ClientError::Server { code, message, .. }) => (code, message),
        other => panic!("{cql}: {other:?}"),
    }
}

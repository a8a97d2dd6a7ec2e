//! Where a cluster has several nodes, requests go to one that holds their partition, and past those that are gone.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cqlens_client::ClientOptions;
use cqlens_cql::murmur3;
use cqlens_node::{Node, Options, Peer};
use cqlens_rehearse::{
    digest::{DigestKey, ResponseDigest},
    exchange::{Effect, RecordedRequest},
    target::{ConnectTo, Outcome, Target, TargetRequest, TargetSettings},
};

use crate::support::{client, exchange, int, page, prepared, request};

const SCHEMA: &str = "
    CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE k.t (a int, b int, c int, PRIMARY KEY ((a, b)));";
const INSERT: &str = "INSERT INTO k.t (c, b, a) VALUES (?, ?, ?)";
const KEYS: i32 = 200;

/// Two nodes that share nothing but what they tell of each other: the first has the token 0, which all embedded nodes
/// have, the second a half of the positive ones.
async fn two_nodes() -> [Node; 2] {
    let first = Node::start(Options::default()).await.unwrap();
    let second = Node::start(Options::default()).await.unwrap();
    for node in [&first, &second] {
        client(node).await.script(SCHEMA).await.unwrap();
    }
    first.set_peers(vec![Peer {
        tokens: vec![LAST_OF_SECOND.to_string()],
        ..second.as_peer()
    }]);
    [first, second]
}

const LAST_OF_SECOND: i64 = 1 << 62;

fn is_of_second(a: i32, b: i32) -> bool {
    let mut key = Vec::new();
    for component in [a, b] {
        assert!(murmur3::push_component(&mut key, &component.to_be_bytes()));
    }
    (1..=LAST_OF_SECOND).contains(&murmur3::token(&key))
}

fn target(first: &Node, connect_to: ConnectTo) -> Target {
    let nodes = vec![(first.address().to_string(), ClientOptions::default())];
    Target::open(TargetSettings {
        connect_to: Some(connect_to),
        look_every: Duration::from_millis(20),
        ..TargetSettings::new(nodes, DigestKey(7))
    })
}

fn anywhere() -> ConnectTo {
    ConnectTo::new(|_| Some(ClientOptions::default()))
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until that many nodes can be reached.
async fn until_reachable(target: &Target, nodes: u64) {
    until(|| target.counts().nodes - target.counts().nodes_unreachable == nodes).await;
}

fn insert(number: i32) -> TargetRequest {
    let values = [7, number % 10, number].map(int);
    let request = RecordedRequest {
        keyspace: None,
        effect: Effect::Write,
        ..request(prepared(INSERT, values.into()))
    };
    let number = number.unsigned_abs().into();
    page(&Arc::new(exchange(number, request, ResponseDigest::Void)))
}

/// Inserts rows and waits for all of them.
async fn insert_all(target: &mut Target) {
    for number in 0..KEYS {
        target.send(insert(number)).unwrap();
    }
    for _ in 0..KEYS {
        let outcome = target.completed().await.unwrap().outcome;
        assert!(
            matches!(
                outcome,
                Outcome::Answered {
                    response: ResponseDigest::Void,
                    ..
                }
            ),
            "{outcome:?}"
        );
    }
}

async fn keys(node: &Node) -> Vec<i32> {
    let answer = client(node).await.query("SELECT a FROM k.t").await.unwrap();
    let key = |row: Vec<Option<Bytes>>| i32::from_be_bytes(row[0].as_deref().unwrap().try_into().unwrap());
    let mut keys: Vec<_> = answer.rows.into_iter().map(key).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn each_request_goes_to_the_node_that_holds_its_partition() {
    let [first, second] = two_nodes().await;
    let mut target = target(&first, anywhere());
    until_reachable(&target, 2).await;
    insert_all(&mut target).await;
    let (of_second, of_first): (Vec<_>, Vec<_>) = (0..KEYS).partition(|a| is_of_second(*a, a % 10));
    assert!(of_second.len() > 20 && of_first.len() > 20);
    assert_eq!(keys(&first).await, of_first);
    assert_eq!(keys(&second).await, of_second);
    let counts = target.counts();
    assert_eq!(counts.sent_to_replicas, u64::from(KEYS.unsigned_abs()));
    assert_eq!((counts.nodes, counts.nodes_unreachable), (2, 0));
}

#[tokio::test]
async fn a_node_that_goes_is_left_out_and_counted_until_it_comes_back() {
    let [first, second] = two_nodes().await;
    let address = second.address();
    let mut target = target(&first, anywhere());
    until_reachable(&target, 2).await;
    second.shutdown().await;
    until_reachable(&target, 1).await;
    insert_all(&mut target).await;
    assert_eq!(keys(&first).await, (0..KEYS).collect::<Vec<_>>());
    assert_eq!(target.counts().nodes_unreachable, 1);

    let options = Options {
        listen: address,
        ..Options::default()
    };
    let second = Node::start(options).await.unwrap();
    client(&second).await.script(SCHEMA).await.unwrap();
    until_reachable(&target, 2).await;
    insert_all(&mut target).await;
    assert!(keys(&second).await.into_iter().all(|a| is_of_second(a, a % 10)));
    assert!(!keys(&second).await.is_empty());
}

#[tokio::test]
async fn a_node_that_leaves_the_cluster_or_is_refused_gets_nothing() {
    let [first, second] = two_nodes().await;
    let is_refused = Arc::new(AtomicBool::new(true));
    let refused = Arc::clone(&is_refused);
    let connect_to = ConnectTo::new(move |_| (!refused.load(Ordering::Relaxed)).then(ClientOptions::default));
    let mut target = target(&first, connect_to);
    insert_all(&mut target).await;
    assert_eq!(target.counts().nodes, 1);
    is_refused.store(false, Ordering::Relaxed);
    until_reachable(&target, 2).await;
    first.set_peers(Vec::new());
    until(|| target.counts().nodes == 1).await;
    insert_all(&mut target).await;
    assert_eq!(keys(&first).await, (0..KEYS).collect::<Vec<_>>());
    assert_eq!(keys(&second).await, Vec::<i32>::new());
}

/// The attack: a second cluster that announces any number of nodes.
#[tokio::test]
async fn of_thousands_of_announced_nodes_few_get_connections() {
    let [first, second] = two_nodes().await;
    // No process listens at these addresses.
    let announced = (1..=2_000_u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        Peer {
            address: [127, 9, high, low].into(),
            host_id: Some(cqlens_proto::types::Uuid([
                high, low, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            ])),
            native: Some(([127, 9, high, low], 9).into()),
            ..second.as_peer()
        }
    });
    first.set_peers(announced.collect());
    let target = target(&first, anywhere());
    until(|| target.counts().nodes > 1).await;
    assert!(target.counts().nodes <= 101, "{:?}", target.counts());
}

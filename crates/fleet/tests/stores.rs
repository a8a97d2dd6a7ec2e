//! Every kind of store that needs nothing beside this program: a folder, and a keyspace of the canned cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use bytes::Bytes;
use cqlens_client::{Client, ClientOptions};
use cqlens_fleet::{Address, LeftOut, MOST_BYTES, SCHEMA, Store, StoreError, WindowName};
use cqlens_node::{Node, Options};
use jiff::civil::{Date, date};

const DAY: Date = date(2026, 11, 21);

fn name(time: &str, source: &str) -> WindowName {
    WindowName::new(format!("2026-11-21T{time}Z").parse().unwrap(), source).unwrap()
}

/// So many bytes, no two kilobytes of which are alike.
fn content(length: usize) -> Bytes {
    let byte = |place: usize| (place / 7 + place / 1_000).to_le_bytes()[0];
    (0..length).map(byte).collect()
}

async fn all(store: &mut Store, day: Date, source: &str) -> Vec<(WindowName, Bytes)> {
    let mut windows = Vec::new();
    let take = |name, bytes| -> Result<(), StoreError> {
        windows.push((name, bytes));
        Ok(())
    };
    store.windows(day, source, take).await.unwrap();
    windows
}

/// What holds of all of them.
async fn assert_is_store(store: &mut Store) {
    assert!(store.sources(DAY).await.unwrap().is_empty());
    assert!(all(store, DAY, "a").await.is_empty());
    let windows = [
        (name("06:00:00.007", "a"), content(1)),
        (name("07:00:00", "a"), content(64 << 10)),
        (name("08:00:00", "a"), content((64 << 10) + 1)),
        (name("23:59:59.999", "a"), content(3 << 20)),
    ];
    // Later ones first, and each twice: it is kept once.
    for (name, bytes) in windows.iter().rev().chain(&windows) {
        store.put(name, bytes.clone()).await.unwrap();
    }
    let other = name("06:00:00.007", "b-1");
    store.put(&other, content(9)).await.unwrap();
    let next_day = WindowName::new("2026-11-22T00:00:00Z".parse().unwrap(), "a").unwrap();
    store.put(&next_day, content(5)).await.unwrap();

    assert_eq!(store.sources(DAY).await.unwrap(), ["a", "b-1"]);
    assert!(all(store, DAY, "a").await == windows);
    assert_eq!(all(store, DAY, "b-1").await, [(other, content(9))]);
    assert_eq!(
        all(store, date(2026, 11, 22), "a").await,
        [(next_day, content(5))]
    );
    assert!(store.sources(date(2026, 11, 20)).await.unwrap().is_empty());
    let large = store
        .put(&name("09:00:00", "a"), Bytes::from(vec![0; MOST_BYTES + 1]))
        .await;
    assert!(matches!(large, Err(StoreError::TooLarge)), "{large:?}");
}

#[tokio::test]
async fn a_folder_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let Address::Objects(url) = folder.path().to_str().unwrap().parse().unwrap() else {
        panic!("a folder");
    };
    let mut store = Store::objects(&url, std::iter::empty()).unwrap();
    assert_is_store(&mut store).await;
    let path = folder
        .path()
        .join("2026-11-21/a/20261121T060000007Z-a.cqlens.json.gz");
    assert_eq!(std::fs::read(path).unwrap(), content(1));
}

async fn node(script: &str) -> (Node, Client) {
    let node = Node::start(Options::default()).await.unwrap();
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    let keyspace = "CREATE KEYSPACE fleet WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE fleet;";
    client.script(&[keyspace, script].concat()).await.unwrap();
    (node, client)
}

#[tokio::test]
async fn a_keyspace_is_a_store() {
    let (node, _client) = node(SCHEMA).await;
    // The first node does not respond.
    let nodes = ["127.0.0.1:1".to_owned(), node.address().to_string()];
    let nodes = nodes.map(|address| (address, ClientOptions::default()));
    let mut store = Store::cassandra("fleet", nodes.to_vec());
    assert_is_store(&mut store).await;
}

#[tokio::test]
async fn a_window_that_lacks_a_chunk_is_given_as_what_is_there() {
    let (node, mut client) = node(SCHEMA).await;
    let mut store = Store::cassandra(
        "fleet",
        vec![(node.address().to_string(), ClientOptions::default())],
    );
    let window = name("06:00:00", "a");
    store.put(&window, content(200 << 10)).await.unwrap();
    let delete = "DELETE FROM fleet.windows_by_day_and_source WHERE day = '2026-11-21' AND source = 'a' \
        AND start = '2026-11-21T06:00:00Z' AND chunk = 1";
    client.query(delete).await.unwrap();
    let windows = all(&mut store, DAY, "a").await;
    assert_eq!(windows[0].1.len(), (200 - 64) << 10);
}

/// Others may write rows without an end: a window has as many as cqlens writes, and some more.
#[tokio::test]
async fn a_window_of_too_many_rows_ends_the_reading() {
    let (node, mut client) = node(SCHEMA).await;
    let mut store = Store::cassandra(
        "fleet",
        vec![(node.address().to_string(), ClientOptions::default())],
    );
    let insert = |chunk: usize| {
        format!(
            "INSERT INTO fleet.windows_by_day_and_source (day, source, start, chunk, bytes) \
             VALUES ('2026-11-21', 'a', '2026-11-21T06:00:00Z', {chunk}, 0x00)"
        )
    };
    for chunk in 0..=4_096 {
        client.query(&insert(chunk)).await.unwrap();
    }
    let read: Result<(), StoreError> = store.windows(DAY, "a", |_, _| Ok(())).await;
    assert!(matches!(read, Err(StoreError::TooMany)), "{read:?}");
}

#[tokio::test]
async fn a_keyspace_without_the_tables_says_which_one_it_lacks() {
    let (node, _client) = node("").await;
    let mut store = Store::cassandra(
        "fleet",
        vec![(node.address().to_string(), ClientOptions::default())],
    );
    let put = store.put(&name("06:00:00", "a"), content(1)).await.unwrap_err();
    assert!(put.to_string().contains("sources_by_day"), "{put}");
}

#[test]
fn the_documentation_has_the_tables() {
    let page = include_str!("../../../docs/fleet.md");
    assert!(page.contains(SCHEMA.trim_end()));
}

/// Others write to the folder: their names are left out, counted and named, and the windows are read.
#[tokio::test]
async fn foreign_names_in_a_folder_do_not_end_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let Address::Objects(url) = folder.path().to_str().unwrap().parse().unwrap() else {
        panic!("a folder");
    };
    let mut store = Store::objects(&url, std::iter::empty()).unwrap();
    let window = name("06:00:00", "a");
    store.put(&window, content(9)).await.unwrap();
    let day = folder.path().join("2026-11-21");
    std::fs::create_dir(day.join("x\u{1}y")).unwrap();
    std::os::unix::fs::symlink("loop", day.join("loop")).unwrap();
    std::os::unix::fs::symlink("..", day.join("a/up")).unwrap();
    std::fs::write(day.join("a/\u{1}.cqlens.json.gz"), "").unwrap();
    std::fs::copy(
        day.join("a").join(window.to_string()),
        day.join("a/20261121T060000000Z-b.cqlens.json.gz"),
    )
    .unwrap();
    let large = name("07:00:00", "a");
    let file = std::fs::File::create(day.join("a").join(large.to_string())).unwrap();
    file.set_len(5 << 30).unwrap();
    assert_eq!(store.sources(DAY).await.unwrap(), ["a"]);
    assert_eq!(all(&mut store, DAY, "a").await, [(window, content(9))]);
    let left_out = store.left_out();
    assert_eq!(left_out.count, 5, "{left_out:?}");
    assert!(left_out.names.contains(&"x\\u{1}y".to_owned()), "{left_out:?}");
    assert!(left_out.names.contains(&large.to_string()), "{left_out:?}");
    assert_eq!(store.left_out(), LeftOut::default());
}

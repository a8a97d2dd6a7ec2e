//! Two clusters that are the same show no difference; each way in which they differ is found and named, and
//! none is invented.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cqlens_client::ClientOptions;
use cqlens_node::{Node, Options};
use cqlens_rehearse::{
    compare::{DifferenceKind, NotCompared, PatternTally},
    digest::{DigestKey, ResponseDigest},
    exchange::{Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement},
    gate::Permissions,
    rehearsal::{First, Rehearsal, RehearsalSettings},
    skipped::Skipped,
    target::{Extent, Outcome, Purpose, Target, TargetRequest, TargetSettings},
};
use tokio::time::Instant;

use crate::support::{self, client, int, page, prepared};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";
const TABLE: &str = "CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b));";

async fn node(script: &str) -> Node {
    let node = Node::start(Options::default()).await.unwrap();
    client(&node).await.script(script).await.unwrap();
    node
}

fn target(node: &Node) -> Target {
    let nodes = vec![(node.address().to_string(), ClientOptions::default())];
    Target::open(TargetSettings::new(nodes, DigestKey(7)))
}

fn settings() -> RehearsalSettings {
    RehearsalSettings {
        ask_again_after: Duration::from_millis(20),
        ..RehearsalSettings::default()
    }
}

fn request(cql: &str, values: &[i32]) -> RecordedRequest {
    support::request(RecordedStatement {
        is_prepared: !values.is_empty(),
        ..prepared(cql, values.iter().copied().map(int).collect())
    })
}

fn exchange(number: u64, request: RecordedRequest, response: ResponseDigest) -> Arc<RecordedExchange> {
    Arc::new(RecordedExchange {
        connection: number % 7,
        latency: Some(Duration::from_millis(1)),
        ..support::exchange(number, request, response)
    })
}

/// What a cluster answers: as the observer would have seen it.
async fn recorded(target: &mut Target, number: u64, request: RecordedRequest) -> Arc<RecordedExchange> {
    let unanswered = exchange(number, request, ResponseDigest::Missing);
    target.send(page(&unanswered)).unwrap();
    let Outcome::Answered { response, .. } = target.completed().await.unwrap().outcome else {
        unreachable!()
    };
    Arc::new(RecordedExchange {
        response,
        ..(*unanswered).clone()
    })
}

async fn finish(mut rehearsal: Rehearsal) -> PatternTally {
    rehearsal.finish(Instant::now() + Duration::from_secs(30)).await;
    rehearsal.tally().total()
}

fn rows(partitions: i32, rows: i32) -> String {
    let row = |(a, b): (i32, i32)| format!("INSERT INTO k.t (a, b, v) VALUES ({a}, {b}, 'v{a}-{b}');");
    let all = (0..partitions).flat_map(|a| (0..rows).map(move |b| (a, b)));
    all.map(row).collect()
}

/// Reads of many kinds.
fn mixed(number: u64) -> RecordedRequest {
    let a = i32::try_from(number % 20).unwrap();
    match number % 6 {
        0 => request("SELECT v FROM t WHERE a = ? AND b = ?", &[a, 3]),
        1 => request("SELECT * FROM t WHERE a = ? ORDER BY b DESC LIMIT 3", &[a]),
        2 => request(&format!("SELECT b, v, writetime(v) FROM k.t WHERE a = {a}"), &[]),
        3 => RecordedRequest {
            is_ordered: false,
            ..request("SELECT a, count(*) FROM t GROUP BY a", &[])
        },
        4 => request("SELECT absent FROM t WHERE a = ?", &[a]),
        _ => request("SELECT v, now() FROM t WHERE a = ?", &[a]),
    }
}

#[tokio::test]
async fn identical_clusters_do_not_differ() {
    let script = [KEYSPACE, TABLE, &rows(20, 7)].concat();
    let (one, two) = (node(&script).await, node(&script).await);
    let mut rehearsal = Rehearsal::new(
        RehearsalSettings {
            noise_share: 0.1,
            ..settings()
        },
        First::Beside(target(&one)),
        target(&two),
    );
    for number in 1..=6_000 {
        assert!(rehearsal.offer(exchange(number, mixed(number), ResponseDigest::Missing)));
        if rehearsal.other().waiting() > 500 {
            rehearsal.turn().await;
        }
    }
    let total = finish(rehearsal).await;
    assert_eq!(total.differences, BTreeMap::new(), "{:?}", total.example);
    assert_eq!((total.executions, total.compared), (6_000, 6_000));
    assert!(
        total.noise.asked > 300 && total.noise.differed == 0,
        "{:?}",
        total.noise
    );
    assert_eq!(total.other_latency.summary().unwrap().count, 6_000);
}

/// What is found where one cluster has `first` beyond the keyspace and the other has `second`, by what was
/// recorded and by asking both.
async fn found(first: &str, second: &str, request: &RecordedRequest) -> Vec<DifferenceKind> {
    let one = node(&[KEYSPACE, first].concat()).await;
    let two = node(&[KEYSPACE, second].concat()).await;
    let recorded = recorded(&mut target(&one), 1, request.clone()).await;
    let mut all = Vec::new();
    for first in [
        First::Recorded,
        First::CanRepeat(target(&one)),
        First::Beside(target(&one)),
    ] {
        let mut rehearsal = Rehearsal::new(settings(), first, target(&two));
        assert!(rehearsal.offer(recorded.clone()));
        let total = finish(rehearsal).await;
        assert_eq!(total.compared, 1, "{:?}", total.not_compared);
        all.push(total.differences.into_keys().collect::<Vec<_>>());
    }
    assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
    all.swap_remove(0)
}

#[tokio::test]
async fn seeded_differences_are_found_and_named() {
    let row = |b: i32, v: &str| format!("INSERT INTO k.t (a, b, v) VALUES (1, {b}, {v});");
    let two_rows = [TABLE, &row(1, "'x'"), &row(2, "'y'")].concat();
    let by_partition = request("SELECT * FROM t WHERE a = ?", &[1]);
    let check = async |second: &str, kinds: &[DifferenceKind]| {
        assert_eq!(found(&two_rows, second, &by_partition).await, kinds, "{second}");
    };
    check(&two_rows, &[]).await;
    check(&[TABLE, &row(1, "'x'")].concat(), &[DifferenceKind::RowCount]).await;
    check(
        &[TABLE, &row(1, "'x'"), &row(2, "'z'")].concat(),
        &[DifferenceKind::Rows],
    )
    .await;
    check(
        &[TABLE, &row(1, "'x'"), &row(2, "null")].concat(),
        &[DifferenceKind::Rows],
    )
    .await;
    let reversed =
        "CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC);";
    check(
        &[reversed, &row(1, "'x'"), &row(2, "'y'")].concat(),
        &[DifferenceKind::Order],
    )
    .await;
    let typed = "CREATE TABLE k.t (a int, b int, v ascii, PRIMARY KEY (a, b));";
    check(
        &[typed, &row(1, "'x'"), &row(2, "'y'")].concat(),
        &[DifferenceKind::Types],
    )
    .await;
    let wider = "CREATE TABLE k.t (a int, b int, v text, w int, PRIMARY KEY (a, b));";
    check(
        &[wider, &row(1, "'x'"), &row(2, "'y'")].concat(),
        &[DifferenceKind::Columns],
    )
    .await;
    check("", &[DifferenceKind::Error]).await;
    let none = found(
        &[TABLE, &row(1, "null")].concat(),
        &[TABLE, &row(1, "''")].concat(),
        &by_partition,
    )
    .await;
    assert_eq!(none, [DifferenceKind::Rows], "an empty text is no null");
}

#[tokio::test]
async fn a_row_that_has_expired_on_one_side_is_a_row_less() {
    let expiring = "INSERT INTO k.t (a, b, v) VALUES (1, 1, 'x') USING TTL 1;";
    let one = node(&[KEYSPACE, TABLE, "INSERT INTO k.t (a, b, v) VALUES (1, 1, 'x');"].concat()).await;
    let two = node(&[KEYSPACE, TABLE, expiring].concat()).await;
    let mut first = target(&one);
    let recorded = recorded(&mut first, 1, request("SELECT v FROM t WHERE a = ?", &[1])).await;
    loop {
        let mut rehearsal = Rehearsal::new(settings(), First::Recorded, target(&two));
        rehearsal.offer(recorded.clone());
        let total = finish(rehearsal).await;
        if total.differing() > 0 {
            assert_eq!(total.differences, BTreeMap::from([(DifferenceKind::RowCount, 1)]));
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_example_names_columns_and_no_values() {
    let one = node(
        &[
            KEYSPACE,
            TABLE,
            "INSERT INTO k.t (a, b, v) VALUES (1, 1, 'secret');",
        ]
        .concat(),
    )
    .await;
    let two = node(
        &[
            KEYSPACE,
            TABLE,
            "INSERT INTO k.t (a, b, v) VALUES (1, 1, 'hidden');",
        ]
        .concat(),
    )
    .await;
    let mut rehearsal = Rehearsal::new(settings(), First::Beside(target(&one)), target(&two));
    let read = request(
        "SELECT b, v FROM k.t WHERE a = 1 AND v = 'secret' ALLOW FILTERING",
        &[],
    );
    rehearsal.offer(exchange(1, read, ResponseDigest::Missing));
    let read = request("SELECT b, v FROM k.t WHERE a = 1", &[]);
    rehearsal.offer(exchange(2, read, ResponseDigest::Missing));
    rehearsal.finish(Instant::now() + Duration::from_secs(30)).await;
    let ranked = rehearsal.tally().ranked();
    assert_eq!(ranked.len(), 2);
    let text = format!("{ranked:?}");
    assert!(!text.contains("secret") && !text.contains("hidden"));
    let examples = ranked.iter().filter_map(|(_, tally)| tally.example.as_ref());
    let columns: Vec<_> = examples.map(|example| &example.difference.columns[..]).collect();
    assert!(columns.contains(&&["v".to_owned()][..]), "{columns:?}");
}

#[tokio::test]
async fn pages_are_compared_as_whole_reads() {
    let script = [KEYSPACE, TABLE, &rows(1, 10)].concat();
    let one = node(&script).await;
    let two = node(&[&script, "DELETE FROM k.t WHERE a = 0 AND b = 5;"].concat()).await;
    for (other, differing) in [(&one, 0), (&two, 1)] {
        let mut first = target(&one);
        let mut pages = Vec::new();
        // What the observer sees: four pages, with their numbers.
        let mut ask = Vec::new();
        for number in 1..=4 {
            ask.push(RecordedRequest {
                page_size: Some(3),
                page: if number == 1 {
                    Page::First
                } else {
                    Page::After(number - 1)
                },
                ..request("SELECT b, v FROM t WHERE a = ?", &[0])
            });
        }
        for (number, request) in (1..).zip(ask) {
            let page = exchange(
                number,
                request,
                ResponseDigest::Rows(cqlens_rehearse::digest::RowsDigest {
                    has_more: number < 4,
                    ..Default::default()
                }),
            );
            let request = TargetRequest {
                exchange: Arc::clone(&page),
                extent: Extent::Page,
                purpose: Purpose::First,
            };
            first.send(request).unwrap();
            let Outcome::Answered { response, .. } = first.completed().await.unwrap().outcome else {
                unreachable!()
            };
            pages.push(Arc::new(RecordedExchange {
                response,
                ..(*page).clone()
            }));
        }
        for first in [
            First::Recorded,
            First::CanRepeat(target(&one)),
            First::Beside(target(&one)),
        ] {
            let mut rehearsal = Rehearsal::new(settings(), first, target(other));
            for page in &pages {
                rehearsal.offer(page.clone());
            }
            let total = finish(rehearsal).await;
            assert_eq!((total.compared, total.differing()), (1, differing), "{total:?}");
        }
    }
}

#[tokio::test]
async fn writes_that_pass_between_two_reads_are_no_difference() {
    let script = [KEYSPACE, TABLE, &rows(4, 2)].concat();
    let (one, two) = (node(&script).await, node(&script).await);
    let (mut to_one, mut to_two) = (client(&one).await, client(&two).await);
    let writer = tokio::spawn(async move {
        for round in 0..200 {
            let write = format!("INSERT INTO k.t (a, b, v) VALUES ({}, 1, 'r{round}')", round % 4);
            to_one.query(&write).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            to_two.query(&write).await.unwrap();
        }
    });
    let mut rehearsal = Rehearsal::new(
        RehearsalSettings {
            // A writer that is held up between the two is late, too.
            ask_again_after: Duration::from_millis(300),
            ..settings()
        },
        First::Beside(target(&one)),
        target(&two),
    );
    let mut number = 0;
    while !writer.is_finished() {
        number += 1;
        let a = i32::try_from(number % 4).unwrap();
        let read = request("SELECT v FROM t WHERE a = ?", &[a]);
        rehearsal.offer(exchange(number, read, ResponseDigest::Missing));
        let _ = tokio::time::timeout(Duration::from_micros(500), rehearsal.turn()).await;
        while rehearsal.other().waiting() > 20 {
            rehearsal.turn().await;
        }
    }
    let total = finish(rehearsal).await;
    assert_eq!(total.differences, BTreeMap::new(), "{:?}", total.example);
    assert!(total.compared > 0);
}

#[tokio::test]
async fn what_may_not_be_sent_is_counted_and_makes_reads_of_its_table_incomparable() {
    let one = node(&[KEYSPACE, TABLE].concat()).await;
    let two = node(&[KEYSPACE, TABLE].concat()).await;
    let mut first = target(&one);
    let mut write = request("INSERT INTO t (a, b, v) VALUES (?, 1, 'x')", &[1]);
    write.effect = Effect::Write;
    let write = recorded(&mut first, 1, write).await;
    let read = recorded(&mut first, 2, request("SELECT v FROM t WHERE a = ?", &[1])).await;

    let mut rehearsal = Rehearsal::new(settings(), First::Recorded, target(&two));
    assert!(!rehearsal.offer(write.clone()));
    rehearsal.offer(read.clone());
    let total = finish(rehearsal).await;
    assert_eq!(total.skipped, BTreeMap::from([(Skipped::Write, 1)]));
    assert_eq!(
        total.not_compared,
        BTreeMap::from([(NotCompared::AfterUnsentWrites, 1)])
    );

    let permissions = Permissions {
        writes: ["k".to_owned()].into(),
        ..Permissions::default()
    };
    let allowed = RehearsalSettings {
        permissions,
        ..settings()
    };
    let mut rehearsal = Rehearsal::new(allowed, First::Recorded, target(&two));
    assert!(rehearsal.offer(write));
    while rehearsal.turn().await.done.is_none() {}
    rehearsal.offer(read);
    let total = finish(rehearsal).await;
    assert_eq!((total.compared, total.differing()), (2, 0), "{total:?}");
}

/// The other cluster gets the writes from here: one that was left out is missing for good, however often both are asked,
/// and whether it was known before the read or after, as of two clients that do both at once.
#[tokio::test]
async fn reads_that_may_have_seen_a_copied_write_that_was_left_out_are_not_compared() {
    let script = [KEYSPACE, TABLE, &rows(1, 1)].concat();
    let (one, two) = (node(&script).await, node(&script).await);
    let mut first = target(&one);
    let insert = "INSERT INTO k.t (a, b, v) VALUES (0, 9, 'x')";
    client(&one).await.query(insert).await.unwrap();
    let mut write = request(insert, &[]);
    write.effect = Effect::Write;
    let before = exchange(0, write, ResponseDigest::Void);
    let read = recorded(&mut first, 1, request("SELECT * FROM k.t WHERE a = ?", &[0])).await;
    let after = Arc::new(RecordedExchange {
        number: 2,
        at_us: read.at_us + 1_000_000,
        ..(*before).clone()
    });
    for (carried, expected) in [("k", (0, 1)), ("other", (1, 0))] {
        for write in [&before, &after] {
            let permissions = Permissions {
                writes: [carried.to_owned()].into(),
                ..Permissions::default()
            };
            let settings = RehearsalSettings {
                permissions,
                unsent_writes_count_for: Some(Duration::from_millis(1)),
                ..settings()
            };
            let mut rehearsal = Rehearsal::new(settings, First::CanRepeat(target(&one)), target(&two));
            if write.number < read.number {
                rehearsal.leave_out(write, Skipped::QueueFull);
            }
            rehearsal.offer(Arc::clone(&read));
            if write.number > read.number {
                rehearsal.leave_out(write, Skipped::QueueFull);
            }
            let total = finish(rehearsal).await;
            let unsent = total
                .not_compared
                .get(&NotCompared::AfterUnsentWrites)
                .copied()
                .unwrap_or_default();
            assert_eq!((total.differing(), unsent), expected, "{carried}: {total:?}");
        }
    }
}

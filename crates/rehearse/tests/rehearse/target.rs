//! Requests reach another cluster whatever it speaks, and whatever becomes of it nobody waits for it.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use cqlens_capture::memory::Part;
use cqlens_client::{Client, ClientOptions};
use cqlens_node::{Node, Options};
use cqlens_proto::{compress::Compression, envelope::Version, message::BatchKind};
use cqlens_rehearse::{
    digest::{DigestKey, ResponseDigest, RowsDigest},
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    skipped::Skipped,
    target::{Extent, Outcome, Purpose, Target, TargetRequest, TargetSettings},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{self, client, int, page, prepared, request};

const SCHEMA: &str = "
    CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE k.t (a int, b int, v text, PRIMARY KEY (a, b));
    CREATE TABLE other.t (a int, b int, v text, PRIMARY KEY (a, b));
    INSERT INTO other.t (a, b, v) VALUES (1, 1, 'other');";

async fn node() -> Node {
    let node = Node::start(Options::default()).await.unwrap();
    let mut client = client(&node).await;
    client.script(SCHEMA).await.unwrap();
    for row in 0..10 {
        let insert = format!("INSERT INTO k.t (a, b, v) VALUES (1, {row}, 'v{row}')");
        client.query(&insert).await.unwrap();
    }
    node
}

fn settings(address: SocketAddr) -> TargetSettings {
    let options = ClientOptions {
        timeout: Duration::from_secs(5),
        ..ClientOptions::default()
    };
    TargetSettings::new(vec![(address.to_string(), options)], DigestKey(7))
}

fn exchange(number: u64, request: RecordedRequest, has_more: bool) -> Arc<RecordedExchange> {
    let rows = RowsDigest {
        has_more,
        ..RowsDigest::default()
    };
    Arc::new(support::exchange(number, request, ResponseDigest::Rows(rows)))
}

async fn outcome(target: &mut Target, request: TargetRequest) -> Outcome {
    target.send(request).unwrap();
    target.completed().await.unwrap().outcome
}

fn rows(outcome: Outcome) -> RowsDigest {
    match outcome {
        Outcome::Answered {
            response: ResponseDigest::Rows(rows),
            ..
        } => rows,
        other => unreachable!("{other:?}"),
    }
}

fn by_partition() -> RecordedRequest {
    request(prepared("SELECT v FROM t WHERE a = ?", vec![int(1)]))
}

#[tokio::test]
async fn every_version_and_compression_gives_the_same_digests() {
    let node = node().await;
    let mut digests = Vec::new();
    for highest_version in [Version::V5, Version::V4, Version::V3] {
        for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
            let mut settings = settings(node.address());
            settings.highest_version = highest_version;
            settings.nodes[0].1.compression = compression;
            let mut target = Target::open(settings);
            digests.push(rows(
                outcome(&mut target, page(&exchange(1, by_partition(), false))).await,
            ));
            let elsewhere = RecordedRequest {
                keyspace: Some("other".into()),
                ..by_partition()
            };
            let elsewhere = rows(outcome(&mut target, page(&exchange(2, elsewhere, false))).await);
            assert_eq!(
                elsewhere.count, 1,
                "{highest_version} {compression:?}: in the request's keyspace"
            );
        }
    }
    assert_eq!(digests[0].count, 10);
    assert!(digests.windows(2).all(|two| two[0] == two[1]));
}

#[tokio::test]
async fn a_keyspace_that_is_not_there_is_an_error_in_every_version() {
    let node = node().await;
    for highest_version in [Version::V5, Version::V4] {
        let mut target = Target::open(TargetSettings {
            highest_version,
            ..settings(node.address())
        });
        let request = RecordedRequest {
            keyspace: Some("absent".into()),
            ..by_partition()
        };
        let told = outcome(&mut target, page(&exchange(1, request, false))).await;
        let Outcome::Answered {
            response: ResponseDigest::Error(code),
            ..
        } = told
        else {
            unreachable!("{told:?}")
        };
        assert_eq!(code, 0x2200, "{highest_version}");
    }
}

#[tokio::test]
async fn a_statement_that_the_node_has_forgotten_is_prepared_again() {
    let node = node().await;
    let mut target = Target::open(settings(node.address()));
    let request = page(&exchange(1, by_partition(), false));
    let first = rows(outcome(&mut target, request.clone()).await);
    node.forget_prepared();
    for _ in 0..100 {
        target.send(request.clone()).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(rows(target.completed().await.unwrap().outcome), first);
    }
    assert!(target.counts().unprepared > 0);
}

#[tokio::test]
async fn pages_go_on_with_the_targets_own_paging_state() {
    let node = node().await;
    let mut target = Target::open(settings(node.address()));
    let pages: Vec<_> = (1..=4)
        .map(|number| {
            let request = RecordedRequest {
                page_size: Some(4),
                page: if number == 1 {
                    Page::First
                } else {
                    Page::After(number - 1)
                },
                ..by_partition()
            };
            exchange(number, request, true)
        })
        .collect();
    // All at once: each waits for the page before.
    for exchange in pages.iter().rev() {
        target.send(page(exchange)).ok();
    }
    let mut left_out = Vec::new();
    for _ in &pages {
        if let Outcome::Skipped(why) = target.completed().await.unwrap().outcome {
            left_out.push(why);
        }
    }
    assert_eq!(
        left_out,
        [Skipped::UnknownPage; 3],
        "the page before was not sent yet"
    );
    let mut counts = Vec::new();
    for exchange in &pages {
        target.send(page(exchange)).unwrap();
    }
    for _ in &pages {
        counts.push(match target.completed().await.unwrap().outcome {
            Outcome::Answered {
                response: ResponseDigest::Rows(rows),
                ..
            } => Ok((rows.count, rows.has_more)),
            Outcome::Skipped(why) => Err(why),
            other => unreachable!("{other:?}"),
        });
    }
    let expected = [
        Ok((4, true)),
        Ok((4, true)),
        Ok((2, false)),
        Err(Skipped::NoFurtherPage),
    ];
    assert_eq!(counts, expected);

    let whole = TargetRequest {
        extent: Extent::Whole,
        purpose: Purpose::Again(1),
        ..page(&pages[0])
    };
    let whole = rows(outcome(&mut target, whole).await);
    let at_once = rows(outcome(&mut target, page(&exchange(9, by_partition(), false))).await);
    assert_eq!(whole, at_once, "wherever pages end");
}

#[tokio::test]
async fn batches_have_prepared_and_plain_children() {
    let node = node().await;
    for highest_version in [Version::V5, Version::V3] {
        let mut target = Target::open(TargetSettings {
            highest_version,
            ..settings(node.address())
        });
        let mut batch = request(prepared(
            "INSERT INTO t (a, b, v) VALUES (?, 1, 'x')",
            vec![int(5)],
        ));
        batch.statements.push(RecordedStatement {
            cql: "INSERT INTO t (a, b, v) VALUES (5, 2, 'y')".into(),
            is_prepared: false,
            values: Vec::new(),
        });
        batch.batch = Some(BatchKind::Logged);
        batch.effect = Effect::Write;
        let told = outcome(&mut target, page(&exchange(1, batch, false))).await;
        assert!(
            matches!(
                told,
                Outcome::Answered {
                    response: ResponseDigest::Void,
                    ..
                }
            ),
            "{told:?}"
        );
        let read = request(prepared(
            "SELECT v, writetime(v) FROM t WHERE a = ?",
            vec![int(5)],
        ));
        let read = rows(outcome(&mut target, page(&exchange(2, read, false))).await);
        assert_eq!(read.count, 2, "{highest_version}");
    }
}

#[tokio::test]
async fn what_a_version_cannot_express_is_left_out() {
    let node = node().await;
    let mut target = Target::open(TargetSettings {
        highest_version: Version::V3,
        ..settings(node.address())
    });
    let not_set = RecordedValue {
        name: None,
        content: ValueContent::NotSet,
    };
    let request = request(prepared("SELECT v FROM t WHERE a = ?", vec![not_set]));
    let told = outcome(&mut target, page(&exchange(1, request, false))).await;
    assert_eq!(told, Outcome::Skipped(Skipped::NotExpressible));
}

/// A peer that does with each connection what it is told.
async fn peer<F, G>(serve: F) -> SocketAddr
where
    F: Fn(tokio::net::TcpStream) -> G + Send + 'static,
    G: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    address
}

/// What became of many requests to a peer that is no node.
async fn reasons(address: SocketAddr) -> Vec<Skipped> {
    let mut settings = settings(address);
    settings.nodes[0].1.timeout = Duration::from_millis(200);
    settings.most_waiting = 50;
    let mut target = Target::open(settings);
    let request = page(&exchange(1, by_partition(), false));
    let refused = (0..100).filter(|_| target.send(request.clone()).is_err()).count();
    assert_eq!(
        refused, 50,
        "no more may wait than that, whatever the target does"
    );
    let mut reasons = Vec::new();
    for _ in 0..50 {
        match target.completed().await.unwrap().outcome {
            Outcome::Skipped(why) => reasons.push(why),
            answered => unreachable!("{answered:?}"),
        }
    }
    assert_eq!(target.waiting(), 0);
    reasons.dedup();
    reasons
}

#[tokio::test]
async fn a_dead_target_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(reasons(address).await, [Skipped::Unreachable]);
}

#[tokio::test]
async fn a_target_that_accepts_and_says_nothing_is_unreachable() {
    let address = peer(async |_socket| std::future::pending().await).await;
    assert_eq!(reasons(address).await, [Skipped::Unreachable]);
}

#[tokio::test]
async fn a_target_of_nonsense_is_unreachable() {
    let address = peer(|mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = socket.read(&mut [0; 100]).await;
    })
    .await;
    assert_eq!(reasons(address).await, [Skipped::Unreachable]);
}

/// The number of what has completed, and why it was left out.
fn left_out(target: &mut Target) -> Vec<(u64, Outcome)> {
    let completed = std::iter::from_fn(|| target.try_completed());
    completed
        .map(|completed| (completed.request.exchange.number, completed.outcome))
        .collect()
}

#[tokio::test]
async fn pages_after_one_that_is_left_out_are_left_out_with_it() {
    let address = peer(async |_socket| std::future::pending().await).await;
    let mut settings = TargetSettings {
        most_waiting: 20_000,
        ..settings(address)
    };
    settings.nodes[0].1.timeout = Duration::from_secs(600);
    let mut target = Target::open(settings);
    let send = |target: &Target, number, of_page| {
        let read = RecordedRequest {
            page: of_page,
            ..by_partition()
        };
        target.send(page(&exchange(number, read, true))).unwrap();
    };
    let unknown = |number| (number, Outcome::Skipped(Skipped::UnknownPage));
    send(&target, 2, Page::After(1));
    assert_eq!(left_out(&mut target), [unknown(2)]);
    send(&target, 3, Page::After(2));
    assert_eq!(
        left_out(&mut target),
        [unknown(3)],
        "nothing will come that it could wait for"
    );
    // Forgotten for others, with those that wait for it.
    send(&target, 4, Page::First);
    send(&target, 5, Page::After(4));
    send(&target, 6, Page::After(5));
    assert_eq!(left_out(&mut target), []);
    let mut number = 7;
    let gone = loop {
        send(&target, number, Page::First);
        number += 1;
        let gone = left_out(&mut target);
        if !gone.is_empty() {
            break gone;
        }
    };
    assert_eq!(gone, [unknown(5), unknown(6)]);
}

/// STARTUP is answered; what comes then is for `answer` to say.
async fn ready_then(mut socket: tokio::net::TcpStream, answer: &[u8]) {
    let mut buffer = [0; 4_096];
    let Ok(length) = socket.read(&mut buffer).await else {
        return;
    };
    if length == 0 || buffer[0] != 4 {
        return;
    }
    let _ = socket.write_all(&[0x84, 0, 0, 0, 2, 0, 0, 0, 0]).await;
    while matches!(socket.read(&mut buffer).await, Ok(1..)) {
        if !answer.is_empty() {
            let _ = socket.write_all(answer).await;
        }
    }
}

#[tokio::test]
async fn a_target_that_stalls_after_it_has_begun_costs_a_time_out() {
    let address = peer(|socket| ready_then(socket, b"")).await;
    let reasons = reasons(address).await;
    assert!(
        reasons.iter().all(|why| matches!(
            why,
            Skipped::TimedOut | Skipped::Unreachable | Skipped::ConnectionLost
        )),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn nonsense_in_place_of_a_response_loses_the_connection() {
    let address = peer(|socket| ready_then(socket, &[0xff; 64])).await;
    let reasons = reasons(address).await;
    assert!(
        reasons
            .iter()
            .all(|why| matches!(why, Skipped::Unreachable | Skipped::ConnectionLost)),
        "{reasons:?}"
    );
}

/// A page without rows, with that paging state, for the stream id 0.
fn page_with_state(bytes: u16) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 1];
    body.extend(u32::from(bytes).to_be_bytes());
    body.resize(body.len() + usize::from(bytes), b's');
    body.extend([0; 4]);
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0x84, 0, 0, 0, 8][..], &length, &body].concat()
}

#[tokio::test]
async fn a_read_whose_paging_states_are_too_long_is_not_read_on() {
    let address = peer(async |socket| ready_then(socket, &page_with_state(10_000)).await).await;
    let mut target = Target::open(TargetSettings {
        highest_version: Version::V4,
        ..settings(address)
    });
    let read = RecordedRequest {
        keyspace: None,
        ..request(RecordedStatement {
            is_prepared: false,
            ..prepared("SELECT v FROM k.t", Vec::new())
        })
    };
    let whole = TargetRequest {
        extent: Extent::Whole,
        ..page(&exchange(1, read, false))
    };
    let skipped = outcome(&mut target, whole).await;
    assert_eq!(skipped, Outcome::Skipped(Skipped::UnknownPage));
}

/// A peer that says that it is there, again and again, and reads nothing after STARTUP.
async fn ready_then_unread(mut socket: tokio::net::TcpStream) {
    const EVENT: [u8; 11] = [0x84, 0, 0xff, 0xff, 0x0c, 0, 0, 0, 2, 0, 0];
    let mut buffer = [0; 4_096];
    match socket.read(&mut buffer).await {
        Ok(1..) if buffer[0] == 4 => {}
        _ => return,
    }
    let _ = socket.write_all(&[0x84, 0, 0, 0, 2, 0, 0, 0, 0]).await;
    while socket.write_all(&EVENT).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_target_that_does_not_read_keeps_no_requests_that_have_expired() {
    let address = peer(ready_then_unread).await;
    let mut settings = TargetSettings {
        highest_version: Version::V4,
        connections_per_node: 1,
        memory: Part::new("rehearsal", 16 << 20),
        ..settings(address)
    };
    settings.nodes[0].1.timeout = Duration::from_millis(500);
    let mut target = Target::open(settings);
    let text = format!("SELECT v FROM k.t WHERE v = '{}'", "v".repeat(500 << 10));
    let read = RecordedRequest {
        keyspace: None,
        ..request(RecordedStatement {
            is_prepared: false,
            ..prepared(&text, Vec::new())
        })
    };
    let read = page(&exchange(1, read, false));
    // What the kernel takes of them is a few megabytes.
    let mut sent = 0;
    loop {
        while target.send(read.clone()).is_ok() {
            sent += 1;
        }
        match target.completed().await.unwrap().outcome {
            Outcome::Skipped(Skipped::ConnectionLost) => break,
            outcome => assert_eq!(outcome, Outcome::Skipped(Skipped::TimedOut)),
        }
        assert!(sent < 100, "they are kept");
    }
}

#[tokio::test]
async fn a_target_that_comes_back_is_asked_again() {
    let address = {
        let node = node().await;
        let address = node.address();
        let mut target = Target::open(settings(address));
        let request = page(&exchange(1, by_partition(), false));
        assert_eq!(rows(outcome(&mut target, request.clone()).await).count, 10);
        node.shutdown().await;
        let gone = outcome(&mut target, request.clone()).await;
        assert!(matches!(gone, Outcome::Skipped(_)), "{gone:?}");
        let options = Options {
            listen: address,
            ..Options::default()
        };
        let node = Node::start(options).await.unwrap();
        let mut client = Client::connect(address, &ClientOptions::default()).await.unwrap();
        client.script(SCHEMA).await.unwrap();
        loop {
            match outcome(&mut target, request.clone()).await {
                Outcome::Answered { .. } => break,
                Outcome::Skipped(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        node.address()
    };
    let _ = address;
}

//! How fast does a replay send, and how well does it keep the pace? To the canned node of the benchmarks, which
//! has a thread of its own; on two cores.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the table is what this prints"
)]

#[allow(dead_code, unreachable_pub, reason = "shared with `wire`")]
#[path = "wire/backend.rs"]
mod backend;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cqlens_client::ClientOptions;
use cqlens_proto::message::Consistency;
use cqlens_rehearse::{
    column_types::ColumnTypesCache,
    digest::{DigestKey, ResponseDigest, RowsDigest},
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    rehearsal::{First, Rehearsal, RehearsalSettings},
    replay::{ReplayProgress, ReplaySettings, Speed, replay},
    target::{Target, TargetSettings},
};
use cqlens_report::ReplayPace;
use tokio::sync::mpsc;

/// Requests of the row without a pace, and how many a second the others have.
const REQUESTS: u64 = 1_000_000;
const PACES: [u64; 3] = [1_000, 5_000, 20_000];
const SECONDS: u64 = 10;

fn main() {
    let address = backend::start();
    println!("| pace | requests a second | late by, median | late by, p99 | processor time a request |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    print("as fast as possible", &run(address, Speed::Max, REQUESTS, 50_000));
    for pace in PACES {
        let row = run(address, Speed::Times(1.0), pace * SECONDS, pace);
        print(&format!("{pace} a second"), &row);
    }
}

fn print(name: &str, (pace, cpu): &(ReplayPace, Duration)) {
    let late = |micros: Option<u64>| micros.map_or_else(|| "–".to_owned(), |micros| format!("{micros} µs"));
    println!(
        "| {name} | {:.0} | {} | {} | {:.1} µs |",
        pace.per_second,
        late(pace.late_us.map(|late| late.p50.value)),
        late(pace.late_us.map(|late| late.p99.value)),
        cpu.as_secs_f64() * 1e6 / pace.sent as f64,
    );
}

/// Replays so many requests that came at this rate, on a hundred connections.
fn run(address: SocketAddr, speed: Speed, requests: u64, per_second: u64) -> (ReplayPace, Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let cpu = cpu_time();
    let begun = Instant::now();
    let pace = runtime.block_on(async {
        let nodes = vec![(address.to_string(), ClientOptions::default())];
        let other = Target::open(TargetSettings::new(nodes, DigestKey(1)));
        let mut rehearsal = Rehearsal::new(RehearsalSettings::default(), First::Recorded, other);
        let (sender, exchanges) = mpsc::channel(32);
        std::thread::spawn(move || {
            for first in (0..requests).step_by(256) {
                let piece = (first..(first + 256).min(requests)).map(|number| exchange(number, per_second));
                if sender.blocking_send(piece.collect()).is_err() {
                    return;
                }
            }
        });
        let settings = ReplaySettings {
            speed,
            most_in_flight: 4_096,
            stop_at_error_rate: None,
            patience: Duration::from_secs(5),
        };
        replay(exchanges, &mut rehearsal, settings, &ReplayProgress::default()).await
    });
    assert_eq!(pace.sent, requests, "in {:?}", begun.elapsed());
    (pace, cpu_time() - cpu)
}

fn exchange(number: u64, per_second: u64) -> RecordedExchange {
    let key = Bytes::from(format!("key-{number}"));
    RecordedExchange {
        number,
        connection: number % 100,
        actor: 1,
        at_us: i64::try_from(number * 1_000_000 / per_second).unwrap(),
        request: RecordedRequest {
            statements: vec![RecordedStatement {
                cql: "SELECT v FROM bench.small WHERE id = ?".into(),
                is_prepared: true,
                values: vec![RecordedValue {
                    name: None,
                    content: ValueContent::Bytes(key),
                }],
            }],
            batch: None,
            keyspace: None,
            consistency: Consistency::LocalOne,
            serial_consistency: None,
            timestamp: None,
            now_in_seconds: None,
            page_size: None,
            page: Page::First,
            effect: Effect::Read,
            is_ordered: true,
            pattern: None,
        },
        latency: Some(Duration::from_micros(300)),
        response: expected(),
    }
}

/// What the canned node answers.
fn expected() -> ResponseDigest {
    static EXPECTED: std::sync::OnceLock<RowsDigest> = std::sync::OnceLock::new();
    let rows = EXPECTED.get_or_init(|| {
        let mut content = cqlens_proto::message::RowsContent::new(1);
        content.push([Some(&[7_u8; 100][..])]).unwrap();
        let metadata = cqlens_proto::message::ResultMetadata {
            column_count: 1,
            ..cqlens_proto::message::ResultMetadata::none()
        };
        let rows = cqlens_proto::message::Rows::new(metadata, &content).unwrap();
        RowsDigest::of(&rows, DigestKey(1), &mut ColumnTypesCache::default())
    });
    ResponseDigest::Rows(rows.clone())
}

/// Of the whole process, node included.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = [11, 12]
        .iter()
        .map(|field| fields[*field].parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

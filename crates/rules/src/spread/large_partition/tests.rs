//! Partitions that are large, and that will be.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{amid, run_with, write};
use cqlens_cql::{plan::StatementKind, schema::Schema};
use cqlens_window::{NodeReads, Window, WrittenRow};

const ORDERS: &str =
    "CREATE TABLE shop.orders (lab text, at timestamp, id int, test text, PRIMARY KEY (lab, at, id));";

fn window() -> Window {
    let cql = "INSERT INTO shop.orders (lab, at, id, test) VALUES (?, ?, ?, ?)";
    let mut window = amid([write(cql, StatementKind::Insert, &[], 1_000)]);
    window.observed_seconds = 10.0 * 3_600.0;
    window
}

fn traffic(window: &mut Window) -> &mut TableTraffic {
    let name = TableName {
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
    };
    window.tables.entry(name).or_default()
}

/// So many rows of fifty bytes, from one second to another one.
fn grow(window: &mut Window, partition: u64, rows: u64, span: (i64, i64)) {
    grow_by(window, partition, (rows, 50), span);
}

fn grow_by(window: &mut Window, partition: u64, (rows, bytes): (u64, u32), (from, to): (i64, i64)) {
    let inserted = &mut traffic(window).inserted;
    for row in 0..rows {
        let hash = (partition * 1_000_000 + row).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = from * 1_000 + (to - from) * 1_000 * row.cast_signed() / rows.cast_signed();
        inserted.inserts += 1;
        inserted.rows.insert(hash);
        inserted.sample.insert(hash, WrittenRow { partition, bytes, at });
    }
}

fn found(window: &Window, table: &str) -> Vec<(Severity, String)> {
    let keyspace = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
    let schema = Schema::from_cql(&format!("{keyspace}{table}")).unwrap();
    let findings = run_with(&LargePartition, window, &schema).findings.into_iter();
    findings
        .map(|finding| (finding.severity, finding.title))
        .collect()
}

const DAY_SECONDS: (i64, i64) = (0, 36_000);

#[test]
fn what_reads_have_returned_is_there_at_least() {
    let mut window = window();
    traffic(&mut window).partition_reads.see(7, 120_000, 20 << 20);
    let expected = "A partition of `shop.orders` has 120,000 rows or more";
    assert_eq!(found(&window, ORDERS), [(Severity::Medium, expected.to_owned())]);
    traffic(&mut window).node_reads = Some(NodeReads {
        largest_partition_mib: Some(2_000),
        ..NodeReads::default()
    });
    let [(severity, title)] = &found(&window, ORDERS)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::High);
    assert!(
        title.ends_with("120,000 rows or more, 2.0 GiB on disk"),
        "{title}"
    );
    let mut small = self::window();
    traffic(&mut small).partition_reads.see(7, 20_000, 20 << 20);
    assert_eq!(found(&small, ORDERS), []);
}

#[test]
fn a_partition_that_grows_without_end_is_forecast() {
    let mut window = window();
    grow(&mut window, 1, 300, DAY_SECONDS);
    grow(&mut window, 2, 10_000, DAY_SECONDS);
    let [(severity, title)] = &found(&window, ORDERS)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Medium);
    assert!(
        title.starts_with("One partition of `shop.orders` got about "),
        "{title}"
    );
    assert!(
        title.contains(", and at this rate will have 100,000 rows in "),
        "{title}"
    );
}

#[test]
fn the_first_minutes_are_projected_with_their_assumption_and_judged_a_step_lower() {
    let of = |table: &str, observed: f64| {
        let mut window = window();
        window.observed_seconds = observed;
        grow(&mut window, 2, 1_000, (0, 60));
        found(&window, table)
    };
    let two_days = ORDERS.replace("id));", "id)) WITH default_time_to_live = 172800;");
    let [(severity, title)] = &of(&two_days, 80.0)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Low, "{title}");
    assert!(
        title.contains(", and if it goes on as in these 1 min 20 s will have 2.9 M rows in ")
            && title.ends_with("the 2 days of the rows' TTL"),
        "{title}"
    );
    let [(severity, title)] = &of(ORDERS, 80.0)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Low, "{title}");
    // What is in a bucket may be enough, and an hour holds the rows of an hour.
    let bucket = two_days
        .replace("lab text,", "lab text, bucket int,")
        .replace("(lab, at", "((lab, bucket), at");
    assert_eq!(of(&bucket, 80.0), []);
    assert_eq!(
        of(
            &ORDERS.replace("id));", "id)) WITH default_time_to_live = 3600;"),
            80.0
        ),
        []
    );
    // A load that has ended, and a few seconds, say nothing of what comes.
    assert_eq!(of(ORDERS, 600.0)[0].0, Severity::Info);
    assert_eq!(of(&two_days, 40.0), []);
}

/// What a table whose rows are that large is told of 510 rows in 5.1 hours, all of one partition: title and bucket.
fn forecast_of(bytes: u32) -> (Severity, String, String) {
    let mut window = window();
    window.observed_seconds = 5.1 * 3_600.0;
    grow_by(&mut window, 2, (510, bytes), (0, 18_360));
    let keyspace = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
    let schema = Schema::from_cql(&format!("{keyspace}{ORDERS}")).unwrap();
    let finding = run_with(&LargePartition, &window, &schema)
        .findings
        .pop()
        .unwrap();
    let bucket = finding.suggested_cql[0].lines().nth(1).unwrap().to_owned();
    (finding.severity, finding.title, bucket)
}

#[test]
fn what_is_counted_is_forecast_to_the_day_with_the_bucket_that_prevents_it() {
    // A hundred rows an hour: 99,490 more take 41 days, and no week has half of a hundred thousand.
    let (severity, title, bucket) = forecast_of(50);
    assert_eq!(
        title,
        "One partition of `shop.orders` got 510 new rows, 1.7 a minute, and at this rate will have \
            100,000 rows in 41 days"
    );
    assert_eq!(
        (severity, &*bucket),
        (Severity::Low, "-- week: the first day of the week of at")
    );
    // Of rows of 20,008 bytes 5,240 are 100 MiB: 4,730 more take two days, and no day has half of them.
    let (severity, title, bucket) = forecast_of(20_000);
    assert_eq!(
        title,
        "One partition of `shop.orders` got 510 new rows, 1.7 a minute, and at this rate will have 100 \
            MiB in 1 day 23 h"
    );
    assert_eq!((severity, &*bucket), (Severity::Medium, "-- day: the day of at"));
}

#[test]
fn what_is_forecast_has_the_line_that_it_is_read_from() {
    let growth = |window: &Window, table: &str| {
        let keyspace =
            "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
        let schema = Schema::from_cql(&format!("{keyspace}{table}")).unwrap();
        let found = run_with(&LargePartition, window, &schema).findings.pop();
        found.unwrap().growth
    };
    let mut window = window();
    grow_by(&mut window, 2, (510, 50), (0, 36_000));
    let line = growth(&window, ORDERS).unwrap();
    // 509 rows came in 35,929 seconds; there is nothing to be estimated in a whole count.
    let rows: Vec<_> = line.points.iter().map(|point| point.rows).collect();
    assert_eq!(
        (rows.len(), rows.first(), rows.last()),
        (31, Some(&1), Some(&510))
    );
    assert!(rows.is_sorted());
    assert_eq!((line.limit_rows, line.limit_bytes), (100_000, None));
    assert!(line.limit_origin.starts_with("DataStax"), "{}", line.limit_origin);
    let [soonest, latest] = line.limit_after_seconds;
    assert_eq!(soonest, latest);
    assert!((7.04e6..7.05e6).contains(&soonest), "{soonest}");
    assert_eq!(line.forecast, "100,000 rows in 81 days");
    assert_eq!(line.collects_for_seconds, None);
    // Where rows are large their size is the limit, and where the key ends partitions that is when.
    let mut large = self::window();
    grow_by(&mut large, 2, (510, 200_000), (0, 36_000));
    let by_day = "CREATE TABLE shop.orders (lab text, day date, at timestamp, id int, test text, PRIMARY KEY ((lab, day), at, id));";
    let line = growth(&large, by_day).unwrap();
    assert_eq!(
        (line.limit_bytes, line.collects_for_seconds),
        (Some(104_857_600), Some(86_400.0))
    );
    assert!(
        line.limit_origin
            .contains("compaction_large_partition_warning_threshold")
    );
    // A burst has no line: nobody can tell what goes on.
    let mut burst = self::window();
    grow(&mut burst, 2, 10_000, (0, 60));
    assert_eq!(growth(&burst, ORDERS), None);
}

#[test]
fn a_partition_that_was_large_before_is_as_large_as_reads_return() {
    let of = |rows, bytes| {
        let mut window = window();
        traffic(&mut window).partition_reads.see(7, rows, bytes);
        found(&window, ORDERS).pop()
    };
    let said = |severity, size: &str| Some((severity, format!("A partition of `shop.orders` has {size}")));
    assert_eq!(of(99_999, 0), None);
    assert_eq!(of(100_000, 0), said(Severity::Medium, "100,000 rows or more"));
    assert_eq!(of(999_999, 0), said(Severity::Medium, "999,999 rows or more"));
    assert_eq!(of(1_000_000, 0), said(Severity::High, "1,000,000 rows or more"));
    assert_eq!(of(5_000, 99 << 20), None);
    assert_eq!(
        of(5_000, 150 << 20),
        said(Severity::Medium, "150 MiB or more in one read")
    );
}

#[test]
fn a_key_with_a_day_a_ttl_and_partitions_that_end_are_bounded() {
    let by_day = "CREATE TABLE shop.orders (lab text, day date, at timestamp, id int, test text, PRIMARY KEY ((lab, day), at, id));";
    let mut window = window();
    grow(&mut window, 2, 10_000, DAY_SECONDS);
    assert_eq!(found(&window, by_day), []);
    let by_month = by_day.replace("day", "month");
    let [(severity, title)] = &found(&window, &by_month)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Low);
    assert!(title.ends_with("rows in the month of its key"), "{title}");
    let expires = ORDERS.replace(";", " WITH default_time_to_live = 86400;");
    assert_eq!(found(&window, &expires), []);
    // The last bucket is filled, and before it those that are full.
    let mut buckets = self::window();
    grow(&mut buckets, 1, 1_000, (0, 18_000));
    grow(&mut buckets, 2, 1_000, (18_000, 36_000));
    assert_eq!(found(&buckets, ORDERS), []);
}

#[test]
fn where_rows_are_large_bytes_are_forecast() {
    let mut window = window();
    // Of rows of 20 kB five thousand are 100 MiB.
    grow_by(&mut window, 2, (400, 20_000), DAY_SECONDS);
    grow_by(&mut window, 3, (100, 20_000), DAY_SECONDS);
    assert_eq!(found(&window, ORDERS), [], "few rows");
    grow_by(&mut window, 2, (500, 20_000), DAY_SECONDS);
    let [(severity, title)] = &found(&window, ORDERS)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Medium);
    assert!(
        title.contains(", and at this rate will have 100 MiB in "),
        "{title}"
    );
    let by_month = "CREATE TABLE shop.orders (lab text, month date, at timestamp, id int, test text, PRIMARY KEY ((lab, month), at, id));";
    let [(_, title)] = &found(&window, by_month)[..] else {
        unreachable!("one finding")
    };
    assert!(title.ends_with(" MiB in the month of its key"), "{title}");
}

#[test]
fn a_bucket_that_is_a_hash_has_a_number() {
    let by_number = ORDERS.replace("(lab, at, id)", "(lab, id, at)");
    let cql = |window: &Window| {
        let keyspace =
            "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
        let schema = Schema::from_cql(&format!("{keyspace}{by_number}")).unwrap();
        let finding = run_with(&LargePartition, window, &schema).findings.pop().unwrap();
        finding.suggested_cql[0].lines().nth(1).unwrap().to_owned()
    };
    // 2.4 times as much as it should have: five partitions have less than half each.
    let mut large = window();
    traffic(&mut large).partition_reads.see(7, 240_000, 20 << 20);
    assert_eq!(cql(&large), "-- bucket: hash of id modulo 5");
    // A hundred rows an hour are 876,000 in a year.
    let mut growing = window();
    grow(&mut growing, 2, 510, (0, 18_360));
    growing.observed_seconds = 5.1 * 3_600.0;
    assert_eq!(cql(&growing), "-- bucket: hash of id modulo 18");
    // Of a burst nobody knows.
    let mut burst = window();
    grow(&mut burst, 2, 900, (0, 5));
    assert_eq!(cql(&burst), "-- bucket: hash of id modulo 16");
}

#[test]
fn a_burst_is_info_and_a_few_rows_are_nothing() {
    let mut window = window();
    grow(&mut window, 2, 900, (0, 5));
    let [(severity, title)] = &found(&window, ORDERS)[..] else {
        unreachable!("one finding")
    };
    assert_eq!(*severity, Severity::Info);
    assert!(title.ends_with("nothing in the key limits it"), "{title}");
    let mut few = self::window();
    grow(&mut few, 2, 300, DAY_SECONDS);
    assert_eq!(found(&few, ORDERS), []);
}

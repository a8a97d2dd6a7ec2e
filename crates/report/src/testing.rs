//! Reports for tests: an empty one, a small one whose JSON form is pinned, and a busy one that shows
//! everything.

use jiff::Timestamp;

use super::{Baseline, Format, Report};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
    schema::{Schema, TableName},
};
use cqlens_rules::{
    Acceptance, Context, Judging,
    operations::{Taken, follow, taken},
    testing::{pattern, read, window, with_partitions},
};
use cqlens_window::{
    Cluster, Distribution, Load, NodeLoad, Pattern, PatternId, RetryCause, RingLoad, TableTraffic, Unplaced,
    Window,
};

/// The report of `window` by all rules, on a cluster with a name, made an hour and a minute after the epoch.
pub(crate) fn report(window: &Window) -> Report {
    under(window, &Schema::default())
}

pub(super) fn under(window: &Window, schema: &Schema) -> Report {
    judged(window, schema, &Judging::default())
}

fn judged(window: &Window, schema: &Schema, judging: &Judging) -> Report {
    let cluster = Cluster {
        name: Some("shop".to_owned()),
        release_version: Some("5.0.6".to_owned()),
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: Some(3),
        ..Cluster::default()
    };
    let judgement = judging.judge(
        &Context::new(window, schema, &cluster),
        jiff::civil::date(2026, 11, 22),
    );
    let generated_at = Timestamp::from_second(3_660).expect("a minute past one is a time");
    Report::new(window, &cluster, schema, judgement, generated_at)
}

/// One lookup, one `IN`, one insert, one sweep of the ring; every part of the JSON form has something in it.
pub(crate) fn small_report() -> Report {
    let mut lookup = read(
        "SELECT * FROM shop.items WHERE id = ?",
        &[Flag::FullPartitionKey],
        PartitionClass::Single,
        90,
    );
    (lookup.routing.replica, lookup.routing.other) = (64, 26);
    let listed = with_partitions(
        read(
            "SELECT * FROM shop.items WHERE id IN ?",
            &[Flag::InPartitionKey],
            PartitionClass::Multi,
            10,
        ),
        12,
    );
    let mut insert = pattern(
        "INSERT INTO shop.items (id) VALUES (?)",
        StatementKind::Insert,
        50,
    );
    insert.partitions.record_n(1, 50);
    insert.classes.insert(PartitionClass::Single, 50);
    (insert.routing.replica, insert.routing.other) = (30, 20);
    insert.consistency.insert("LOCAL_QUORUM".to_owned(), 50);
    insert.clients.insert("shop-web 1.4".to_owned(), 50);
    let mut window = window([lookup, listed, insert, sweep()]);
    window.coverage.requests = 334;
    window.coverage.audited = 334;
    window.coverage.partitions_exact = 330;
    window.coverage.partitions_scan = 4;
    window.clients.insert("shop-web 1.4".to_owned(), 334);
    join(&mut window);
    let traffic = table(&mut window, "shop", "items", 104, 50);
    traffic.partitions_per_read.record_n(1, 90);
    traffic.partitions_per_read.record_n(12, 10);
    traffic.top_partitions.read(7);
    traffic.distinct_partitions.insert(7);
    window.load = small_load();
    report(&window)
}

/// Thirty lists of five items each, one after the other.
fn join(window: &mut Window) {
    let lists = "SELECT item FROM shop.lists WHERE name = ?";
    let prices = "SELECT price FROM shop.prices WHERE item = ?";
    for (id, cql, times) in [(FIRST, lists, 30), (FIRST + 1, prices, 150)] {
        let mut pattern = read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, times);
        pattern.clients.insert("shop-web 1.4".to_owned(), times);
        window.patterns.insert(PatternId(id), pattern);
    }
    follow(
        window,
        (FIRST, FIRST + 1),
        ("item", "item"),
        Taken {
            times: 30,
            ..taken(5)
        },
    );
}

/// The id of the read that operations begin with.
const FIRST: u64 = 101;

/// Three nodes, two replicas: 90 lookups of one partition, ten reads of twelve, fifty inserts, four reads of
/// a range.
fn small_load() -> Load {
    let mut load = Load {
        without_keys: 4,
        ..Load::default()
    };
    for (number, numbers) in (1..).zip([[100, 140, 40], [54, 140, 30], [0, 140, 30]]) {
        node(&mut load, &format!("10.0.0.{number}:9042"), numbers);
    }
    (0..90).for_each(|_| load.ring.read(RingLoad::first_token(7)));
    (0..120).for_each(|key| load.ring.read(RingLoad::first_token(100 + key % 12)));
    (0..50).for_each(|_| load.ring.write(RingLoad::first_token(7)));
    load
}

fn node(load: &mut Load, address: &str, [coordinated, reads, writes]: [u64; 3]) {
    let node = NodeLoad {
        address: Some(address.to_owned()),
        data_center: Some("dc1".to_owned()),
        rack: Some("r1".to_owned()),
        coordinated,
        reads,
        writes,
        ..NodeLoad::default()
    };
    load.nodes.insert(format!("host of {address}"), node);
}

/// Four ranges, of which one came in two pages and one was asked for twice.
fn sweep() -> Pattern {
    let mut pattern = read(
        "SELECT id FROM shop.items WHERE token(id) > ? AND token(id) <= ?",
        &[Flag::OnToken],
        PartitionClass::TokenRange,
        4,
    );
    pattern.count = 5;
    pattern.pages = 2;
    pattern.paging.rows.record_n(40, 3);
    pattern.paging.rows.record(5_030);
    pattern.paging.pages.record_n(1, 3);
    pattern.paging.pages.record(2);
    pattern.repeats.in_flight = 1;
    pattern.repeats.retries.insert(RetryCause::ReadTimeout, 2);
    pattern.scanned.rows = 1_120;
    pattern.scanned.rows_left_out = 4_030;
    pattern.scanned.partitions.record_n(20, 4);
    (1..=80).for_each(|key| pattern.scanned.see(key));
    let ranges = &mut pattern.token_ranges;
    ranges.cover.insert(i64::MIN, i64::MAX);
    (ranges.sweeps, ranges.sweep_reads) = (1, 4);
    pattern
}

/// [`busy_window`] as a report beside the small one, in which something is accepted, something that was
/// accepted is back, one acceptance matches nothing, and one is none.
pub(crate) fn busy_report() -> Report {
    let schema = Schema::from_cql(BUSY_SCHEMA).expect("the definitions below fit");
    let judging = Judging {
        acceptances: vec![
            acceptance("select-star", "2027-03-01"),
            acceptance("allow-filtering", "2026-03-01"),
            acceptance("counter-batch", "2027-03-01"),
        ],
        ..Judging::default()
    };
    let mut before = Vec::new();
    let written = small_report().render(Format::Json, &mut before);
    written.expect("a buffer takes all");
    let before = Baseline::read(before.as_slice()).expect("a report can be read");
    let report = judged(&busy_window(), &schema, &judging);
    report.since(&before).expect("both are of one cluster")
}

fn acceptance(rule: &'static str, until: &str) -> Acceptance {
    Acceptance {
        rule: Some(rule),
        table: None,
        pattern: None,
        at_most: None,
        owner: "team <b>".to_owned(),
        reason: "it is `rare` & <i>cheap</i>".to_owned(),
        until: until.parse().expect("it is a day"),
        place: "cqlens.toml:7".to_owned(),
    }
}

const BUSY_SCHEMA: &str = "
    CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
    CREATE TABLE lab.users (user_id uuid PRIMARY KEY, phone text, name text)
        WITH comment = 'Q3. Users by <phone>';
    CREATE INDEX ON lab.users (phone);
    CREATE TABLE lab.users_by_id (user_id uuid PRIMARY KEY, phone text, name text)
        WITH comment = 'Users by id; cqlens:accept <u> select-star';
    CREATE TABLE lab.orders (order_id uuid PRIMARY KEY, lab_id text, user_id uuid, status text, amount decimal);
    CREATE TABLE lab.audit (lab_id text, at timeuuid, note text, PRIMARY KEY (lab_id, at));
    CREATE TABLE lab.settings (name text PRIMARY KEY, value text);
    CREATE KEYSPACE work WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
    CREATE TABLE work.jobs (lane text, at timeuuid, what text, PRIMARY KEY (lane, at))
        WITH CLUSTERING ORDER BY (at DESC);";

/// An hour of a shop with every kind of finding, hostile names and things that were not seen.
pub(crate) fn busy_window() -> Window {
    let mut window = window(busy_reads().into_iter().chain(busy_writes()).chain(drivers()));
    window.sources.insert("proxy-b".to_owned());
    window.observed_seconds = 7_200.0;
    let coverage = &mut window.coverage;
    coverage.requests = 18_402_113;
    coverage.audited = 18_400_101;
    coverage.undecoded = 12;
    coverage.dropped = 2_000;
    coverage.dropped_bytes = 1_300_000;
    coverage.partitions_exact = 18_010_000;
    coverage.partitions_scan = 290_000;
    coverage.partitions_unknown = 92_101;
    coverage
        .unknown_reasons
        .insert("prepared-id-unknown".to_owned(), 92_101);
    coverage.opaque_connections.insert("tls".to_owned(), 2);
    coverage.system_requests = 4_120;
    coverage.unanswered = 31;
    coverage.notices.insert(
        "2 of 3 nodes can be reached without cqlens: drivers learn their addresses from `system.peers`"
            .to_owned(),
    );
    for (client, count) in [
        ("lab-portal 4.2 · Java driver 4.19 · 10.0.0.7", 12_400_120),
        ("billing · Python driver 3.30 · 10.0.0.9", 5_801_993),
        ("<script>alert(1)</script>", 200_000),
    ] {
        window.clients.insert(client.to_owned(), count);
    }
    busy_tables(&mut window);
    busy_operations(&mut window);
    window.load = busy_load();
    window
}

/// A chain with a fork, of which one step is sent at the same time, by names that are markup.
fn busy_operations(window: &mut Window) {
    let tables = ["orders_by_lab", "\"<b>samples\"", "results", "people"];
    for (id, table) in (FIRST..).zip(tables) {
        let cql = format!("SELECT * FROM lab.{table} WHERE id = ?");
        let mut pattern = read(&cql, &[Flag::FullPartitionKey], PartitionClass::Single, 40_000);
        pattern.head.keyspace = Some("lab".to_owned());
        pattern.head.table = Some(table.trim_matches('"').to_owned());
        window.patterns.insert(PatternId(id), pattern);
    }
    let at_once = Taken {
        overlapping: 1_900,
        operation_us: 480_000,
        ..taken(20)
    };
    follow(window, (FIRST, FIRST + 1), ("sample", "id"), at_once);
    follow(window, (FIRST + 1, FIRST + 2), ("result", "id"), taken(1));
    follow(
        window,
        (FIRST, FIRST + 3),
        ("person", "id"),
        Taken {
            operation_us: 480_000,
            ..taken(20)
        },
    );
}

/// Six nodes of which one has more than the others, a part of the ring that is hot, and keyspaces that cannot
/// be placed.
fn busy_load() -> Load {
    let mut load = Load {
        coordinator_unknown: 40_211,
        without_keys: 290_000,
        ..Load::default()
    };
    for number in 1..=6 {
        let busy = if number == 4 { 2 } else { 1 };
        let numbers = [
            2_400_000 + number * 90_000,
            4_900_000 * busy + number * 31_000,
            800_000 * busy,
        ];
        node(&mut load, &format!("10.0.{}.{number}:9042", number % 2), numbers);
    }
    for slice in 0..RingLoad::SLICES {
        let token = RingLoad::first_token(slice);
        let reads = 60 + slice * 37 % 23 + if slice == 90 { 300 } else { 0 };
        (0..reads).for_each(|_| load.ring.read(token));
        (0..10 + slice * 13 % 7).for_each(|_| load.ring.write(token));
    }
    load.unplaced.insert(Unplaced::ReplicationUnknown, 312);
    load
}

fn busy_reads() -> Vec<Pattern> {
    let key = [Flag::FullPartitionKey];
    let mut by_id = read(
        "SELECT * FROM lab.users_by_id WHERE user_id = ?",
        &key,
        PartitionClass::Single,
        9_120_400,
    );
    by_id.routing.replica = 8_700_000;
    by_id.routing.other = 400_000;
    by_id.routing.unknown = 20_400;
    by_id.latency_us = spread(400, 1.35, 9_120_400);
    by_id.consistency.insert("LOCAL_QUORUM".to_owned(), 9_120_400);
    by_id.clients.insert(
        "lab-portal 4.2 · Java driver 4.19 · 10.0.0.7".to_owned(),
        9_120_400,
    );
    by_id.response_bytes = spread(180, 1.2, 9_120_400);

    let listed = "SELECT order_id, amount FROM lab.orders WHERE order_id IN ?";
    let mut listed = read(
        listed,
        &[Flag::InPartitionKey, Flag::FullPartitionKey],
        PartitionClass::Multi,
        212_480,
    );
    listed.partitions = spread(8, 1.28, 212_480);
    listed.rows = spread(8, 1.27, 212_480);
    listed.latency_us = spread(2_400, 1.4, 212_480);
    listed
        .clients
        .insert("lab-portal 4.2 · Java driver 4.19 · 10.0.0.7".to_owned(), 212_480);

    let filtered = "SELECT * FROM lab.orders WHERE status = ? AND amount > ? ALLOW FILTERING";
    let filter = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::SelectStar];
    let mut filtered = read(filtered, &filter, PartitionClass::Scan, 4_320);
    filtered.latency_us = spread(38_000, 1.45, 4_320);
    filtered.rows = spread(20, 1.5, 4_320);
    filtered.errors = 17;
    filtered
        .clients
        .insert("billing · Python driver 3.30 · 10.0.0.9".to_owned(), 4_320);

    let product = "SELECT value FROM metrics.samples WHERE sensor IN ? AND day IN ?";
    let flags = [
        Flag::InPartitionKey,
        Flag::InCartesianProduct,
        Flag::FullPartitionKey,
    ];
    let mut product = with_partitions(read(product, &flags, PartitionClass::Multi, 960), 12);
    product.latency_us = spread(3_000, 1.2, 960);

    let mut queue = read(
        "SELECT at, what FROM work.jobs WHERE lane = ? LIMIT ?",
        &[Flag::FullPartitionKey, Flag::Limit],
        PartitionClass::Single,
        604_300,
    );
    queue.latency_us = spread(5_000, 1.3, 604_300);
    queue.tombstones.warned = 8_311;
    queue.tombstones.scanned = spread(640, 1.1, 8_311);
    queue.tombstones.live_rows.record_n(5, 8_311);
    queue.warnings = 8_311;

    let by_phone = "SELECT * FROM lab.users WHERE phone = ?";
    let by_phone = read(
        by_phone,
        &[Flag::Index, Flag::SelectStar],
        PartitionClass::Index,
        1_900,
    );
    let everything = read(
        "SELECT * FROM lab.settings",
        &[Flag::SelectStar],
        PartitionClass::Scan,
        12,
    );
    let inside = "SELECT * FROM lab.audit WHERE lab_id = ? AND note = ? ALLOW FILTERING";
    let inside_flags = [
        Flag::AllowFiltering,
        Flag::FilteringNeeded,
        Flag::FullPartitionKey,
    ];
    let inside = read(inside, &inside_flags, PartitionClass::Single, 1_120);
    let hostile = "SELECT \"</code><script>alert('x')</script>\" FROM lab.audit WHERE token(lab_id) > ?";
    let hostile = read(hostile, &[Flag::OnToken], PartitionClass::TokenRange, 40);
    vec![
        by_id, listed, filtered, product, queue, by_phone, everything, inside, hostile,
    ]
}

fn busy_writes() -> Vec<Pattern> {
    let mut insert = pattern(
        "INSERT INTO lab.orders (order_id, lab_id, user_id, status, amount) VALUES (?, ?, ?, ?, ?)",
        StatementKind::Insert,
        432_000,
    );
    insert.partitions.record_n(1, 432_000);
    insert.classes.insert(PartitionClass::Single, 432_000);
    let mut delete = pattern(
        "DELETE FROM work.jobs WHERE lane = ? AND at = ?",
        StatementKind::Delete,
        590_000,
    );
    delete.partitions.record_n(1, 590_000);
    delete.classes.insert(PartitionClass::Single, 590_000);
    vec![insert, delete]
}

fn drivers() -> Vec<Pattern> {
    [
        "SELECT * FROM system.local WHERE key = ?",
        "SELECT * FROM system.peers_v2",
    ]
    .map(|cql| {
        let mut own = read(cql, &[], PartitionClass::Single, 2_060);
        own.head.system = true;
        own
    })
    .into()
}

fn busy_tables(window: &mut Window) {
    table(window, "lab", "users_by_id", 9_120_400, 26_000)
        .partitions_per_read
        .record_n(1, 9_120_400);
    let orders = table(window, "lab", "orders", 216_800, 432_000);
    orders.partitions_per_read = spread(8, 1.28, 212_480);
    for key in 0..400 {
        let times = 1 + 4_000 / (key + 1);
        (0..times).for_each(|_| orders.top_partitions.read(key));
        orders.distinct_partitions.insert(key);
    }
    let jobs = table(window, "work", "jobs", 604_300, 1_214_000);
    jobs.partitions_per_read.record_n(1, 604_300);
    jobs.tombstones.warned = 8_311;
    jobs.tombstones.scanned = spread(640, 1.1, 8_311);
    table(window, "metrics", "samples", 960, 0)
        .partitions_per_read
        .record_n(12, 960);
    table(window, "lab", "users", 1_900, 44);
    table(window, "lab", "settings", 12, 1);
    table(window, "lab", "audit", 1_160, 0)
        .partitions_per_read
        .record_n(1, 1_120);
    table(window, "system", "local", 2_060, 0);
}

fn table<'a>(
    window: &'a mut Window,
    keyspace: &str,
    table: &str,
    reads: u64,
    writes: u64,
) -> &'a mut TableTraffic {
    let name = TableName {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
    };
    let traffic = window.tables.entry(name).or_default();
    (traffic.reads, traffic.writes) = (reads, writes);
    traffic
}

/// `times` values around `middle`, each of 17 steps `factor` times the one before: a bell with a long right
/// tail.
fn spread(middle: u64, factor: f64, times: u64) -> Distribution {
    const WEIGHTS: [u64; 17] = [1, 4, 12, 26, 44, 60, 70, 72, 66, 55, 42, 30, 20, 13, 8, 4, 2];
    let whole: u64 = WEIGHTS.iter().sum();
    let mut distribution = Distribution::default();
    for (step, weight) in (-7_i32..).zip(WEIGHTS) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small positive values"
        )]
        let value = (middle as f64 * factor.powi(step)).round() as u64;
        distribution.record_n(value, times * weight / whole);
    }
    distribution
}

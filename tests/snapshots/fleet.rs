//! Snapshots as a proxy before a busy application writes them: 200 statements on 60 tables, 600 requests a second, with
//! every sketch that grows with traffic. Shared with the benchmark.

use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::TableName};
use cqlens_rules::testing::{read, write};
use cqlens_window::{Cluster, NodeLoad, Pattern, PatternId, Snapshot, TableTraffic, Window, WrittenRow};
use jiff::{SignedDuration, Timestamp};

const TABLES: u64 = 60;
const PATTERNS: u64 = 200;
/// Requests of the busiest statement in a minute; the n-th has an n-th of them.
const BUSIEST: u64 = 6_000;
/// Values that are drawn for one distribution of a minute at most, and an eighth of those of a longer window.
const MOST_DRAWN: u64 = 200;
const CLIENTS: u64 = 12;
const NODES: u64 = 12;

/// A window of `source` that begins so many minutes after midnight of 2026-01-01 and was watched for so many.
pub(crate) fn snapshot(source: &str, minute: i64, minutes: u64) -> Snapshot {
    snapshot_of(PATTERNS, source, minute, minutes)
}

/// The same with another number of statements.
pub(crate) fn snapshot_of(patterns: u64, source: &str, minute: i64, minutes: u64) -> Snapshot {
    let start = Timestamp::from_second(1_767_225_600 + minute * 60).expect("it is in this century");
    let seed = source
        .bytes()
        .fold(minute.unsigned_abs(), |seed, byte| seed * 31 + u64::from(byte));
    let mut traffic = Traffic {
        random: Random(seed),
        minutes,
        at: start,
    };
    let mut window = Window::new(start, source);
    for number in 0..patterns {
        let pattern = traffic.pattern(number);
        window.coverage.requests += pattern.count;
        window.patterns.insert(PatternId(mixed(number)), pattern);
    }
    window.coverage.audited = window.coverage.requests;
    window.coverage.partitions_exact = window.coverage.requests;
    for number in 0..TABLES {
        window.tables.insert(table_name(number), traffic.table(number));
    }
    for client in 0..CLIENTS {
        window.count_client(&client_name(client), window.coverage.requests / CLIENTS);
    }
    traffic.load(&mut window);
    window.close(start + SignedDuration::from_mins(i64::try_from(minutes).expect("few")));
    let cluster = Cluster {
        name: Some("production".to_owned()),
        release_version: Some("4.1.7".to_owned()),
        nodes: Some(12),
        ..Cluster::default()
    };
    Snapshot::new(window, cluster, schema(), "1f9b3c70d4a2e586".to_owned())
}

struct Traffic {
    random: Random,
    minutes: u64,
    at: Timestamp,
}

impl Traffic {
    fn pattern(&mut self, number: u64) -> Pattern {
        let times = (BUSIEST * self.minutes / (number + 1)).max(1);
        let table = table_name(number % TABLES).table;
        let mut pattern = match number % 3 {
            0 => {
                let cql = format!(
                    "INSERT INTO shop.{table} (customer_id, day, item_id, title_{number}, price, state) VALUES (?, ?, ?, ?, ?, ?)"
                );
                write(&cql, StatementKind::Insert, &[], times)
            }
            _ => {
                let cql = format!(
                    "SELECT item_id, title_{number}, price, state FROM shop.{table} WHERE customer_id = ? AND day = ? LIMIT ?"
                );
                read(&cql, &[], PartitionClass::Single, times)
            }
        };
        let draws = times.min(MOST_DRAWN * self.minutes.min(8));
        for _ in 0..draws {
            let each = times / draws;
            pattern.latency_us.record_n(self.random.around(900), each);
            if pattern.head.kind.is_read() {
                pattern.rows.record_n(self.random.around(8), each);
                pattern.response_bytes.record_n(self.random.around(1_500), each);
                pattern.request_bytes.record_n(90 + self.random.below(3), each);
            } else {
                pattern.request_bytes.record_n(self.random.around(200), each);
                pattern.response_bytes.record_n(13, each);
            }
        }
        let clients = (0..CLIENTS).map(|client| (client_name(client), times / CLIENTS + 1));
        pattern.clients = clients.collect();
        pattern.consistency = [("LOCAL_QUORUM".to_owned(), times)].into();
        pattern.seen = Some((self.at, self.at + SignedDuration::from_secs(59)));
        pattern
    }

    /// A third of the tables get rows, and several in a partition.
    fn table(&mut self, number: u64) -> TableTraffic {
        let times = (BUSIEST * self.minutes / (number + 1)).max(1);
        let mut table = TableTraffic {
            known: true,
            reads: times,
            ..TableTraffic::default()
        };
        table.partitions_per_read.record_n(1, times);
        for _ in 0..times.min(20 * MOST_DRAWN) {
            // Few partitions have most of the requests, and there are ever new ones.
            let partition = mixed(self.random.around(20_000) ^ (number << 40));
            table.distinct_partitions.insert(partition);
            table.top_partitions.read(partition);
            table
                .weights
                .read(partition, self.random.around(8), self.random.around(1_500));
            if number.is_multiple_of(3) {
                let row = mixed(self.random.next());
                table.writes += 1;
                table.inserted.inserts += 1;
                table.inserted.rows.insert(row);
                table.inserted.contents.insert(mixed(row));
                let bytes = u32::try_from(self.random.around(200)).unwrap_or(u32::MAX);
                let at = self.at.as_microsecond() + i64::try_from(self.random.below(59_000_000)).unwrap_or(0);
                table
                    .inserted
                    .sample
                    .insert(row, WrittenRow { partition, bytes, at });
            }
        }
        table
    }

    fn load(&mut self, window: &mut Window) {
        let requests = window.coverage.requests;
        for node in 0..NODES {
            let load = NodeLoad {
                address: Some(format!("10.0.0.{node}")),
                data_center: Some("dc1".to_owned()),
                rack: Some(format!("rack{}", node % 3)),
                coordinated: requests / NODES + self.random.below(100),
                reads: requests / NODES + self.random.below(100),
                writes: requests / NODES / 3 + self.random.below(100),
                ..NodeLoad::default()
            };
            window.load.nodes.insert(format!("{:032x}", mixed(node)), load);
        }
        for request in 0..requests.min(20 * MOST_DRAWN) {
            let token = self.random.next().cast_signed();
            window.load.ring.count(!request.is_multiple_of(3), token);
        }
    }
}

fn client_name(number: u64) -> String {
    format!("checkout 4.{number}.1 (DataStax Java driver for Apache Cassandra(R) 4.17.0) 10.1.2.{number}")
}

fn table_name(number: u64) -> TableName {
    TableName {
        keyspace: "shop".to_owned(),
        table: format!("items_by_customer_and_day_{number}"),
    }
}

fn schema() -> String {
    let mut schema =
        "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'};\n"
            .to_owned();
    for number in 0..TABLES {
        let name = table_name(number).table;
        let columns = "customer_id uuid, day date, item_id timeuuid, title text, price decimal, state text, tags set<text>, note text";
        schema += &format!(
            "CREATE TABLE shop.{name} ({columns}, PRIMARY KEY ((customer_id, day), item_id)) WITH gc_grace_seconds = 864000 AND \
             compaction = {{'class': 'LeveledCompactionStrategy'}};\n"
        );
    }
    schema
}

/// The same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Around a middle, with a long tail: a number in eight is above three times as much, as latencies are.
    pub(crate) fn around(&mut self, middle: u64) -> u64 {
        let uniform = (self.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
        let value = middle as f64 * (0.2 - 1.4 * uniform.ln());
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is small and above zero"
        )]
        let value = value as u64;
        value
    }
}

/// A hash, as those of partitions are (SplitMix64).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

//! Snapshots as a proxy before the services of a shop writes them: 60 statements on 25 tables by eight applications of three
//! instances each, 250 requests a second, audited from the bytes that pass. Keys are as popular as words are (Zipf).

use std::sync::Arc;

use cqlens_audit::{
    audit::{Audit, HashKey, Options, SourceLimit},
    catalog::{self, Live, Node},
};
use cqlens_capture::{Connection, ConnectionId, Moment, ReplayQueue, ReplayTap};
use cqlens_cql::schema::Schema;
use cqlens_proto::envelope::Direction;
use cqlens_testing::everything;
use cqlens_window::{Cluster, Snapshot};
use jiff::{SignedDuration, Timestamp};

use crate::snapshots::{
    fleet::{Random, mixed},
    wire::{self, Cell},
};

/// 2026-01-01, in nanoseconds.
const START: i64 = 1_767_225_600_000_000_000;
const MILLISECOND: i64 = 1_000_000;
const MINUTE: i64 = 60_000 * MILLISECOND;

/// Each is a table with rows by id.
const ENTITIES: [&str; 10] = [
    "customers",
    "products",
    "carts",
    "orders",
    "payments",
    "shipments",
    "sessions",
    "addresses",
    "vouchers",
    "suppliers",
];

/// Each is a table with the rows of an owner, in the order of time; of a few of them, rows are looked up by their ids then.
const LISTS: [&str; 15] = [
    "orders_by_customer",
    "products_by_category",
    "vouchers_by_customer",
    "addresses_by_customer",
    "products_by_supplier",
    "items_by_order",
    "reviews_by_product",
    "prices_by_product",
    "stock_by_warehouse",
    "events_by_order",
    "payments_by_customer",
    "shipments_by_carrier",
    "messages_by_customer",
    "visits_by_session",
    "returns_by_warehouse",
];
const FOLLOWED: usize = 5;

const APPLICATIONS: [&str; 8] = [
    "storefront",
    "checkout",
    "catalogue",
    "fulfilment",
    "accounts",
    "notifications",
    "backoffice",
    "reporting",
];
const INSTANCES: usize = 3;

fn requests_a_minute() -> u64 {
    if everything() { 15_000 } else { 3_000 }
}

/// Partitions of each table.
const KEYS: u64 = 100_000;

/// What a statement does, and to which table.
#[derive(Clone, Copy)]
enum What {
    Read(usize),
    Create(usize),
    Update(usize),
    List(usize),
    Append(usize),
}

/// A proxy, minute after minute.
pub(crate) struct Shop {
    audit: Audit,
    queue: Arc<ReplayQueue>,
    taps: Vec<[ReplayTap; 2]>,
    schema: String,
    statements: Vec<(What, String)>,
    random: Random,
    now: i64,
}

/// Something that passes: when, on which connection, which way.
struct Event(i64, usize, Direction, bytes::Bytes);

impl Shop {
    pub(crate) fn open() -> Self {
        let schema = schema();
        let live = Arc::new(Live::with_schema(Schema::from_cql(&schema).unwrap()));
        live.replace_cluster(ring());
        let queue = Arc::new(ReplayQueue::new(64 << 20));
        let key: HashKey = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let options = Options {
            sources: SourceLimit::ALL,
            ..Options::default()
        };
        let audit =
            Audit::start_with(Arc::clone(&queue), &live, key, "proxy-a", at(START), &options).unwrap();
        let mut shop = Self {
            audit,
            queue,
            taps: Vec::new(),
            schema,
            statements: statements(),
            random: Random(7),
            now: START,
        };
        (0..APPLICATIONS.len() * INSTANCES).for_each(|instance| shop.connect(instance));
        shop
    }

    /// A connection has all statements prepared first.
    fn connect(&mut self, instance: usize) {
        let (application, number) = (instance / INSTANCES, instance % INSTANCES);
        let address = format!("10.1.{application}.{}:40000", number + 10);
        let id = ConnectionId(instance as u64);
        let connection = Arc::new(Connection::new(id, address.parse().unwrap()));
        connection.reaches(format!("10.9.0.{}:9042", instance % 6 + 1).parse().unwrap());
        let taps = [Direction::Request, Direction::Response]
            .map(|direction| ReplayTap::new(Arc::clone(&connection), direction, Arc::clone(&self.queue)));
        self.taps.push(taps);
        let mut pairs = vec![wire::startup(APPLICATIONS[application])];
        let prepared = (0_u16..).zip(&self.statements);
        pairs.extend(prepared.map(|(id, (_, cql))| wire::prepare(id, cql)));
        for (request, response) in pairs {
            self.now += MILLISECOND / 100;
            self.pass(Event(self.now, instance, Direction::Request, request));
            self.pass(Event(self.now, instance, Direction::Response, response));
        }
    }

    fn pass(&mut self, Event(at, connection, direction, bytes): Event) {
        let tap = &mut self.taps[connection][usize::from(direction == Direction::Response)];
        tap.offer(bytes, Moment::from_unix_nanoseconds(at)).unwrap();
    }

    /// The next minute.
    pub(crate) fn minute(&mut self) -> Snapshot {
        let begin = self.now;
        let mut events = Vec::new();
        for number in 0..requests_a_minute() {
            let at = begin + MINUTE / requests_a_minute().cast_signed() * number.cast_signed();
            self.request(at, &mut events);
        }
        events.sort_by_key(|event| event.0);
        events.into_iter().for_each(|event| self.pass(event));
        self.queue.wait_until_empty();
        self.now = begin + MINUTE;
        let window = self.audit.take_window(at(self.now));
        assert_eq!((window.coverage.undecoded, window.coverage.dropped), (0, 0));
        let cluster = Cluster {
            name: Some("production".to_owned()),
            release_version: Some("4.1.7".to_owned()),
            nodes: Some(6),
            ..Cluster::default()
        };
        Snapshot::new(
            window,
            cluster,
            self.schema.clone(),
            "1f9b3c70d4a2e586".to_owned(),
        )
    }

    /// The busiest statement is sent twice as often as the second, and so on; two applications send each.
    fn request(&mut self, at: i64, events: &mut Vec<Event>) {
        let statement = usize::try_from(popular(&mut self.random, 60)).unwrap();
        let application = match self.random.below(3) {
            0 => (statement * 3 + 1) % APPLICATIONS.len(),
            _ => statement % APPLICATIONS.len(),
        };
        let instance = application * INSTANCES + usize::try_from(self.random.below(3)).unwrap();
        let owner = popular(&mut self.random, KEYS);
        let answered = self.send((statement, owner), (at, instance), events);
        let What::List(list) = self.statements[statement].0 else {
            return;
        };
        if list < FOLLOWED && self.random.below(3) == 0 {
            // What is in the list is looked up one by one.
            let read = (0..self.statements.len())
                .find(|other| matches!(self.statements[*other].0, What::Read(entity) if entity == list));
            let mut at = answered;
            for number in 0..3 {
                at += MILLISECOND / 5;
                at = self.send((read.unwrap(), listed(owner, number)), (at, instance), events);
            }
        }
    }

    /// Sends a statement about the entity or the owner `key`; when the answer comes.
    fn send(
        &mut self,
        (statement, key): (usize, u64),
        (at, instance): (i64, usize),
        events: &mut Vec<Event>,
    ) -> i64 {
        let random = &mut self.random;
        let slow = if random.below(100) == 0 { 20_000 } else { 500 };
        let answered = at + (300 + random.around(slow)).cast_signed() * 1_000;
        let text =
            |random: &mut Random, most: u64| vec![b'x'; usize::try_from(4 + random.below(most)).unwrap()];
        let time = (at / MILLISECOND).to_be_bytes().to_vec();
        let what = self.statements[statement].0;
        let values: Vec<Cell> = match what {
            What::Read(table) => vec![id(table, key)],
            What::Create(table) => {
                let new = KEYS + random.below(1 << 40);
                vec![
                    id(table, new),
                    text(random, 20),
                    text(random, 8),
                    text(random, 200),
                    time,
                ]
            }
            What::Update(table) => vec![text(random, 8), time, id(table, key)],
            What::List(table) => vec![id(table, key), 20_i32.to_be_bytes().to_vec()],
            What::Append(table) => {
                let new = random.below(1 << 40);
                vec![
                    id(table, key),
                    time,
                    id(table, new),
                    text(random, 60),
                    new.to_be_bytes().to_vec(),
                ]
            }
        };
        let rows: Option<(&[&str], Vec<Vec<Cell>>)> = match what {
            What::Read(_) => {
                let row = vec![text(random, 20), text(random, 8), time_of(key)];
                Some((&["name", "state", "updated"], vec![row]))
            }
            What::List(table) => {
                let rows = 3 + random.around(5).min(17);
                let row = |number| {
                    vec![
                        time_of(number),
                        id(table, listed(key, number)),
                        text(random, 60),
                        time_of(number),
                    ]
                };
                Some((&["at", "id", "title", "amount"], (0..rows).map(row).collect()))
            }
            What::Create(_) | What::Update(_) | What::Append(_) => None,
        };
        let stream = i16::try_from(1 + events.len() % 30_000).unwrap();
        let request = wire::execute(stream, u16::try_from(statement).unwrap(), &values);
        let response = match rows {
            Some((columns, rows)) => wire::rows(stream, table_of(what), columns, &rows),
            None => wire::void(stream),
        };
        events.push(Event(at, instance, Direction::Request, request));
        events.push(Event(answered, instance, Direction::Response, response));
        answered
    }
}

/// Below `bound`, the lower ones more often: as words are, by Zipf's law.
fn popular(random: &mut Random, bound: u64) -> u64 {
    let uniform = random.below(1 << 52) as f64 / (1_u64 << 52) as f64;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is small and above zero"
    )]
    let value = ((bound + 1) as f64).powf(uniform) as u64;
    (value - 1).min(bound - 1)
}

/// The entity that a row of a list is about.
fn listed(owner: u64, number: u64) -> u64 {
    mixed(owner * 20 + number) % KEYS
}

/// A UUID.
fn id(table: usize, key: u64) -> Cell {
    let table = table as u64;
    [mixed(key), mixed(key ^ (table << 48))]
        .iter()
        .flat_map(|half| half.to_be_bytes())
        .collect()
}

fn time_of(number: u64) -> Cell {
    (START / MILLISECOND - number.cast_signed())
        .to_be_bytes()
        .to_vec()
}

fn at(nanoseconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_nanos(nanoseconds)
}

fn table_of(what: What) -> &'static str {
    match what {
        What::Read(table) | What::Create(table) | What::Update(table) => ENTITIES[table],
        What::List(table) | What::Append(table) => LISTS[table],
    }
}

fn schema() -> String {
    let mut schema =
        "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'};\n"
            .to_owned();
    for table in ENTITIES {
        schema += &format!(
            "CREATE TABLE shop.{table} (id uuid PRIMARY KEY, name text, state text, note text, updated timestamp);\n"
        );
    }
    for table in LISTS {
        schema += &format!(
            "CREATE TABLE shop.{table} (owner uuid, at timestamp, id uuid, title text, amount bigint, PRIMARY KEY (owner, at, id)) \
             WITH CLUSTERING ORDER BY (at DESC, id ASC);\n"
        );
    }
    schema
}

/// Reads and writes of each table, in turns: the first ones are sent most.
fn statements() -> Vec<(What, String)> {
    let mut statements = Vec::new();
    for (number, table) in LISTS.iter().enumerate() {
        statements.push((
            What::List(number),
            format!("SELECT at, id, title, amount FROM shop.{table} WHERE owner = ? LIMIT ?"),
        ));
        if let Some(table) = ENTITIES.get(number) {
            statements.extend([
                (
                    What::Read(number),
                    format!("SELECT name, state, updated FROM shop.{table} WHERE id = ?"),
                ),
                (
                    What::Create(number),
                    format!(
                        "INSERT INTO shop.{table} (id, name, state, note, updated) VALUES (?, ?, ?, ?, ?)"
                    ),
                ),
                (
                    What::Update(number),
                    format!("UPDATE shop.{table} SET state = ?, updated = ? WHERE id = ?"),
                ),
            ]);
        }
        statements.push((
            What::Append(number),
            format!("INSERT INTO shop.{table} (owner, at, id, title, amount) VALUES (?, ?, ?, ?, ?)"),
        ));
    }
    statements
}

fn ring() -> catalog::ClusterState {
    let node = |number: u8| Node {
        host_id: Some(format!("{:032x}", mixed(number.into()))),
        address: Some(format!("10.9.0.{number}")),
        port: Some(9_042),
        data_center: Some("dc1".to_owned()),
        rack: Some(format!("rack{}", number % 3)),
        tokens: (0..16)
            .map(|token| mixed(u64::from(number) * 16 + token).cast_signed())
            .collect(),
        ..Node::default()
    };
    catalog::ClusterState {
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: (1..=6).map(node).collect(),
        ..catalog::ClusterState::default()
    }
}

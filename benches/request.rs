//! What does one request cost the audit, step by step? Nanoseconds for each step, on one thread.
//!
//! `cut` is all that the data path does; the other steps happen in the auditor's thread.

use std::{collections::HashMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use cqlens_audit::{
    audit::{Ending, HashKey, RepeatedColumns, RequestKey, RetryDetector, Tables},
    catalog::{ClusterState, Node, Replication, Ring},
};
use cqlens_capture::Moment;
use cqlens_cql::syntax::{self, Template, Templates, TextShape, Work};
use cqlens_cql::{cells::Cells, footprint::Keys, murmur3, plan::Plan, schema::Schema};
use cqlens_proto::{
    cutter::{Cutter, Negotiated},
    envelope::{Direction, Envelope, StreamId, Version},
    message::{
        Consistency, Dialect, Execute, Extensions, Extras, PreparedId, QueryParameters, Request, Value,
        Values, ValuesBuf,
    },
    stream::EnvelopeStream,
};
use cqlens_window::{PatternId, RingLoad, Window};
use divan::{Bencher, black_box, counter::ItemsCount};

fn main() {
    divan::main();
}

/// Requests of one read of a busy connection.
const DEPTH: usize = 32;

const READ: &str = "SELECT user_id, name, email FROM shop.users WHERE user_id = ?";

/// 200 bytes of statement with literals.
const LITERALS: &str = "SELECT order_id, booked, amount, currency, customer, note FROM shop.orders_by_customer \
     WHERE customer = 'customer-0000000001234567' AND booked >= '2026-11-21 00:00:00+0000' AND amount > 100 LIMIT 50";

const USERS: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
     CREATE TABLE shop.users (user_id bigint PRIMARY KEY, name text, email text);";

fn schema() -> Schema {
    Schema::from_cql(USERS).expect("the schema is CQL")
}

/// An EXECUTE of one bound value.
fn execute() -> Envelope {
    execute_with(42)
}

fn execute_with(user_id: i64) -> Envelope {
    let values = ValuesBuf::positional([Value::Bytes(&user_id.to_be_bytes())]).expect("one value fits");
    let parameters = QueryParameters {
        values: values.values(),
        ..QueryParameters::new(Consistency::LocalQuorum)
    };
    Request::Execute(Execute {
        id: PreparedId(&[7; 16]),
        result_metadata_id: None,
        parameters,
    })
    .to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default())
    .expect("the request fits")
}

fn chunk() -> Bytes {
    let mut bytes = BytesMut::new();
    for _ in 0..DEPTH {
        execute().encode(&mut bytes).expect("the body is short");
    }
    bytes.freeze()
}

/// The data path: find the envelopes in a chunk of 32 requests.
#[divan::bench]
fn cut(bencher: Bencher<'_, '_>) {
    let chunk = chunk();
    let mut cutter = Cutter::new(Direction::Request, Arc::new(Negotiated::new()));
    bencher
        .counter(ItemsCount::new(DEPTH))
        .bench_local(|| cutter.cut(black_box(&chunk)));
}

/// The auditor: take the envelopes out of a chunk of 32 requests.
#[divan::bench]
fn join(bencher: Bencher<'_, '_>) {
    let chunk = chunk();
    let mut stream = EnvelopeStream::new(Direction::Request, Arc::new(Negotiated::new()));
    bencher.counter(ItemsCount::new(DEPTH)).bench_local(|| {
        stream.feed(chunk.clone());
        while let Some(item) = stream.next_item() {
            black_box(item);
        }
    });
}

/// Decode an EXECUTE of a prepared point read.
#[divan::bench]
fn decode_execute(bencher: Bencher<'_, '_>) {
    let envelope = execute();
    bencher.bench_local(|| Request::decode_message(black_box(&envelope), Extensions::NONE).is_ok());
}

/// From the values of an EXECUTE to its footprint: which partition, and its token.
#[divan::bench]
fn footprint(bencher: Bencher<'_, '_>) {
    let plan = Plan::of(&syntax::parse(READ).expect("it is CQL"), None, &schema());
    let envelope = execute();
    let request = Request::decode(&envelope, Extensions::NONE)
        .expect("it was encoded")
        .message;
    let Request::Execute(execute) = request else {
        return;
    };
    let mut keys = Keys::new();
    bencher.bench_local(|| plan.footprint(black_box(&execute.parameters.values), &mut keys));
}

/// What rules on rows and on indexes need of one execution: `read` a table by its key, `insert` three columns
/// of a row each time another, `indexed` the same with an index on one of them.
#[divan::bench(args = ["read", "insert", "indexed"])]
fn cells(bencher: Bencher<'_, '_>, statement: &str) {
    let index = if statement == "indexed" {
        "CREATE INDEX ON shop.users (email);"
    } else {
        ""
    };
    let schema = Schema::from_cql(&format!("{USERS}{index}")).expect("the schema is CQL");
    let text = if statement == "read" {
        READ
    } else {
        "INSERT INTO shop.users (user_id, name, email) VALUES (?, ?, ?)"
    };
    let plan = Plan::of(&syntax::parse(text).expect("it is CQL"), None, &schema);
    let at = Moment::from_unix_nanoseconds(0);
    let mut window = Window::new(at.timestamp(), "bench");
    let mut cells = Cells::new(HashKey::random().hasher());
    let mut tables = Tables::default();
    let mut repeated = RepeatedColumns::default();
    let mut number = 0_u64;
    bencher
        .with_inputs(|| {
            number += 1;
            let id = number.to_be_bytes();
            let text = format!("user-{number}@example.org");
            let text = Value::Bytes(text.as_bytes());
            ValuesBuf::positional([Value::Bytes(&id), text, text]).expect("three values fit")
        })
        .bench_local_refs(|values| {
            cells.clear();
            plan.note_cells(black_box(&values.values()), &mut cells);
            cqlens_audit::audit::cells::count(&cells, at, &mut window, &mut tables, &mut repeated);
        });
}

/// Recognise a request that comes again: hash what an EXECUTE asks for, and compare it with the latest of its
/// like. 32 requests, each another read than those before it, so that its place is rarely in a cache.
#[divan::bench(sample_size = 100)]
fn repeat(bencher: Bencher<'_, '_>) {
    let (key, mut repeats) = (HashKey::random(), RetryDetector::default());
    let envelopes: Vec<_> = (0..DEPTH).map(|number| execute_with(number as i64)).collect();
    let requests: Vec<_> = envelopes
        .iter()
        .map(|envelope| {
            Request::decode(envelope, Extensions::NONE)
                .expect("it was encoded")
                .message
        })
        .collect();
    let mut nanoseconds = 1_700_000_000_000_000_000;
    // Another host each time makes other requests of the same bytes.
    let mut host = 0_u64;
    bencher.counter(ItemsCount::new(DEPTH)).bench_local(|| {
        host = host.wrapping_add(0x9e37_79b9_7f4a_7c15);
        for request in &requests {
            nanoseconds += 10_000;
            let at = Moment::from_unix_nanoseconds(nanoseconds);
            if let Some(identity) = RequestKey::of(key, PatternId(7), black_box(request)) {
                black_box(repeats.note(identity, host, at, Ending::Answered(at)));
            }
        }
    });
}

/// Which nodes hold a partition, and which part of the ring it is in: 32 partitions anywhere on a ring of so
/// many nodes with 16 tokens each. Their tokens are part of [`footprint`].
#[divan::bench(args = [3, 12, 100, 1_000])]
fn replicas(bencher: Bencher<'_, '_>, nodes: u64) {
    let placement = ring(nodes)
        .place(&Replication::Simple(3), usize::MAX)
        .expect("the replication is known");
    let mut load = RingLoad::default();
    let mut at = 0;
    bencher.counter(ItemsCount::new(DEPTH)).bench_local(|| {
        for _ in 0..DEPTH {
            at += 1;
            let token = token(at);
            load.count(true, token);
            black_box(placement.replicas(black_box(token)));
        }
    });
}

fn ring(nodes: u64) -> Ring {
    let nodes = (0..nodes).map(|node| Node {
        tokens: (0..16).map(|number| token(node * 16 + number)).collect(),
        ..Node::default()
    });
    let cluster = ClusterState {
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: nodes.collect(),
        ..ClusterState::default()
    };
    Ring::of(&cluster).expect("the nodes have tokens")
}

/// Tokens in no order.
fn token(number: u64) -> i64 {
    murmur3::token(&number.to_be_bytes())
}

/// Parse a statement of 200 bytes with literals and take them out: what an unprepared statement costs each
/// time.
#[divan::bench]
fn parse_and_fingerprint(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        let statement = syntax::parse(black_box(LITERALS)).expect("it is CQL");
        Template::of(&statement, None).fingerprint
    });
}

/// A statement of 180 bytes with literals, on the table of [`ORDERS`].
const ONE_CUSTOMER: &str = "SELECT order_id, booked, amount, currency, customer, note FROM shop.orders_by_customer \
     WHERE customer = 'customer-0000000001234567' AND booked >= '2026-11-21 00:00:00+0000' LIMIT 50";

const ORDERS: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
     CREATE TABLE shop.orders_by_customer (customer text, booked timestamp, order_id uuid, amount int, currency text,
         note text, PRIMARY KEY (customer, booked));";

/// From a text to its partition key, as where no other text has its shape.
#[divan::bench]
fn text_by_itself(bencher: Bencher<'_, '_>) {
    let schema = Schema::from_cql(ORDERS).expect("the schema is CQL");
    let mut templates = Templates::default();
    let mut keys = Keys::new();
    bencher.bench_local(|| {
        keys.clear();
        let text = black_box(ONE_CUSTOMER);
        let work = Work::of_text(text);
        let statement = syntax::parse_within(text, &work).expect("it is CQL");
        let plan = Plan::of_within(&statement, None, &schema, &work);
        let footprint = plan.footprint(&Values::NONE, &mut keys);
        assert_eq!(keys.len(), 1);
        (templates.template(&statement, None, &work), footprint)
    });
}

/// The same where another text of its shape was planned before.
#[divan::bench]
fn text_of_a_shape(bencher: Bencher<'_, '_>) {
    let schema = Schema::from_cql(ORDERS).expect("the schema is CQL");
    let shape_of = |text| TextShape::of(text, &syntax::tokens(text).expect("it is CQL"), None);
    let statement = syntax::parse(ONE_CUSTOMER).expect("it is CQL");
    let constants = shape_of(ONE_CUSTOMER).constants;
    let work = Work::of_text(ONE_CUSTOMER);
    let planned = Plan::of_constants(&statement, None, &schema, &work, &constants)
        .expect("it has constants of its own");
    let shapes = HashMap::from([(shape_of(ONE_CUSTOMER).key, planned)]);
    let mut keys = Keys::new();
    bencher.bench_local(|| {
        keys.clear();
        let shape = shape_of(black_box(ONE_CUSTOMER));
        let (plan, types) = &shapes[&shape.key];
        let values = types.values(&shape.constants).expect("they are of these types");
        let footprint = plan.footprint(&values.values(), &mut keys);
        assert_eq!(keys.len(), 1);
        footprint
    });
}

/// Plan a statement under a schema: once for each prepared statement and version of the schema.
#[divan::bench]
fn plan(bencher: Bencher<'_, '_>) {
    let schema = schema();
    let statement = syntax::parse(READ).expect("it is CQL");
    bencher.bench_local(|| Plan::of(black_box(&statement), None, &schema));
}

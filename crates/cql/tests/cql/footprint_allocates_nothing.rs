//! From the envelope of an EXECUTE to its footprint, nothing allocates memory.
use cqlens_cql::footprint::{Count, Keys};
use cqlens_cql::plan::Plan;
use cqlens_cql::schema::Schema;
use cqlens_cql::syntax;
use cqlens_proto::envelope::{Envelope, StreamId, Version};
use cqlens_proto::message::{
    Consistency, Dialect, Execute, Extensions, Extras, PreparedId, QueryParameters, Request, Value, ValuesBuf,
};

const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};
    CREATE TABLE shop.kv (k uuid PRIMARY KEY, v int);
    CREATE TABLE shop.orders (shop text, day date, at timestamp, PRIMARY KEY ((shop, day), at));";

fn execute(values: &[Value<'_>]) -> Envelope {
    let bound = ValuesBuf::positional(values.iter().copied()).unwrap();
    let execute = Request::Execute(Execute {
        id: PreparedId(&[7; 16]),
        result_metadata_id: None,
        parameters: QueryParameters {
            values: bound.values(),
            page_size: Some(5_000),
            timestamp: Some(1_700_000_000_000_000),
            ..QueryParameters::new(Consistency::LocalQuorum)
        },
    });
    execute
        .to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default())
        .unwrap()
}

fn allocations_of_an_execution(text: &str, values: &[Value<'_>]) -> u64 {
    let schema = Schema::from_cql(SCHEMA).unwrap();
    let plan = Plan::of(&syntax::parse(text).unwrap(), Some("shop"), &schema);
    let envelope = execute(values);
    let mut keys = Keys::new();
    let mut count = || {
        keys.clear();
        match Request::decode(&envelope, Extensions::NONE).unwrap().message {
            Request::Execute(execute) => plan.footprint(&execute.parameters.values, &mut keys).count,
            other => panic!("{other:?}"),
        }
    };
    // The buffer grows with its first use.
    count();
    let measured = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            assert_eq!(count(), Count::Exact(1));
        }
    });
    measured.count_total
}

#[test]
fn an_execution_on_one_partition_allocates_nothing() {
    let uuid = Value::Bytes(&[7; 16]);
    let (shop, day, at) = (
        Value::Bytes(b"a shop"),
        Value::Bytes(&[0x80, 0, 0, 1]),
        Value::Bytes(&[0; 8]),
    );
    for (text, values) in [
        ("SELECT v FROM kv WHERE k = ?", &[uuid][..]),
        ("UPDATE kv SET v = ? WHERE k = ?", &[day, uuid]),
        (
            "SELECT * FROM orders WHERE shop = ? AND day = ? AND at > ? LIMIT 10",
            &[shop, day, at],
        ),
        (
            "INSERT INTO orders (at, day, shop) VALUES (?, ?, ?)",
            &[at, day, shop],
        ),
    ] {
        assert_eq!(allocations_of_an_execution(text, values), 0, "{text}");
    }
}

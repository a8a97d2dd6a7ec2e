//! What becomes of requests on the wire, in every version and compressed: bytes in, recorded exchanges out.

use crate::wire::Wire;
use cqlens_proto::{
    compress::Compression,
    envelope::Version,
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Execute, PagingState, PreparedId, Query,
        QueryParameters, Request, ResultMetadataId, SerialConsistency, Value, ValuesBuf,
    },
};
use cqlens_rehearse::{
    digest::ResponseDigest,
    exchange::{Effect, Page, RecordedExchange, ValueContent},
    left_out::LeftOut,
};

const INSERT: &str = "INSERT INTO t (k, v) VALUES (?, ?)";

fn all(check: impl Fn(Version, Compression)) {
    for (version, compression) in [
        (Version::V3, Compression::None),
        (Version::V4, Compression::None),
        (Version::V4, Compression::Lz4),
        (Version::V4, Compression::Snappy),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ] {
        check(version, compression);
    }
}

fn query<'a>(cql: &'a str, parameters: QueryParameters<'a>) -> Request<'a> {
    Request::Query(Query {
        query: cql,
        parameters,
    })
}

fn texts(exchange: &RecordedExchange) -> Vec<&str> {
    let statements = exchange.request.statements.iter();
    statements.map(|statement| &*statement.cql).collect()
}

fn contents(exchange: &RecordedExchange, statement: usize) -> Vec<&ValueContent> {
    let values = exchange.request.statements[statement].values.iter();
    values.map(|value| &value.content).collect()
}

fn bytes(of: &'static [u8]) -> ValueContent {
    ValueContent::Bytes(of.into())
}

#[test]
fn a_query_has_its_text_values_keyspace_and_options() {
    all(|version, compression| {
        let mut wire = Wire::new(version, compression);
        wire.use_keyspace("s");
        let values = match version {
            Version::V3 => ValuesBuf::positional([Value::Bytes(b"one"), Value::Null]),
            _ => ValuesBuf::positional([Value::Bytes(b"one"), Value::NotSet]),
        };
        let values = values.unwrap();
        wire.ask(query(
            INSERT,
            QueryParameters {
                values: values.values(),
                page_size: Some(100),
                serial_consistency: Some(SerialConsistency(Consistency::LocalSerial)),
                timestamp: Some(7),
                now_in_seconds: (version == Version::V5).then_some(9),
                ..QueryParameters::new(Consistency::LocalQuorum)
            },
        ));
        wire.void();
        let (exchanges, _) = wire.stop();
        let [exchange] = &*exchanges else {
            panic!("{exchanges:?}")
        };
        let request = &exchange.request;
        assert_eq!(texts(exchange), [INSERT]);
        assert!(!request.statements[0].is_prepared);
        let second = match version {
            Version::V3 => ValueContent::Null,
            _ => ValueContent::NotSet,
        };
        assert_eq!(contents(exchange, 0), [&bytes(b"one"), &second]);
        assert_eq!(request.keyspace.as_deref(), Some("s"));
        assert_eq!(request.consistency, Consistency::LocalQuorum);
        assert_eq!(
            (request.page_size, request.timestamp, request.page),
            (Some(100), Some(7), Page::First)
        );
        assert_eq!(request.now_in_seconds, (version == Version::V5).then_some(9));
        assert_eq!(request.effect, Effect::Write);
        assert_eq!(request.pattern.as_ref().map(|id| id.len()), Some(16));
        assert_eq!(exchange.response, ResponseDigest::Void);
        assert!(exchange.latency.is_some());
    });
}

#[test]
fn named_values_keep_their_names() {
    all(|version, compression| {
        let mut wire = Wire::new(version, compression);
        let values = ValuesBuf::by_name([("v", Value::Null), ("k", Value::Bytes(b""))]).unwrap();
        wire.ask(query(
            "INSERT INTO s.t (k, v) VALUES (:k, :v)",
            QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::One)
            },
        ));
        wire.void();
        let (exchanges, _) = wire.stop();
        let values = exchanges[0].request.statements[0].values.iter();
        let values: Vec<_> = values
            .map(|value| (value.name.as_deref().unwrap(), value.content.clone()))
            .collect();
        assert_eq!(values, [("v", ValueContent::Null), ("k", bytes(b""))]);
    });
}

fn execute<'a>(version: Version, id: &'a [u8], parameters: QueryParameters<'a>) -> Request<'a> {
    Request::Execute(Execute {
        id: PreparedId(id),
        result_metadata_id: (version == Version::V5).then_some(ResultMetadataId(&[7])),
        parameters,
    })
}

#[test]
fn a_prepared_statement_has_the_text_and_the_keyspace_of_its_prepare() {
    all(|version, compression| {
        let mut wire = Wire::new(version, compression);
        wire.use_keyspace("s");
        wire.prepare(INSERT, b"id");
        wire.use_keyspace("other");
        let values = ValuesBuf::positional([Value::Bytes(b"one"), Value::Bytes(b"two")]).unwrap();
        wire.ask(execute(
            version,
            b"id",
            QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::One)
            },
        ));
        wire.void();
        // Never prepared where the audit could see it.
        wire.ask(execute(version, b"no", QueryParameters::new(Consistency::One)));
        wire.void();
        // The server has forgotten it.
        wire.ask(execute(version, b"id", QueryParameters::new(Consistency::One)));
        wire.unprepared(b"id");
        let (exchanges, left_out) = wire.stop();
        let [exchange] = &*exchanges else {
            panic!("{exchanges:?}")
        };
        assert_eq!(texts(exchange), [INSERT]);
        assert!(exchange.request.statements[0].is_prepared);
        assert_eq!(contents(exchange, 0), [&bytes(b"one"), &bytes(b"two")]);
        assert_eq!(exchange.request.keyspace.as_deref(), Some("s"));
        assert_eq!(left_out[&LeftOut::UnknownPrepared], 1);
        assert_eq!(left_out[&LeftOut::Unprepared], 1);
    });
}

#[test]
fn a_batch_has_its_prepared_and_plain_children_in_order() {
    all(|version, compression| {
        let mut wire = Wire::new(version, compression);
        wire.use_keyspace("s");
        wire.prepare(INSERT, b"id");
        let values = ValuesBuf::positional([Value::Bytes(b"one"), Value::Null]).unwrap();
        let child = |query, values| BatchStatement { query, values };
        let text = "DELETE FROM t WHERE k = 2";
        let mut batch = Batch::new(
            BatchKind::Unlogged,
            vec![
                child(BatchQuery::Prepared(PreparedId(b"id")), values.values()),
                child(BatchQuery::Text(text), Default::default()),
            ],
            Consistency::Quorum,
        );
        batch.timestamp = Some(5);
        wire.ask(Request::Batch(batch));
        wire.void();
        let (exchanges, _) = wire.stop();
        let [exchange] = &*exchanges else {
            panic!("{exchanges:?}")
        };
        assert_eq!(texts(exchange), [INSERT, text]);
        let prepared = exchange.request.statements.iter();
        assert_eq!(
            prepared
                .map(|statement| statement.is_prepared)
                .collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(contents(exchange, 0), [&bytes(b"one"), &ValueContent::Null]);
        assert_eq!(exchange.request.batch, Some(BatchKind::Unlogged));
        assert_eq!(
            (exchange.request.effect, exchange.request.timestamp),
            (Effect::Write, Some(5))
        );
        assert_eq!(exchange.request.keyspace.as_deref(), Some("s"));
    });
}

#[test]
fn a_batch_of_two_keyspaces_is_left_out_unless_its_statements_name_them() {
    let mut wire = Wire::new(Version::V4, Compression::None);
    wire.use_keyspace("s");
    wire.prepare(INSERT, b"s1");
    wire.use_keyspace("other");
    wire.prepare(INSERT, b"o1");
    wire.prepare("INSERT INTO s.t (k, v) VALUES (?, ?)", b"o2");
    for second in [b"o1", b"o2"] {
        let children = [b"s1", second].map(|id| BatchStatement {
            query: BatchQuery::Prepared(PreparedId(id)),
            values: Default::default(),
        });
        let batch = Batch::new(BatchKind::Logged, children.into(), Consistency::One);
        wire.ask(Request::Batch(batch));
        wire.void();
    }
    let (exchanges, left_out) = wire.stop();
    assert_eq!(exchanges.len(), 1);
    assert_eq!(exchanges[0].request.keyspace.as_deref(), Some("s"));
    assert_eq!(left_out[&LeftOut::SeveralKeyspaces], 1);
}

#[test]
fn a_later_page_names_the_exchange_that_gave_its_paging_state() {
    all(|version, compression| {
        let mut wire = Wire::new(version, compression);
        let read = "SELECT v FROM s.t WHERE k = 1";
        let page = |state: Option<&'static [u8]>| QueryParameters {
            page_size: Some(2),
            paging_state: state.map(PagingState),
            ..QueryParameters::new(Consistency::One)
        };
        wire.ask(query(read, page(None)));
        wire.rows(&[b"a", b"b"], Some(b"state 1"));
        wire.ask(query(read, page(Some(b"state 1"))));
        wire.rows(&[b"c", b"d"], Some(b"state 2"));
        wire.ask(query(read, page(Some(b"state 2"))));
        wire.rows(&[b"e"], None);
        wire.ask(query(read, page(Some(b"of long ago"))));
        wire.rows(&[], None);
        let (exchanges, _) = wire.stop();
        let pages = exchanges.iter().map(|exchange| exchange.request.page);
        assert_eq!(
            pages.collect::<Vec<_>>(),
            [Page::First, Page::After(0), Page::After(1), Page::Unknown]
        );
        let ResponseDigest::Rows(first) = &exchanges[0].response else {
            panic!("{exchanges:?}")
        };
        assert_eq!((first.count, first.has_more), (2, true));
        assert!(exchanges.iter().all(|exchange| exchange.request.is_ordered));
    });
}

#[test]
fn effects_are_told_apart_and_what_is_no_traffic_of_applications_is_left_out() {
    let mut wire = Wire::new(Version::V4, Compression::None);
    wire.use_keyspace("s");
    let statements = [
        ("SELECT v FROM t", Effect::Read),
        ("UPDATE t SET v = 'x' WHERE k = 1", Effect::Write),
        ("UPDATE t SET v = 'x' WHERE k = 1 IF EXISTS", Effect::Conditional),
        ("UPDATE counts SET n = n + 1 WHERE k = 1", Effect::Counter),
        // Not in the schema: it may be a counter.
        ("UPDATE unknown SET n = n + 1 WHERE k = 1", Effect::Counter),
        ("UPDATE unknown SET n = 1 WHERE k = 1", Effect::Write),
        (
            "BEGIN BATCH INSERT INTO t (k) VALUES (1) IF NOT EXISTS; APPLY BATCH",
            Effect::Conditional,
        ),
        ("TRUNCATE t", Effect::Definition),
        ("GRANT SELECT ON KEYSPACE s TO someone", Effect::Definition),
    ];
    for (cql, _) in statements {
        wire.ask(query(cql, QueryParameters::new(Consistency::One)));
        wire.void();
    }
    for cql in [
        "CREATE ROLE a WITH PASSWORD = 'secret'",
        "LIST ROLES",
        "SELECT * FROM system.peers",
    ] {
        wire.ask(query(cql, QueryParameters::new(Consistency::One)));
        wire.void();
    }
    wire.ask(Request::Options);
    wire.void();
    let (exchanges, left_out) = wire.stop();
    let effects = exchanges
        .iter()
        .map(|exchange| (texts(exchange)[0], exchange.request.effect));
    assert_eq!(effects.collect::<Vec<_>>(), statements);
    assert_eq!(left_out[&LeftOut::Credentials], 1);
    assert_eq!(left_out[&LeftOut::System], 2);
    assert_eq!(left_out[&LeftOut::Use], 1);
}

#[test]
fn a_request_that_is_too_long_is_counted() {
    let mut wire = Wire::new(Version::V4, Compression::None);
    let long = vec![b'x'; 20 << 20];
    let values = ValuesBuf::positional([Value::Bytes(&long)]).unwrap();
    wire.ask(query(
        "INSERT INTO s.t (k) VALUES (?)",
        QueryParameters {
            values: values.values(),
            ..QueryParameters::new(Consistency::One)
        },
    ));
    wire.void();
    let (exchanges, left_out) = wire.stop();
    assert!(exchanges.is_empty());
    assert_eq!(left_out[&LeftOut::TooLong], 1);
}

//! Tests of what requests and responses carry beside statements and rows: nulls, timestamps, traces, warnings,
//! conditions; and of what a connection begins with.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Dialect, Extras, Query, QueryParameters,
        Request, Response, Startup, Supported, Value, ValuesBuf,
    },
};
use jiff::Timestamp;

use crate::{
    audit::{
        Audit, HashKey, Options,
        testing::{bytes, query_on, result, set_keyspace},
    },
    catalog::Live,
};
use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_cql::schema::Schema;
use cqlens_window::{Connections, Pattern, Warned, Window};

const SCHEMA: &str =
    "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE s.t (k int PRIMARY KEY, v int, w int);
    CREATE TABLE s.tagged (k int PRIMARY KEY, tags set<int>);";

/// A connection that is audited.
struct Observed {
    audit: Audit,
    connection: Arc<Connection>,
    request: Tap,
    response: Tap,
}

impl Observed {
    fn new() -> Self {
        Self::with(&Options::default())
    }

    fn with(options: &Options) -> Self {
        let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let audit = Audit::start_with(
            Arc::clone(&queue),
            &live,
            HashKey::random(),
            "test",
            Timestamp::UNIX_EPOCH,
            options,
        )
        .unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(0), "10.0.0.1:5".parse().unwrap()));
        let tap = |direction| {
            Tap::new(
                Arc::clone(&connection),
                direction,
                Arc::clone(&queue),
                Clock::start(),
            )
        };
        Self {
            audit,
            request: tap(Direction::Request),
            response: tap(Direction::Response),
            connection,
        }
    }

    fn ask(&mut self, request: &Request<'_>, extras: &Extras<'_>) {
        let dialect = Dialect::new(Version::V4);
        let envelope = request.to_envelope(dialect, StreamId(1), extras).unwrap();
        self.request.offer(&bytes(&envelope));
    }

    /// Asks, and is answered with RESULT void.
    fn pass(&mut self, request: &Request<'_>) {
        self.ask(request, &Extras::default());
        self.response.offer(&result(1, &[0, 0, 0, 1]));
    }

    fn stop(self) -> Window {
        self.connection.close(Clock::start().now());
        self.audit.stop(Timestamp::UNIX_EPOCH)
    }

    /// The only pattern of what was asked.
    fn pattern(self) -> Pattern {
        let window = self.stop();
        assert_eq!(window.patterns.len(), 1, "{:?}", window.patterns);
        window.patterns.into_values().next().unwrap()
    }
}

fn query(cql: &str) -> Request<'_> {
    Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(Consistency::One),
    })
}

#[test]
fn a_connection_is_counted_with_its_version_and_compression() {
    let mut observed = Observed::new();
    let startup = |options| Request::Startup(Startup { options });
    observed.ask(&startup(vec![("DRIVER_NAME", "test")]), &Extras::default());
    let ready = Envelope {
        header: Header::response(Version::V4, StreamId(1), Opcode::READY),
        body: Bytes::new(),
    };
    observed.response.offer(&bytes(&ready));
    let expected = Connections {
        opened: 1,
        versions: [(4, 1)].into(),
        uncompressed: 1,
        ..Connections::default()
    };
    assert_eq!(
        observed.stop().connections,
        [("(test) 10.0.0.1".to_owned(), expected)].into()
    );
}

#[test]
fn a_request_that_is_traced_is_counted() {
    let mut observed = Observed::new();
    let traced = Extras {
        tracing: true,
        ..Extras::default()
    };
    observed.ask(&query("SELECT v FROM s.t WHERE k = 1"), &traced);
    observed.response.offer(&result(1, &[0, 0, 0, 1]));
    observed.pass(&query("SELECT v FROM s.t WHERE k = 2"));
    let pattern = observed.pattern();
    assert_eq!((pattern.count, pattern.traced), (2, 1));
}

/// The other pages of DSE's continuous paging have rows as well, and no request of their own.
#[test]
fn rows_of_continuous_pages_are_counted_where_there_is_one_and_else_unknown() {
    let page = |flags: u8, number: u8| {
        let head = [
            [0, 0, 0, 2],
            [flags, 0, 0, 4],
            [0, 0, 0, 1],
            [0, 0, 0, number],
            [0, 0, 0, 2],
        ];
        let cell = [0, 0, 0, 4, 0, 0, 0, 7];
        result(1, &[head.as_flattened(), &cell, &cell].concat())
    };
    let mut observed = Observed::new();
    for pages in [1, 3] {
        observed.ask(&query("SELECT v FROM s.t"), &Extras::default());
        for number in 1..=pages {
            let last = if number == pages { 0x80 } else { 0 };
            observed.response.offer(&page(0x40 | last, number));
        }
    }
    let window = observed.stop();
    assert_eq!(window.coverage.rows_unknown, 1);
    assert_eq!(window.coverage.responses_lost, 0);
    let pattern = window.patterns.into_values().next().unwrap();
    assert_eq!(
        (pattern.count, pattern.rows.count(), pattern.rows.max()),
        (2, 1, 2)
    );
}

#[test]
fn the_code_of_a_rate_limit_is_the_one_that_the_server_announced() {
    let answer = |opcode, body: Vec<u8>| {
        let header = Header::response(Version::V4, StreamId(1), opcode);
        bytes(&Envelope {
            header,
            body: body.into(),
        })
    };
    let mut observed = Observed::new();
    observed.ask(&Request::Options, &Extras::default());
    let supported = Response::Supported(Supported {
        options: vec![("SCYLLA_RATE_LIMIT_ERROR", vec!["ERROR_CODE=4660"])],
    });
    let mut body = BytesMut::new();
    supported.encode(Dialect::new(Version::V4), &mut body).unwrap();
    observed.response.offer(&answer(Opcode::SUPPORTED, body.to_vec()));
    let startup = Request::Startup(Startup {
        options: vec![("SCYLLA_RATE_LIMIT_ERROR", "")],
    });
    observed.ask(&startup, &Extras::default());
    observed.response.offer(&answer(Opcode::READY, Vec::new()));
    observed.ask(&query("SELECT v FROM s.t WHERE k = 1"), &Extras::default());
    // Code, no message, a read, refused by the coordinator.
    observed
        .response
        .offer(&answer(Opcode::ERROR, vec![0, 0, 0x12, 0x34, 0, 0, 0, 1]));
    let pattern = observed.pattern();
    assert_eq!(pattern.error_codes, [(Pattern::RATE_LIMIT, 1)].into());
}

#[test]
fn warnings_are_counted_by_what_they_warn_of() {
    let mut observed = Observed::new();
    observed.ask(&query("INSERT INTO s.t (k, v) VALUES (1, 2)"), &Extras::default());
    let texts = [
        "Batch for [s.t] is of size 61440, exceeding specified threshold of 5120 by 56320.",
        "what 'somebody' has written",
    ];
    let mut body = vec![0, 2];
    for text in texts {
        body.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    }
    body.extend([0, 0, 0, 1]);
    let mut header = Header::response(Version::V4, StreamId(1), Opcode::RESULT);
    header.flags = Flags::WARNING;
    observed.response.offer(&bytes(&Envelope {
        header,
        body: body.into(),
    }));
    let pattern = observed.pattern();
    let warned = |class: &str, largest| (class.to_owned(), Warned { times: 1, largest });
    assert_eq!(pattern.warnings, 2);
    assert_eq!(
        pattern.warned,
        [warned("batch size", 61_440), warned("other", 0)].into()
    );
}

#[test]
fn timestamps_of_the_future_and_in_milliseconds_are_counted() {
    let mut observed = Observed::new();
    let now = Clock::start().now().unix_nanoseconds() / 1_000;
    let mut ahead = QueryParameters::new(Consistency::One);
    ahead.timestamp = Some(now + 3_600_000_000);
    let insert = "INSERT INTO s.t (k, v) VALUES (1, 2)";
    observed.pass(&Request::Query(Query {
        query: insert,
        parameters: ahead,
    }));
    observed.pass(&query(insert));
    let milliseconds = format!("{insert} USING TIMESTAMP {}", now / 1_000);
    observed.pass(&query(&milliseconds));
    let bound = ValuesBuf::positional([Value::Bytes(&now.to_be_bytes())]).unwrap();
    let parameters = QueryParameters {
        values: bound.values(),
        ..QueryParameters::new(Consistency::One)
    };
    observed.pass(&Request::Query(Query {
        query: "INSERT INTO s.t (k, v) VALUES (1, 2) USING TIMESTAMP ?",
        parameters,
    }));
    let window = observed.stop();
    let [plain, stated] = [false, true].map(|is_stated| {
        let mut patterns = window.patterns.values();
        let found = patterns.find(|pattern| pattern.head.cql.contains("TIMESTAMP") == is_stated);
        found.unwrap().write_times
    });
    assert_eq!((plain.ahead, plain.other_units, plain.stated), (1, 0, 0));
    assert!(
        (3_500_000_000..=3_600_000_000).contains(&plain.most_ahead_us),
        "{plain:?}"
    );
    assert_eq!((stated.ahead, stated.other_units, stated.stated), (0, 1, 2));
}

#[test]
fn timestamps_of_the_past_are_counted() {
    let mut observed = Observed::new();
    let now = Clock::start().now().unix_nanoseconds() / 1_000;
    for behind in [0, 7_200_000_000, 172_800_000_000] {
        let cql = format!(
            "INSERT INTO s.t (k, v) VALUES (1, 2) USING TIMESTAMP {}",
            now - behind
        );
        observed.pass(&query(&cql));
    }
    let window = observed.stop();
    let times: Vec<_> = window
        .patterns
        .values()
        .map(|pattern| pattern.write_times)
        .map(|times| (times.stated, times.behind, times.day_behind))
        .collect();
    assert_eq!(times, [(3, 2, 1)]);
}

#[test]
fn nulls_are_counted_in_texts_by_name_and_in_batches() {
    let nulls = |pattern: Pattern| (pattern.nulls.executions, pattern.nulls.by_column);
    let of_w = |times: u64| (times, [("w".to_owned(), times)].into());

    let mut text = Observed::new();
    text.pass(&query("INSERT INTO s.t (k, v, w) VALUES (1, 2, null)"));
    text.pass(&query("INSERT INTO s.t (k, v, w) VALUES (1, 2, 3)"));
    assert_eq!(nulls(text.pattern()), of_w(1));

    let insert = "INSERT INTO s.t (k, v, w) VALUES (?, ?, ?)";
    let one = 1_i32.to_be_bytes();
    let by_name = [
        ("w", Value::Null),
        ("k", Value::Bytes(&one)),
        ("v", Value::Bytes(&one)),
    ];
    let by_name = ValuesBuf::by_name(by_name).unwrap();
    let mut named = Observed::new();
    named.pass(&Request::Query(Query {
        query: insert,
        parameters: QueryParameters {
            values: by_name.values(),
            ..QueryParameters::new(Consistency::One)
        },
    }));
    assert_eq!(nulls(named.pattern()), of_w(1));

    let values = ValuesBuf::positional([Value::Bytes(&one), Value::Bytes(&one), Value::Null]).unwrap();
    let statement = || BatchStatement {
        query: BatchQuery::Text(insert),
        values: values.values(),
    };
    let mut batch = Observed::new();
    batch.pass(&Request::Batch(Batch {
        kind: BatchKind::Logged,
        statements: vec![statement(), statement()],
        consistency: Consistency::One,
        serial_consistency: None,
        timestamp: None,
        keyspace: None,
        now_in_seconds: None,
        other_flags: 0,
    }));
    assert_eq!(nulls(batch.pattern()), (1, [("w".to_owned(), 2)].into()));
}

#[test]
fn a_null_of_a_condition_writes_nothing() {
    let one = 1_i32.to_be_bytes();
    let update = |values: [Value<'_>; 4]| {
        let values = ValuesBuf::positional(values).unwrap();
        let mut observed = Observed::new();
        observed.pass(&Request::Query(Query {
            query: "UPDATE s.t SET v = ?, w = ? WHERE k = ? IF v = ?",
            parameters: QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::One)
            },
        }));
        observed.pattern().nulls
    };
    let [value, null] = [Value::Bytes(&one), Value::Null];
    assert_eq!(update([value, value, value, null]).executions, 0);
    let both = update([value, null, value, null]);
    assert_eq!(
        (both.executions, both.by_column),
        (1, [("w".to_owned(), 1)].into())
    );
}

#[test]
fn elements_of_collections_that_are_bound_as_a_whole_are_counted_also_in_batches() {
    let collection = |said: i32, items: i32| {
        let numbers = [said].into_iter();
        let numbers = numbers.chain((0..items).flat_map(|item| [4_i32, item]));
        numbers.flat_map(i32::to_be_bytes).collect::<Vec<_>>()
    };
    let key = 1_i32.to_be_bytes();
    let statement = |cql, said, items| {
        let collection = collection(said, items);
        let values = ValuesBuf::positional([Value::Bytes(&collection), Value::Bytes(&key)]).unwrap();
        let mut observed = Observed::new();
        observed.pass(&Request::Batch(Batch {
            kind: BatchKind::Logged,
            statements: vec![BatchStatement {
                query: BatchQuery::Text(cql),
                values: values.values(),
            }],
            consistency: Consistency::One,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            other_flags: 0,
        }));
        observed.pass(&Request::Query(Query {
            query: cql,
            parameters: QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::One)
            },
        }));
        let window = observed.stop();
        let patterns = window.patterns.values();
        patterns
            .map(|pattern| pattern.collection_items.at_least(40))
            .collect::<Vec<_>>()
    };
    let replace = "UPDATE s.tagged SET tags = ? WHERE k = ?";
    assert_eq!(statement(replace, 40, 40), [1, 1]);
    assert_eq!(statement(replace, 31, 31), [0, 0]);
    // Nothing but the number says so.
    assert_eq!(statement(replace, i32::MAX, 15), [0, 0]);
    assert_eq!(
        statement("UPDATE s.tagged SET tags = tags + ? WHERE k = ?", 40, 40),
        [0, 0]
    );
}

#[test]
fn columns_that_a_json_document_leaves_out_are_nulls() {
    let nulls = |cql: &str| {
        let mut observed = Observed::new();
        observed.pass(&query(cql));
        let nulls = observed.pattern().nulls;
        (nulls.executions, nulls.by_column.into_keys().collect::<Vec<_>>())
    };
    let of = |columns: &[&str]| (1, columns.iter().map(|&column| column.to_owned()).collect());
    assert_eq!(nulls(r#"INSERT INTO s.t JSON '{"k": 1, "v": 2}'"#), of(&["w"]));
    assert_eq!(
        nulls(r#"INSERT INTO s.t JSON '{"k": 1, "v": null}'"#),
        of(&["v", "w"])
    );
    assert_eq!(
        nulls(r#"INSERT INTO s.t JSON '{"k": 1, "v": 2, "W": 3}'"#),
        (0, Vec::new())
    );
    assert_eq!(
        nulls(r#"INSERT INTO s.t JSON '{"k": 1}' DEFAULT UNSET"#),
        (0, Vec::new())
    );

    let document = ValuesBuf::positional([Value::Bytes(br#"{"k": 1, "w": 3}"#)]).unwrap();
    let mut bound = Observed::new();
    bound.pass(&Request::Query(Query {
        query: "INSERT INTO s.t JSON ?",
        parameters: QueryParameters {
            values: document.values(),
            ..QueryParameters::new(Consistency::One)
        },
    }));
    assert_eq!(bound.pattern().nulls.by_column, [("v".to_owned(), 1)].into());
}

#[test]
fn conditions_that_do_not_hold_are_counted() {
    let mut observed = Observed::new();
    for applied in [1, 0] {
        observed.ask(
            &query("INSERT INTO s.t (k, v) VALUES (1, 2) IF NOT EXISTS"),
            &Extras::default(),
        );
        // Kind rows, flags none, one column `[applied]` of type boolean in s.t; one row.
        let mut body = vec![0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, b's', 0, 1, b't', 0, 9];
        body.extend(b"[applied]");
        body.extend([0, 4, 0, 0, 0, 1, 0, 0, 0, 1, applied]);
        observed.response.offer(&result(1, &body));
    }
    let pattern = observed.pattern();
    assert_eq!((pattern.count, pattern.not_applied), (2, 1));
}

#[test]
fn a_request_of_version_4_counts_for_the_keyspace_that_it_names() {
    let mut observed = Observed::new();
    observed.ask(&query("USE one"), &Extras::default());
    observed.response.offer(&set_keyspace(1, "one"));
    let mut named = query_on(1, "SELECT v FROM t WHERE k = 1", Consistency::One).to_vec();
    // The flags end the body; the name stands behind them.
    *named.last_mut().unwrap() |= 0x80;
    named.extend(b"\0\x03two");
    named[8] += 5;
    observed.request.offer(&named.into());
    observed.response.offer(&result(1, &[0, 0, 0, 1]));
    let window = observed.stop();
    let texts: Vec<_> = window
        .patterns
        .values()
        .map(|pattern| &pattern.head.cql)
        .collect();
    assert!(texts.iter().any(|cql| cql.contains("two.t")), "{texts:?}");
    assert!(!texts.iter().any(|cql| cql.contains("one.t")), "{texts:?}");
}

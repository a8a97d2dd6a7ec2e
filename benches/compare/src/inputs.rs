//! The bytes that all libraries read: version 4, uncompressed, which is all that every one of them
//! understands.

use bytes::{Bytes, BytesMut};
use cqlens_proto::envelope::{Envelope, StreamId, Version};
use cqlens_proto::message::result::ColumnSpecsBuf;
use cqlens_proto::message::{
    ColumnSpec, Consistency, Dialect, Execute, Extras, PagingState, PreparedId, QueryParameters, QueryResult,
    Request, Response, ResultMetadata, Rows, RowsContent, Value, ValuesBuf,
};
use cqlens_proto::types::CqlType;

/// Envelopes in one read of a busy connection.
pub const DEPTH: usize = 32;

/// The schema of the statements that are prepared.
pub const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
    CREATE TABLE shop.users (user_id uuid PRIMARY KEY, name text);
    CREATE TABLE shop.orders (customer_id bigint, region text, amount int, PRIMARY KEY ((customer_id, region), amount));";

/// A prepared statement, and an EXECUTE of it.
pub struct Prepared {
    pub statement: &'static str,
    pub execute: Bytes,
}

/// A read of one row by a key of one column.
pub fn point_read() -> Prepared {
    Prepared {
        statement: "SELECT name FROM shop.users WHERE user_id = ?",
        execute: execute_with(&[&[7; 16]]),
    }
}

/// A read of some rows by a key of two columns.
pub fn slice_read() -> Prepared {
    Prepared {
        statement: "SELECT * FROM shop.orders WHERE customer_id = ? AND region = ? AND amount > ?",
        execute: execute(),
    }
}

/// About 200 bytes of statement with literals.
pub const LITERALS: &str = "SELECT order_id, booked, amount, currency, customer, note FROM shop.orders_by_customer \
     WHERE customer = 'customer-0000000001234567' AND booked >= '2026-11-21 00:00:00+0000' AND amount > 100 LIMIT 50";

/// An EXECUTE of three values with page size and timestamp.
pub fn execute() -> Bytes {
    execute_with(&[&42_i64.to_be_bytes(), b"customer-0042", &7_i32.to_be_bytes()])
}

fn execute_with(values: &[&[u8]]) -> Bytes {
    let values = ValuesBuf::positional(values.iter().map(|bytes| Value::Bytes(bytes)));
    let values = values.expect("a few values fit");
    let parameters = QueryParameters {
        values: values.values(),
        page_size: Some(5_000),
        timestamp: Some(1_700_000_000_000_000),
        ..QueryParameters::new(Consistency::LocalQuorum)
    };
    let request = Request::Execute(Execute {
        id: PreparedId(&[7; 16]),
        result_metadata_id: None,
        parameters,
    });
    let envelope = request.to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default());
    encoded(&[envelope.expect("the request fits")])
}

/// A RESULT of 100 rows of 5 columns (`bigint`, `text`, `text`, `int`, `double`), with more to come.
pub fn rows() -> Bytes {
    let column = |name, column_type| ColumnSpec {
        keyspace: "shop",
        table: "orders",
        name,
        column_type,
    };
    let columns = ColumnSpecsBuf::new(&[
        column("customer_id", CqlType::BigInt),
        column("customer", CqlType::Text),
        column("note", CqlType::Text),
        column("amount", CqlType::Int),
        column("price", CqlType::Double),
    ])
    .expect("the names are short");
    let metadata = ResultMetadata {
        paging_state: Some(PagingState(&[9; 32])),
        ..ResultMetadata::new(columns.columns())
    };
    let mut content = RowsContent::new(5);
    for row in 0..100_i32 {
        let customer = format!("customer-{row:04}");
        content
            .push([
                Some(&i64::from(row).to_be_bytes()[..]),
                Some(customer.as_bytes()),
                Some(b"a note of some length"),
                Some(&row.to_be_bytes()),
                Some(&f64::from(row).to_be_bytes()),
            ])
            .expect("five cells");
    }
    let rows = Rows::new(metadata, &content).expect("five columns");
    encoded(&[response(QueryResult::Rows(rows))])
}

/// 32 answers to writes, as one read of a connection brings them.
pub fn chunk_of_responses() -> Bytes {
    encoded(&vec![response(QueryResult::Void); DEPTH])
}

fn response(result: QueryResult<'_>) -> Envelope {
    Response::Result(result)
        .to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default())
        .expect("the response fits")
}

fn encoded(envelopes: &[Envelope]) -> Bytes {
    let mut bytes = BytesMut::new();
    for envelope in envelopes {
        envelope.encode(&mut bytes).expect("the body is short");
    }
    bytes.freeze()
}

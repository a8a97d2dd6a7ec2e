//! What clients and nodes send, as bytes of version 4.

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Envelope, Flags, Header, Opcode, StreamId, Version},
    message::{
        ColumnSpec, Consistency, Dialect, Execute, Extras, Prepare, PreparedId, QueryParameters, QueryResult,
        Request, Response, ResultMetadata, Rows, RowsContent, Startup, Value, ValuesBuf,
        result::ColumnSpecsBuf,
    },
    types::CqlType,
};

pub(crate) type Cell = Vec<u8>;

/// STARTUP and READY.
pub(crate) fn startup(application: &str) -> (Bytes, Bytes) {
    let options = vec![
        ("APPLICATION_NAME", application),
        ("APPLICATION_VERSION", "4.2.0"),
        ("DRIVER_NAME", "DataStax Java driver for Apache Cassandra(R)"),
        ("DRIVER_VERSION", "4.17.0"),
    ];
    let request = request(0, &Request::Startup(Startup { options }));
    (request, response(0, Opcode::READY, &[]))
}

/// PREPARE and its answer, which says nothing of columns.
pub(crate) fn prepare(id: u16, cql: &str) -> (Bytes, Bytes) {
    let prepare = Request::Prepare(Prepare {
        query: cql,
        keyspace: None,
        other_flags: 0,
    });
    let body = [
        &[0, 0, 0, 4, 0, 2][..],
        &id.to_be_bytes(),
        &[0; 12],
        &[0, 0, 0, 4, 0, 0, 0, 0],
    ]
    .concat();
    (request(0, &prepare), response(0, Opcode::RESULT, &body))
}

/// EXECUTE of the statement that was prepared as `id`.
pub(crate) fn execute(stream: i16, id: u16, values: &[Cell]) -> Bytes {
    let values = ValuesBuf::positional(values.iter().map(|value| Value::Bytes(value))).unwrap();
    let parameters = QueryParameters {
        values: values.values(),
        page_size: Some(5_000),
        ..QueryParameters::new(Consistency::LocalQuorum)
    };
    let execute = Execute {
        id: PreparedId(&id.to_be_bytes()),
        result_metadata_id: None,
        parameters,
    };
    request(stream, &Request::Execute(execute))
}

pub(crate) fn void(stream: i16) -> Bytes {
    response(stream, Opcode::RESULT, &[0, 0, 0, 1])
}

/// Rows of these columns.
pub(crate) fn rows(stream: i16, table: &str, columns: &[&str], rows: &[Vec<Cell>]) -> Bytes {
    let specs = columns.iter().map(|name| ColumnSpec {
        keyspace: "shop",
        table,
        name,
        column_type: match *name {
            "at" | "updated" => CqlType::Timestamp,
            "id" => CqlType::Uuid,
            "amount" => CqlType::BigInt,
            _ => CqlType::Text,
        },
    });
    let specs: Vec<_> = specs.collect();
    let specs = ColumnSpecsBuf::new(&specs).unwrap();
    let mut content = RowsContent::new(columns.len());
    for row in rows {
        content.push(row.iter().map(|cell| Some(&cell[..]))).unwrap();
    }
    let metadata = ResultMetadata::new(specs.columns());
    let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
    let mut body = BytesMut::new();
    rows.encode(Dialect::new(Version::V4), &mut body).unwrap();
    response(stream, Opcode::RESULT, &body)
}

fn request(stream: i16, request: &Request<'_>) -> Bytes {
    let dialect = Dialect::new(Version::V4);
    bytes(
        &request
            .to_envelope(dialect, StreamId(stream), &Extras::default())
            .unwrap(),
    )
}

fn response(stream: i16, opcode: Opcode, body: &[u8]) -> Bytes {
    let mut header = Header::response(Version::V4, StreamId(stream), opcode);
    header.flags = Flags(0);
    bytes(&Envelope {
        header,
        body: Bytes::copy_from_slice(body),
    })
}

fn bytes(envelope: &Envelope) -> Bytes {
    let mut wire = BytesMut::new();
    envelope.encode(&mut wire).unwrap();
    wire.freeze()
}

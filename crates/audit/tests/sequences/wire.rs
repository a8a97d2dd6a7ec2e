//! What applications and the server send, as bytes: texts in version 4, prepared statements in version 5.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use cqlens_cql::{
    schema::{DataType, Schema, Table},
    syntax::ast::NativeType,
};
use cqlens_proto::{
    envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version},
    message::{
        Batch, BatchKind, BatchQuery, BatchStatement, BindMetadata, ColumnSpec, Consistency, Dialect,
        Execute, Extras, PagingState, Prepare, Prepared, PreparedId, Query, QueryParameters, QueryResult,
        Request, Response, ResultMetadata, ResultMetadataId, Rows, RowsContent, Startup, Value, ValuesBuf,
        result::ColumnSpecsBuf,
    },
    segment::{self, Encoding},
    types::CqlType,
};

use crate::simulation::{Application, Cell, Event, START, Statement, Time};

/// How an application speaks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// QUERY with texts, version 4; rows say what their columns are.
    Texts,
    /// EXECUTE of prepared statements, version 5; rows do not say what their columns are.
    Prepared,
}

impl Wire {
    pub(crate) fn begin(self, schema: &Schema) -> Encoder<'_> {
        Encoder {
            wire: self,
            dialect: Dialect::new(match self {
                Self::Texts => Version::V4,
                Self::Prepared => Version::V5,
            }),
            schema,
            prepared: BTreeSet::new(),
            requests: 0,
        }
    }
}

/// Streams of a user; of 64 users they end before those of PREPARE.
const OF_A_USER: u64 = 450;

/// Encodes what one application sends.
pub(crate) struct Encoder<'s> {
    wire: Wire,
    dialect: Dialect,
    schema: &'s Schema,
    prepared: BTreeSet<&'static str>,
    requests: u64,
}

impl Encoder<'_> {
    pub(crate) fn open(&mut self, connection: usize, application: &Application, events: &mut Vec<Event>) {
        let named = [
            Some(("APPLICATION_NAME", application.name)).filter(|(_, name)| !name.is_empty()),
            application.session,
        ];
        let options = named.into_iter().flatten();
        let startup = Request::Startup(Startup {
            options: options.collect(),
        });
        let envelope = startup
            .to_envelope(self.dialect, StreamId(0), &Extras::default())
            .unwrap();
        let ready = self.answer(StreamId(0), Opcode::READY, Bytes::new());
        // Segments begin once READY has come.
        for (at, direction, envelope) in [
            (START - 20_000_000, Direction::Request, envelope),
            (START - 19_000_000, Direction::Response, ready),
        ] {
            events.push(Event {
                at,
                connection,
                direction,
                bytes: plain(&envelope),
            });
        }
    }

    /// A request and its answer, at these times; statements are prepared on the `first` connection before.
    pub(crate) fn send(
        &mut self,
        statement: &Statement,
        (user, connection, first): (u64, usize, usize),
        (at, answered): (Time, Time),
        events: &mut Vec<Event>,
    ) {
        if self.wire == Wire::Prepared {
            for (cql, _) in &statement.parts {
                self.prepare(cql, first, events);
            }
        }
        // Each user has streams of its own: another request of the same one is answered by then.
        self.requests += 1;
        let stream = 1 + user * OF_A_USER + self.requests % OF_A_USER;
        let stream = StreamId(i16::try_from(stream).unwrap());
        let request = self.request(statement, stream);
        let response = self.response(statement, stream);
        for (at, direction, envelope) in [
            (at, Direction::Request, request),
            (answered, Direction::Response, response),
        ] {
            events.push(Event {
                at,
                connection,
                direction,
                bytes: self.framed(&envelope),
            });
        }
    }

    fn framed(&self, envelope: &Envelope) -> Bytes {
        let envelope = plain(envelope);
        match self.wire {
            Wire::Texts => envelope,
            Wire::Prepared => {
                let mut segments = BytesMut::new();
                segment::encode_envelopes(Encoding::Plain, &envelope, &mut segments).unwrap();
                segments.freeze()
            }
        }
    }

    fn answer(&self, stream: StreamId, opcode: Opcode, body: Bytes) -> Envelope {
        let mut header = Header::response(self.dialect.version, stream, opcode);
        header.flags = Flags(0);
        Envelope { header, body }
    }

    fn prepare(&mut self, cql: &'static str, connection: usize, events: &mut Vec<Event>) {
        if !self.prepared.insert(cql) {
            return;
        }
        let stream = StreamId(i16::try_from(30_000 + self.prepared.len()).unwrap());
        let prepare = Request::Prepare(Prepare {
            query: cql,
            keyspace: None,
            other_flags: 0,
        });
        let request = prepare
            .to_envelope(self.dialect, stream, &Extras::default())
            .unwrap();
        let table = table(self.schema, cql);
        let (markers, columns) = (specs(table, &markers(cql)), specs(table, &selected(cql)));
        let (markers, columns) = (
            ColumnSpecsBuf::new(&markers).unwrap(),
            ColumnSpecsBuf::new(&columns).unwrap(),
        );
        let id = id(cql);
        let prepared = Response::Result(QueryResult::Prepared(Prepared {
            id: PreparedId(&id),
            result_metadata_id: Some(ResultMetadataId(&id)),
            bind: BindMetadata {
                markers: markers.columns(),
                partition_key_indices: Vec::new(),
                other_flags: 0,
            },
            result: match columns.columns().is_empty() {
                true => ResultMetadata::none(),
                false => ResultMetadata::new(columns.columns()),
            },
        }));
        let mut body = BytesMut::new();
        prepared.encode(self.dialect, &mut body).unwrap();
        let response = self.answer(stream, Opcode::RESULT, body.freeze());
        let at = START - 10_000_000 + 1_000 * self.prepared.len() as Time;
        for (at, direction, envelope) in [
            (at, Direction::Request, request),
            (at + 500, Direction::Response, response),
        ] {
            events.push(Event {
                at,
                connection,
                direction,
                bytes: self.framed(&envelope),
            });
        }
    }

    fn request(&self, statement: &Statement, stream: StreamId) -> Envelope {
        let bound: Vec<ValuesBuf> = statement
            .parts
            .iter()
            .map(|(_, cells)| ValuesBuf::positional(cells.iter().map(|cell| Value::Bytes(cell))).unwrap())
            .collect();
        let state = statement.page.to_be_bytes();
        let id;
        let request = match &statement.parts[..] {
            [(cql, _)] => {
                let parameters = QueryParameters {
                    values: bound[0].values(),
                    skip_metadata: self.wire == Wire::Prepared,
                    paging_state: (statement.page > 0).then_some(PagingState(&state)),
                    ..QueryParameters::new(Consistency::LocalQuorum)
                };
                match self.wire {
                    Wire::Texts => Request::Query(Query {
                        query: cql,
                        parameters,
                    }),
                    Wire::Prepared => {
                        id = self::id(cql);
                        Request::Execute(Execute {
                            id: PreparedId(&id),
                            result_metadata_id: Some(ResultMetadataId(&id)),
                            parameters,
                        })
                    }
                }
            }
            parts => Request::Batch(Batch {
                kind: BatchKind::Logged,
                statements: parts
                    .iter()
                    .zip(&bound)
                    .map(|((cql, _), values)| BatchStatement {
                        query: BatchQuery::Text(cql),
                        values: values.values(),
                    })
                    .collect(),
                consistency: Consistency::LocalQuorum,
                serial_consistency: None,
                timestamp: None,
                keyspace: None,
                now_in_seconds: None,
                other_flags: 0,
            }),
        };
        request
            .to_envelope(self.dialect, stream, &Extras::default())
            .unwrap()
    }

    fn response(&self, statement: &Statement, stream: StreamId) -> Envelope {
        let (opcode, body) = match statement {
            Statement { fails: true, .. } => (
                Opcode::ERROR,
                Bytes::from_static(b"\0\0\x11\0\0\x02no\0\x06\0\0\0\x01\0\0\0\x02\0\x06SIMPLE"),
            ),
            Statement { rows, .. } if rows.is_empty() => (Opcode::RESULT, Bytes::from_static(&[0, 0, 0, 1])),
            Statement { rows, .. } => (Opcode::RESULT, self.rows(statement, rows)),
        };
        self.answer(stream, opcode, body)
    }

    fn rows(&self, statement: &Statement, rows: &[Vec<Cell>]) -> Bytes {
        let width = rows[0].len();
        let mut content = RowsContent::new(width);
        for row in rows {
            content.push(row.iter().map(|cell| Some(&cell[..]))).unwrap();
        }
        let cql = statement.parts[0].0;
        let columns = specs(table(self.schema, cql), &selected(cql));
        assert_eq!(columns.len(), width, "{cql}");
        let columns = ColumnSpecsBuf::new(&columns).unwrap();
        let state = (statement.page + 1).to_be_bytes();
        let metadata = ResultMetadata {
            column_count: width,
            columns: (self.wire == Wire::Texts).then(|| columns.columns()),
            paging_state: statement.has_more.then_some(PagingState(&state)),
            ..ResultMetadata::none()
        };
        let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
        let mut body = BytesMut::new();
        rows.encode(self.dialect, &mut body).unwrap();
        body.freeze()
    }
}

/// The table that a statement names first.
fn table<'s>(schema: &'s Schema, cql: &str) -> &'s Table {
    let mut words = cql.split([' ', '(']);
    let name = words.find_map(|word| word.strip_prefix("s.")).unwrap();
    schema.table("s", name).unwrap()
}

/// The columns of the rows of a SELECT.
fn selected(cql: &str) -> Vec<&str> {
    let selection = cql
        .strip_prefix("SELECT ")
        .and_then(|rest| rest.split_once(" FROM"));
    selection.map_or_else(Vec::new, |(columns, _)| columns.split(", ").collect())
}

/// The columns that the markers of a statement are for.
fn markers(cql: &str) -> Vec<&str> {
    if let Some(rest) = cql.strip_prefix("INSERT INTO ") {
        let (_, rest) = rest.split_once('(').unwrap();
        return rest.split_once(')').unwrap().0.split(", ").collect();
    }
    let before = |at: usize| cql[..at].split_whitespace().rev().nth(1).unwrap();
    cql.match_indices('?').map(|(at, _)| before(at)).collect()
}

/// Columns of a table with their types; what is no column of it, such as `token(id)`, is a number.
fn specs<'c>(table: &'c Table, columns: &[&'c str]) -> Vec<ColumnSpec<'c>> {
    let specs = columns.iter().map(|name| ColumnSpec {
        keyspace: "s",
        table: &table.name,
        name,
        column_type: table
            .column(name)
            .map_or(CqlType::BigInt, |column| wire_type(&column.data_type)),
    });
    specs.collect()
}

fn wire_type(data_type: &DataType) -> CqlType {
    match data_type {
        DataType::Native(NativeType::Bigint) => CqlType::BigInt,
        DataType::Native(NativeType::Int) => CqlType::Int,
        DataType::Native(NativeType::Date) => CqlType::Date,
        DataType::Native(NativeType::Text) => CqlType::Text,
        DataType::Native(NativeType::Boolean) => CqlType::Boolean,
        DataType::Native(NativeType::Timestamp) => CqlType::Timestamp,
        DataType::Native(NativeType::Timeuuid) => CqlType::TimeUuid,
        DataType::List(element) => CqlType::list(wire_type(element)),
        DataType::Set(element) => CqlType::set(wire_type(element)),
        DataType::Map(key, value) => CqlType::Map(Box::new((wire_type(key), wire_type(value)))),
        DataType::Tuple(parts) => CqlType::Tuple(parts.iter().map(wire_type).collect()),
        DataType::Frozen(inner) => wire_type(inner),
        other => panic!("no operation of the simulation has a column of type {other:?}"),
    }
}

/// As servers do: a digest of the text.
fn id(cql: &str) -> [u8; 16] {
    let digest = cql.bytes().fold(0xcbf2_9ce4_8422_2325_u128, |digest, byte| {
        (digest ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_013b)
    });
    digest.to_be_bytes()
}

fn plain(envelope: &Envelope) -> Bytes {
    let mut wire = BytesMut::new();
    envelope.encode(&mut wire).unwrap();
    wire.freeze()
}

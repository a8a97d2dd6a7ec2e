//! Decodes messages whose bodies end early: those of [`StreamItem::Head`](crate::stream::StreamItem::Head). A
//! request names its statement before it binds values, and a result states the number of rows before the
//! rows.

use super::query::{Query, flag};
use super::{
    Batch, Consistency, Decoded, Dialect, Execute, Extensions, Extras, PagingState, PreparedId,
    QueryParameters, QueryResult, Request, Response, ResultMetadataId, Rows, Values, expect, query,
};
use crate::cursor::Cursor;
use crate::envelope::{Direction, Envelope, Opcode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::notation;

/// A request whose body ends early.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestHead<'a> {
    /// Its statements, with those of their values that are there as a whole. Of what stands behind values it
    /// is only known whether there is a page size, which is 1 here, and a paging state, which is empty; the
    /// consistency of a batch, and of a text that is not whole, is none of theirs. Requests that execute
    /// nothing are [`Request::Unknown`].
    pub message: Request<'a>,
    /// Whether the text of a QUERY is there as a whole.
    pub is_text_whole: bool,
    /// Whether it names a keyspace, or may, and that is not there.
    pub may_name_keyspace: bool,
}

impl<'a> Request<'a> {
    /// Decodes a request of whose body only the beginning is there.
    ///
    /// # Errors
    /// If it ends before the values of the first statement; a body that is not what its opcode and version
    /// say.
    pub fn decode_head(
        envelope: &'a Envelope,
        extensions: Extensions,
    ) -> Result<RequestHead<'a>, DecodeError> {
        let header = &envelope.header;
        let mut cursor = Cursor::new(&envelope.body);
        expect(header, Direction::Request, &cursor)?;
        Extras::decode(&mut cursor, header)?;
        let dialect = Dialect::with(header.version, extensions);
        match header.opcode {
            Opcode::QUERY => RequestHead::query(&mut cursor, dialect),
            Opcode::EXECUTE => RequestHead::execute(&mut cursor, dialect),
            Opcode::BATCH => Ok(RequestHead {
                message: Request::Batch(Batch::decode_head(&mut cursor, dialect)?),
                is_text_whole: true,
                may_name_keyspace: dialect.version.has_result_metadata_id(),
            }),
            opcode => Ok(RequestHead {
                message: Request::Unknown {
                    opcode,
                    body: cursor.rest(),
                },
                is_text_whole: false,
                may_name_keyspace: false,
            }),
        }
    }
}

impl<'a> RequestHead<'a> {
    fn query(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let at = *cursor;
        let length = cursor.read("query", notation::count)?;
        if length > cursor.rest().len() {
            return Ok(Self {
                message: Request::Query(Query {
                    query: text_head(&at, cursor.rest())?,
                    // It is behind the text.
                    parameters: QueryParameters::new(Consistency::Any),
                }),
                is_text_whole: false,
                may_name_keyspace: dialect.version.has_result_metadata_id(),
            });
        }
        let query = { at }.read("query", notation::long_string)?;
        cursor.take("query", length)?;
        let (parameters, may_name_keyspace) = QueryParameters::decode_head(cursor, dialect)?;
        Ok(Self {
            message: Request::Query(Query { query, parameters }),
            is_text_whole: true,
            may_name_keyspace,
        })
    }

    pub(super) fn execute(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let has_metadata_id = dialect.has_result_metadata_id();
        let id = cursor.read("prepared id", notation::short_bytes)?;
        let metadata_id = cursor.read_if(has_metadata_id, "result metadata id", notation::short_bytes)?;
        let (parameters, may_name_keyspace) = QueryParameters::decode_head(cursor, dialect)?;
        Ok(Self {
            message: Request::Execute(Execute {
                id: PreparedId(id),
                result_metadata_id: metadata_id.map(ResultMetadataId),
                parameters,
            }),
            is_text_whole: true,
            may_name_keyspace,
        })
    }
}

impl<'a> QueryParameters<'a> {
    /// Consistency, flags and the values that are there; whether there may be a keyspace behind them.
    fn decode_head(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<(Self, bool), DecodeError> {
        let consistency = Consistency::decode(cursor)?;
        let flags = query::read_flags(cursor, dialect)?;
        let has = |flag: u32| flags & flag != 0;
        let values = match has(flag::VALUES) {
            true => Values::decode_head(cursor, has(flag::NAMES), dialect)?,
            false => Values::NONE,
        };
        let names_keyspace = query::CommonParameters::names_keyspace(flags, dialect);
        let parameters = QueryParameters {
            values,
            skip_metadata: has(flag::SKIP_METADATA),
            page_size: has(flag::PAGE_SIZE).then_some(1),
            paging_state: has(flag::PAGING_STATE).then_some(PagingState(&[])),
            ..QueryParameters::new(consistency)
        };
        Ok((parameters, names_keyspace))
    }
}

impl<'a> Response<'a> {
    /// Decodes a response of whose body, of `body_len` bytes, only the beginning is there. The cells of rows
    /// may end early: iterating over them gives an error then.
    ///
    /// # Errors
    /// What ends before the number of rows, or is no rows and ends early; a body that is not what its opcode
    /// and version say.
    pub fn decode_head(
        envelope: &'a Envelope,
        body_len: usize,
        extensions: Extensions,
    ) -> Result<Decoded<'a, Response<'a>>, DecodeError> {
        let header = &envelope.header;
        let mut cursor = Cursor::new(&envelope.body);
        expect(header, Direction::Response, &cursor)?;
        let extras = Extras::decode(&mut cursor, header)?;
        let rows = match header.opcode {
            Opcode::RESULT => QueryResult::rows(cursor),
            _ => None,
        };
        let message = match rows {
            Some(mut rows) => {
                let missing = body_len.saturating_sub(envelope.body.len());
                let rows = Rows::decode_head(&mut rows, missing)?;
                Response::Result(QueryResult::Rows(rows))
            }
            None => {
                let dialect = Dialect::with(header.version, extensions);
                Response::decode_body(&mut cursor, header.opcode, dialect)?
            }
        };
        Ok(Decoded { extras, message })
    }
}

/// As much text as `bytes` have, which may end within a character.
fn text_head<'a>(at: &Cursor<'a>, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let text = bytes.get(..error.valid_up_to()).map(std::str::from_utf8);
    match (error.error_len(), text) {
        (None, Some(Ok(text))) => Ok(text),
        _ => Err(at.error("query", DecodeErrorKind::NotText)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::{StreamId, Version};
    use crate::message::{
        BatchKind, BatchQuery, BatchStatement, ResultMetadata, RowsContent, Value, ValuesBuf,
    };

    fn values(of: &[&[u8]]) -> ValuesBuf {
        ValuesBuf::positional(of.iter().map(|value| Value::Bytes(value))).unwrap()
    }

    /// The first `length` bytes of a request's body.
    fn head_of(version: Version, request: &Request<'_>, length: usize) -> Envelope {
        let dialect = Dialect::new(version);
        let mut envelope = request
            .to_envelope(dialect, StreamId(1), &Extras::default())
            .unwrap();
        envelope.body.truncate(length);
        envelope
    }

    #[test]
    fn an_execute_has_its_id_and_the_values_that_are_whole() {
        for version in [Version::V3, Version::V4, Version::V5] {
            let bound = values(&[b"key", &[0; 1_000]]);
            let execute = Request::Execute(Execute {
                id: PreparedId(b"0123456789abcdef"),
                result_metadata_id: version.has_result_metadata_id().then_some(ResultMetadataId(b"m")),
                parameters: QueryParameters {
                    values: bound.values(),
                    page_size: Some(5_000),
                    paging_state: Some(PagingState(b"page")),
                    ..QueryParameters::new(Consistency::Quorum)
                },
            });
            let envelope = head_of(version, &execute, 500);
            let head = Request::decode_head(&envelope, Extensions::NONE).unwrap();
            let Request::Execute(execute) = head.message else {
                unreachable!()
            };
            assert_eq!(execute.id.0, b"0123456789abcdef");
            assert_eq!(execute.parameters.consistency, Consistency::Quorum);
            let values: Vec<_> = execute.parameters.values.iter().map(|(_, value)| value).collect();
            assert_eq!(values, [Value::Bytes(b"key")]);
            assert_eq!(execute.parameters.page_size, Some(1));
            assert!(execute.parameters.paging_state.is_some() && !head.may_name_keyspace);
        }
    }

    #[test]
    fn a_text_is_told_as_far_as_it_goes_and_whether_it_is_whole() {
        let text = format!("INSERT INTO t (a) VALUES ('{}')", "é".repeat(300));
        let bound = values(&[&[0; 1_000]]);
        let query = Request::Query(Query {
            query: &text,
            parameters: QueryParameters {
                values: bound.values(),
                keyspace: Some("k"),
                ..QueryParameters::new(Consistency::One)
            },
        });
        for length in [100, 101, 700] {
            let envelope = head_of(Version::V5, &query, length);
            let head = Request::decode_head(&envelope, Extensions::NONE).unwrap();
            let Request::Query(query) = head.message else {
                unreachable!()
            };
            assert!(text.starts_with(query.query) && query.query.len() > 90);
            assert_eq!(head.is_text_whole, length == 700);
            assert!(head.may_name_keyspace);
        }
    }

    #[test]
    fn a_batch_has_the_statements_that_are_there() {
        let bound = values(&[b"key", &[0; 1_000]]);
        let statement = |query| BatchStatement {
            query,
            values: bound.values(),
        };
        let batch = Request::Batch(Batch::new(
            BatchKind::Unlogged,
            vec![
                statement(BatchQuery::Text("INSERT")),
                statement(BatchQuery::Prepared(PreparedId(b"id"))),
                statement(BatchQuery::Text("UPDATE")),
            ],
            Consistency::One,
        ));
        for (length, statements) in [(3, 0), (8, 0), (500, 1), (1_031, 1), (1_100, 2), (2_070, 3)] {
            let envelope = head_of(Version::V4, &batch, length);
            let head = Request::decode_head(&envelope, Extensions::NONE).unwrap();
            let Request::Batch(batch) = head.message else {
                unreachable!()
            };
            assert_eq!(batch.statements.len(), statements, "{length}");
            assert_eq!(batch.kind, BatchKind::Unlogged);
        }
    }

    #[test]
    fn rows_are_counted_where_their_number_is_there() {
        let mut content = RowsContent::new(1);
        (0..5_000).for_each(|_| content.push([Some(&b"cell"[..])]).unwrap());
        let metadata = ResultMetadata {
            column_count: 1,
            ..ResultMetadata::none()
        };
        let rows = Rows::new(metadata, &content).unwrap();
        let whole = Response::Result(QueryResult::Rows(rows))
            .to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default())
            .unwrap();
        let mut head = whole.clone();
        head.body.truncate(50);
        let decoded = Response::decode_head(&head, whole.body.len(), Extensions::NONE).unwrap();
        let Response::Result(QueryResult::Rows(rows)) = decoded.message else {
            unreachable!()
        };
        assert_eq!(rows.len(), 5_000);
        assert!(rows.iter().any(|row| row.is_err()), "the cells end early");
        assert!(
            Response::decode_head(&head, 1_000, Extensions::NONE).is_err(),
            "no room for so many"
        );
        head.body.truncate(10);
        assert!(Response::decode_head(&head, whole.body.len(), Extensions::NONE).is_err());
    }
}

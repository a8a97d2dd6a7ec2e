//! BATCH (v5 §4.1.7).

use super::Dialect;
use super::consistency::{Consistency, SerialConsistency};
use super::execute::PreparedId;
use super::query::{CommonParameters, read_flags, write_flags};
use super::values::Values;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::notation;

/// BATCH: `<type [byte]><n [short]><statement>*<consistency><flags>[<serial
/// consistency>][<timestamp>][<keyspace>] [<now in seconds>]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'a> {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// The statements in order.
    pub statements: Vec<BatchStatement<'a>>,
    /// How many replicas have to answer.
    pub consistency: Consistency,
    /// For the serial phase of conditional statements.
    pub serial_consistency: Option<SerialConsistency>,
    /// The client's default write timestamp, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified names: as [that of a QUERY](super::QueryParameters::keyspace).
    pub keyspace: Option<&'a str>,
    /// The client's "now" for expiring cells, in seconds since 1970: version 5.
    pub now_in_seconds: Option<i32>,
    /// Flags without a meaning here, kept as sent. 0x40 (names) is one: the specification itself says that it
    /// cannot work, since it stands behind the values that it would describe.
    pub other_flags: u32,
}

/// What the coordinator promises about a batch. Unknown numbers are values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Atomic: written to the batch log first.
    Logged,
    /// Not atomic.
    Unlogged,
    /// Counter updates.
    Counter,
    /// A number that the specification does not have.
    Unknown(u8),
}

/// One statement: `<kind [byte]><text or id><n [short]><value>*`.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchStatement<'a> {
    /// What to run.
    pub query: BatchQuery<'a>,
    /// What is bound to its markers.
    pub values: Values<'a>,
}

/// A batch mixes both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchQuery<'a> {
    /// CQL text, kind 0.
    Text(&'a str),
    /// A prepared statement, kind 1.
    Prepared(PreparedId<'a>),
}

impl<'a> Batch<'a> {
    /// A batch without optional parts.
    pub fn new(kind: BatchKind, statements: Vec<BatchStatement<'a>>, consistency: Consistency) -> Self {
        Batch {
            kind,
            statements,
            consistency,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            other_flags: 0,
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let kind = BatchKind::from_number(cursor.read("batch type", notation::byte)?);
        let count = cursor.read("number of statements", notation::short)?;
        let statements = (0..count)
            .map(|_| BatchStatement::decode(cursor, dialect))
            .collect::<Result<Vec<_>, _>>()?;
        let consistency = Consistency::decode(cursor)?;
        let flags = read_flags(cursor, dialect)?;
        let readable_flags = CommonParameters::readable_flags(dialect);
        let common = CommonParameters::decode(cursor, flags & readable_flags, dialect)?;
        Ok(Batch {
            kind,
            statements,
            consistency,
            serial_consistency: common.serial_consistency,
            timestamp: common.timestamp,
            keyspace: common.keyspace,
            now_in_seconds: common.now_in_seconds,
            other_flags: flags & !readable_flags | common.unread(flags),
        })
    }

    /// The statements that are there, with those of their values that are, of a body that may end early;
    /// nothing of what stands behind them.
    pub(super) fn decode_head(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let kind = BatchKind::from_number(cursor.read("batch type", notation::byte)?);
        let count = cursor.read("number of statements", notation::short)?;
        let mut statements = Vec::new();
        for _ in 0..count {
            let query = match BatchStatement::decode_query(cursor) {
                Ok(query) => query,
                Err(error) if error.kind == DecodeErrorKind::Truncated => break,
                Err(error) => return Err(error),
            };
            let values = Values::decode_head(cursor, false, dialect).unwrap_or_default();
            statements.push(BatchStatement { query, values });
        }
        Ok(Batch::new(kind, statements, Consistency::Any))
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        let common = CommonParameters {
            serial_consistency: self.serial_consistency,
            timestamp: self.timestamp,
            keyspace: self.keyspace,
            now_in_seconds: self.now_in_seconds,
        };
        writer.byte(self.kind.number());
        writer.short_count("statements", self.statements.len())?;
        self.statements
            .iter()
            .try_for_each(|statement| statement.encode(writer, dialect))?;
        self.consistency.encode(writer);
        write_flags(writer, self.other_flags | common.flags(), dialect)?;
        common.encode(writer, dialect)
    }
}

impl BatchKind {
    /// The kind with a number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => BatchKind::Unknown(other),
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
            BatchKind::Unknown(number) => number,
        }
    }
}

impl<'a> BatchStatement<'a> {
    fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        Ok(BatchStatement {
            query: Self::decode_query(cursor)?,
            values: Values::decode(cursor, false, dialect)?,
        })
    }

    fn decode_query(cursor: &mut Cursor<'a>) -> Result<BatchQuery<'a>, DecodeError> {
        let kind_at = *cursor;
        Ok(match cursor.read("statement kind", notation::byte)? {
            0 => BatchQuery::Text(cursor.read("query", notation::long_string)?),
            1 => BatchQuery::Prepared(PreparedId(cursor.read("prepared id", notation::short_bytes)?)),
            // Without the kind the length of what follows is not known.
            kind => return Err(kind_at.error("statement kind", DecodeErrorKind::Invalid(i64::from(kind)))),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        if self.values.is_named() {
            return Err(EncodeError::Unsupported {
                what: "named values in a batch",
            });
        }
        match self.query {
            BatchQuery::Text(text) => {
                writer.byte(0);
                writer.long_string("query", text)?;
            }
            BatchQuery::Prepared(id) => {
                writer.byte(1);
                writer.short_bytes("prepared id", id.0)?;
            }
        }
        self.values.encode(writer, dialect)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Version;
    use crate::message::Value;

    #[test]
    fn a_batch_of_text_and_prepared_statements_is_read_in_order() {
        let body = b"\x01\0\x02\0\0\0\0\x01Q\0\0\x01\0\x02id\0\x01\0\0\0\x01v\0\x06\x20\0\0\0\0\0\0\0\x09";
        let batch = Batch::decode(&mut Cursor::new(body), Dialect::new(Version::V4)).unwrap();
        assert_eq!(batch.kind, BatchKind::Unlogged);
        assert_eq!(batch.statements[0].query, BatchQuery::Text("Q"));
        assert_eq!(batch.statements[1].query, BatchQuery::Prepared(PreparedId(b"id")));
        assert_eq!(batch.statements[1].values.nth(0), Some(Value::Bytes(b"v")));
        assert_eq!(
            (batch.consistency, batch.timestamp),
            (Consistency::LocalQuorum, Some(9))
        );
    }

    #[test]
    fn a_batch_of_version_4_may_name_a_keyspace() {
        let of = |body: &[u8]| {
            let batch = Batch::decode(&mut Cursor::new(body), Dialect::new(Version::V4)).unwrap();
            (batch.keyspace.map(str::to_owned), batch.other_flags)
        };
        assert_eq!(of(b"\0\0\0\0\x01\x80\0\x02ks"), (Some("ks".to_owned()), 0));
        assert_eq!(of(b"\0\0\0\0\x01\xc0"), (None, 0xc0));
    }

    #[test]
    fn a_statement_that_is_neither_text_nor_prepared_is_refused() {
        let error = Batch::decode(&mut Cursor::new(&[0, 0, 1, 2]), Dialect::new(Version::V4)).unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                what: "statement kind",
                offset: 3,
                kind: DecodeErrorKind::Invalid(2)
            }
        );
    }
}

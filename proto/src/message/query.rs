//! QUERY (v5 §4.1.4) and the parameters that it shares with EXECUTE.

use super::Dialect;
use super::consistency::{Consistency, SerialConsistency};
use super::values::Values;
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// QUERY: a statement as text. `<query [long string]><parameters>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Query<'a> {
    /// CQL text.
    pub query: &'a str,
    /// How to run it.
    pub parameters: QueryParameters<'a>,
}

impl<'a> Query<'a> {
    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        Ok(Query {
            query: cursor.read("query", notation::long_string)?,
            parameters: QueryParameters::decode(cursor, dialect)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        writer.long_string("query", self.query)?;
        self.parameters.encode(writer, dialect)
    }
}

/// How a statement is run: `<consistency><flags>[<values>][<page size>][<paging state>][<serial
/// consistency>][<timestamp>][<keyspace>] [<now in seconds>][<continuous paging>]`; flags are a `[byte]` up
/// to version 4, an `[int]` after.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryParameters<'a> {
    /// How many replicas have to answer.
    pub consistency: Consistency,
    /// What is bound to the markers; empty if the request has none.
    pub values: Values<'a>,
    /// The response shall not describe its columns.
    pub skip_metadata: bool,
    /// Rows (in DSE, with `page_size_in_bytes`: bytes) a page.
    pub page_size: Option<i32>,
    /// DSE: the page size counts bytes.
    pub page_size_in_bytes: bool,
    /// Where the page starts: what an earlier page gave.
    pub paging_state: Option<PagingState<'a>>,
    /// For the serial phase of a conditional statement.
    pub serial_consistency: Option<SerialConsistency>,
    /// The client's default write timestamp, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified names: version 5 and DSE v2. Cassandra reads it from version 4.0 on in
    /// requests of all versions, whose specifications do not have it; older servers ignore it.
    pub keyspace: Option<&'a str>,
    /// The client's "now" for expiring cells, in seconds since 1970: version 5.
    pub now_in_seconds: Option<i32>,
    /// DSE: many pages answer one request.
    pub continuous_paging: Option<ContinuousPaging>,
    /// Flags without a meaning here, kept as sent.
    pub other_flags: u32,
}

/// An opaque position in a result; it may contain partition keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PagingState<'a>(pub &'a [u8]);

/// DSE's continuous paging options; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContinuousPaging {
    /// Pages to send in all.
    pub max_pages: i32,
    /// Pages a second.
    pub pages_per_second: i32,
    /// Pages that the client is ready for: DSE v2.
    pub next_pages: Option<i32>,
}

pub(super) mod flag {
    pub(in crate::message) const VALUES: u32 = 0x01;
    pub(in crate::message) const SKIP_METADATA: u32 = 0x02;
    pub(in crate::message) const PAGE_SIZE: u32 = 0x04;
    pub(in crate::message) const PAGING_STATE: u32 = 0x08;
    pub(in crate::message) const NAMES: u32 = 0x40;
    pub(super) const PAGE_SIZE_IN_BYTES: u32 = 0x4000_0000;
    pub(super) const CONTINUOUS_PAGING: u32 = 0x8000_0000;
    /// Those that every version knows.
    pub(super) const OF_ALL_VERSIONS: u32 =
        VALUES | SKIP_METADATA | PAGE_SIZE | PAGING_STATE | NAMES | super::CommonParameters::OF_ALL_VERSIONS;
}

impl QueryParameters<'static> {
    /// Parameters with a consistency and nothing else.
    pub const fn new(consistency: Consistency) -> Self {
        QueryParameters {
            consistency,
            values: Values::NONE,
            skip_metadata: false,
            page_size: None,
            page_size_in_bytes: false,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
            continuous_paging: None,
            other_flags: 0,
        }
    }
}

impl<'a> QueryParameters<'a> {
    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let consistency = Consistency::decode(cursor)?;
        let sent_flags = read_flags(cursor, dialect)?;
        let flags = sent_flags & known_flags(dialect);
        let has = |flag: u32| flags & flag != 0;

        let values = match has(flag::VALUES) {
            true => Values::decode(cursor, has(flag::NAMES), dialect)?,
            false => Values::NONE,
        };
        let page_size = cursor.read_if(has(flag::PAGE_SIZE), "page size", notation::int)?;
        // A null paging state means the first page.
        let paging_state = cursor.read_if(has(flag::PAGING_STATE), "paging state", notation::bytes)?;
        let common = CommonParameters::decode(cursor, flags, dialect)?;
        let other_flags = sent_flags & !flags | common.unread(flags);
        let continuous_paging = match has(flag::CONTINUOUS_PAGING) {
            true => Some(ContinuousPaging::decode(cursor, dialect)?),
            false => None,
        };
        Ok(QueryParameters {
            consistency,
            values,
            skip_metadata: has(flag::SKIP_METADATA),
            page_size,
            page_size_in_bytes: has(flag::PAGE_SIZE_IN_BYTES),
            paging_state: paging_state.flatten().map(PagingState),
            serial_consistency: common.serial_consistency,
            timestamp: common.timestamp,
            keyspace: common.keyspace,
            now_in_seconds: common.now_in_seconds,
            continuous_paging,
            other_flags,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        let common = self.common();
        self.consistency.encode(writer);
        write_flags(writer, self.flags() | common.flags(), dialect)?;
        if !self.values.is_empty() {
            self.values.encode(writer, dialect)?;
        }
        if let Some(page_size) = self.page_size {
            writer.int(page_size);
        }
        if let Some(PagingState(state)) = self.paging_state {
            writer.bytes("paging state", Some(state))?;
        }
        common.encode(writer, dialect)?;
        match self.continuous_paging {
            Some(paging) => paging.encode(writer, dialect),
            None => Ok(()),
        }
    }

    fn flags(&self) -> u32 {
        let mut flags = self.other_flags;
        let mut set = |flag: u32, is_set: bool| flags |= if is_set { flag } else { 0 };
        set(flag::VALUES, !self.values.is_empty());
        set(flag::NAMES, !self.values.is_empty() && self.values.is_named());
        set(flag::SKIP_METADATA, self.skip_metadata);
        set(flag::PAGE_SIZE, self.page_size.is_some());
        set(flag::PAGE_SIZE_IN_BYTES, self.page_size_in_bytes);
        set(flag::PAGING_STATE, self.paging_state.is_some());
        set(flag::CONTINUOUS_PAGING, self.continuous_paging.is_some());
        flags
    }

    fn common(&self) -> CommonParameters<'a> {
        CommonParameters {
            serial_consistency: self.serial_consistency,
            timestamp: self.timestamp,
            keyspace: self.keyspace,
            now_in_seconds: self.now_in_seconds,
        }
    }
}

/// The flags that are decoded into fields, by version; the rest is kept as `other_flags`.
fn known_flags(dialect: Dialect) -> u32 {
    use flag::*;
    let dse = if dialect.version.is_dse() {
        PAGE_SIZE_IN_BYTES | CONTINUOUS_PAGING
    } else {
        0
    };
    OF_ALL_VERSIONS | dse | CommonParameters::readable_flags(dialect)
}

/// What QUERY, EXECUTE and BATCH have in common behind their values:
/// `[<serial consistency>][<timestamp>][<keyspace>][<now in seconds>]`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CommonParameters<'a> {
    pub(super) serial_consistency: Option<SerialConsistency>,
    pub(super) timestamp: Option<i64>,
    pub(super) keyspace: Option<&'a str>,
    pub(super) now_in_seconds: Option<i32>,
}

impl<'a> CommonParameters<'a> {
    const SERIAL_CONSISTENCY: u32 = 0x10;
    const TIMESTAMP: u32 = 0x20;
    const KEYSPACE: u32 = 0x80;
    const NOW_IN_SECONDS: u32 = 0x100;
    const OF_ALL_VERSIONS: u32 = Self::SERIAL_CONSISTENCY | Self::TIMESTAMP;

    /// The flags whose fields a server may read: those of the version's specification, and the keyspace, which
    /// Cassandra reads in versions 3 and 4 too.
    #[inline]
    pub(super) fn readable_flags(dialect: Dialect) -> u32 {
        let keyspace = match dialect.version.is_at_least_v5() {
            true => 0,
            false => Self::KEYSPACE,
        };
        Self::specified_flags(dialect) | keyspace
    }

    #[inline]
    fn specified_flags(dialect: Dialect) -> u32 {
        let keyspace = if dialect.version.has_result_metadata_id() {
            Self::KEYSPACE
        } else {
            0
        };
        let now = if dialect.version.is_apache_v5() {
            Self::NOW_IN_SECONDS
        } else {
            0
        };
        Self::OF_ALL_VERSIONS | keyspace | now
    }

    /// Whether `flags` say that there is a keyspace.
    pub(super) fn names_keyspace(flags: u32, dialect: Dialect) -> bool {
        flags & Self::readable_flags(dialect) & Self::KEYSPACE != 0
    }

    /// `flags` are those of the [readable](Self::readable_flags) ones that are set.
    #[inline(always)]
    pub(super) fn decode(cursor: &mut Cursor<'a>, flags: u32, dialect: Dialect) -> Result<Self, DecodeError> {
        let has = |flag: u32| flags & flag != 0;
        let serial_consistency = match has(Self::SERIAL_CONSISTENCY) {
            true => Some(SerialConsistency::decode(cursor)?),
            false => None,
        };
        let timestamp = cursor.read_if(has(Self::TIMESTAMP), "timestamp", notation::long)?;
        let keyspace = match cursor.read_if(has(Self::KEYSPACE), "keyspace", notation::string) {
            // A server that does not know the flag runs the request without it.
            Err(_) if Self::specified_flags(dialect) & Self::KEYSPACE == 0 => None,
            keyspace => keyspace?,
        };
        Ok(CommonParameters {
            serial_consistency,
            timestamp,
            keyspace,
            now_in_seconds: cursor.read_if(has(Self::NOW_IN_SECONDS), "now in seconds", notation::int)?,
        })
    }

    /// Of the `flags` that were read, the one whose field was not there.
    #[inline]
    pub(super) fn unread(&self, flags: u32) -> u32 {
        match self.keyspace {
            None => flags & Self::KEYSPACE,
            Some(_) => 0,
        }
    }

    pub(super) fn flags(&self) -> u32 {
        let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
        flag(Self::SERIAL_CONSISTENCY, self.serial_consistency.is_some())
            | flag(Self::TIMESTAMP, self.timestamp.is_some())
            | flag(Self::KEYSPACE, self.keyspace.is_some())
            | flag(Self::NOW_IN_SECONDS, self.now_in_seconds.is_some())
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        // Servers that do not read a keyspace would take another one.
        if self.flags() & !Self::specified_flags(dialect) != 0 {
            return Err(EncodeError::Unsupported {
                what: "keyspace or now in seconds",
            });
        }
        if let Some(serial_consistency) = self.serial_consistency {
            serial_consistency.encode(writer);
        }
        if let Some(timestamp) = self.timestamp {
            writer.long(timestamp);
        }
        if let Some(keyspace) = self.keyspace {
            writer.string("keyspace", keyspace)?;
        }
        if let Some(now_in_seconds) = self.now_in_seconds {
            writer.int(now_in_seconds);
        }
        Ok(())
    }
}

#[inline(always)]
pub(super) fn read_flags(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<u32, DecodeError> {
    if dialect.version.is_at_least_v5() {
        cursor.read("flags", notation::int_flags)
    } else {
        cursor.read("flags", notation::byte).map(u32::from)
    }
}

pub(super) fn write_flags(writer: &mut Writer<'_>, flags: u32, dialect: Dialect) -> Result<(), EncodeError> {
    if dialect.version.is_at_least_v5() {
        writer.int_flags(flags);
        return Ok(());
    }
    let flags = u8::try_from(flags).map_err(|_| EncodeError::Unsupported {
        what: "a flag over 0x80",
    })?;
    writer.byte(flags);
    Ok(())
}

impl ContinuousPaging {
    #[inline(always)]
    fn decode(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Self, DecodeError> {
        Ok(ContinuousPaging {
            max_pages: cursor.read("max pages", notation::int)?,
            pages_per_second: cursor.read("pages per second", notation::int)?,
            next_pages: cursor.read_if(has_next_pages(dialect), "next pages", notation::int)?,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        if !dialect.version.is_dse() {
            return Err(EncodeError::Unsupported {
                what: "continuous paging",
            });
        }
        writer.int(self.max_pages);
        writer.int(self.pages_per_second);
        if has_next_pages(dialect) {
            writer.int(self.next_pages.unwrap_or(0));
        }
        Ok(())
    }
}

fn has_next_pages(dialect: Dialect) -> bool {
    dialect.version == crate::envelope::Version::DseV2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Version;
    use crate::error::DecodeErrorKind;

    fn decode(bytes: &[u8], version: Version) -> Result<Query<'_>, DecodeError> {
        Query::decode(&mut Cursor::new(bytes), Dialect::new(version))
    }

    #[test]
    fn flags_are_a_byte_in_version_4_and_an_int_in_version_5() {
        let v4 = decode(b"\0\0\0\x01Q\0\x01\x04\0\0\0\x64", Version::V4).unwrap();
        let v5 = decode(b"\0\0\0\x01Q\0\x01\0\0\0\x04\0\0\0\x64", Version::V5).unwrap();
        assert_eq!(v4, v5);
        assert_eq!(v4.query, "Q");
        assert_eq!(v4.parameters.consistency, Consistency::One);
        assert_eq!(v4.parameters.page_size, Some(100));
    }

    #[test]
    fn a_keyspace_is_read_in_versions_that_do_not_specify_it_too() {
        let cases: [(&[u8], _); 4] = [
            (b"\0\0\0\x01Q\0\x01\x80\0\x02ks", (Some("ks"), 0)),
            (
                b"\0\0\0\x01Q\0\x01\xa0\0\0\0\0\0\0\0\x09\0\x02ks",
                (Some("ks"), 0),
            ),
            // As a server before Cassandra 4.0 reads it.
            (b"\0\0\0\x01Q\0\x01\x80", (None, 0x80)),
            (b"\0\0\0\x01Q\0\x01\x80\0\x09ks", (None, 0x80)),
        ];
        for (body, expected) in cases {
            for version in [Version::V3, Version::V4] {
                let parameters = decode(body, version).unwrap().parameters;
                assert_eq!(
                    (parameters.keyspace, parameters.other_flags),
                    expected,
                    "{body:?}"
                );
            }
        }
        assert!(decode(b"\0\0\0\x01Q\0\x01\0\0\0\x80", Version::V5).is_err());
        let dse = decode(b"\0\0\0\x01Q\0\x01\0\0\0\x80\0\x02ks", Version::DseV1).unwrap();
        assert_eq!(
            (dse.parameters.keyspace, dse.parameters.other_flags),
            (None, 0x80)
        );
    }

    #[test]
    fn a_keyspace_is_not_sent_to_servers_that_may_not_read_it() {
        let parameters = QueryParameters {
            keyspace: Some("ks"),
            ..QueryParameters::new(Consistency::One)
        };
        let query = Query {
            query: "Q",
            parameters,
        };
        for (version, is_sent) in [(Version::V4, false), (Version::V5, true)] {
            let mut out = bytes::BytesMut::new();
            let encoded = query.encode(&mut Writer::new(&mut out), Dialect::new(version));
            assert_eq!(encoded.is_ok(), is_sent, "{version}");
        }
    }

    #[test]
    fn bytes_after_the_parameters_are_ignored() {
        // Scylla's TABLETS_ROUTING_V2 appends a byte.
        assert!(decode(b"\0\0\0\x01Q\0\x01\0\xff", Version::V4).is_ok());
    }

    #[test]
    fn a_query_longer_than_the_body_is_truncated() {
        let error = decode(b"\x7f\xff\xff\xffQ", Version::V4).unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                what: "query",
                offset: 4,
                kind: DecodeErrorKind::Truncated
            }
        );
    }
}

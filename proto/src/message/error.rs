//! ERROR (v5 §4.2.1 and §9): a code, a text, and what the code adds.

use std::fmt;
use std::net::IpAddr;

use super::Dialect;
use super::consistency::Consistency;
use super::execute::PreparedId;
use super::extras::{Extras, string_list, write_string_list};
use crate::cursor::{Cursor, Writer};
use crate::envelope::Header;
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// ERROR: `<code [int]><message [string]>` and the details of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorMessage<'a> {
    /// What kind of error.
    pub code: ErrorCode,
    /// The server's text; it may quote the statement.
    pub message: &'a str,
    /// What the code adds.
    pub details: ErrorDetails<'a>,
}

/// An error code; unknown codes are values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i32);

#[allow(missing_docs)] // The names are the specification's.
impl ErrorCode {
    pub const SERVER_ERROR: ErrorCode = ErrorCode(0x0000);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x000a);
    pub const BAD_CREDENTIALS: ErrorCode = ErrorCode(0x0100);
    pub const UNAVAILABLE: ErrorCode = ErrorCode(0x1000);
    pub const OVERLOADED: ErrorCode = ErrorCode(0x1001);
    pub const IS_BOOTSTRAPPING: ErrorCode = ErrorCode(0x1002);
    pub const TRUNCATE_ERROR: ErrorCode = ErrorCode(0x1003);
    pub const WRITE_TIMEOUT: ErrorCode = ErrorCode(0x1100);
    pub const READ_TIMEOUT: ErrorCode = ErrorCode(0x1200);
    pub const READ_FAILURE: ErrorCode = ErrorCode(0x1300);
    pub const FUNCTION_FAILURE: ErrorCode = ErrorCode(0x1400);
    pub const WRITE_FAILURE: ErrorCode = ErrorCode(0x1500);
    pub const CDC_WRITE_FAILURE: ErrorCode = ErrorCode(0x1600);
    pub const CAS_WRITE_UNKNOWN: ErrorCode = ErrorCode(0x1700);
    pub const SYNTAX_ERROR: ErrorCode = ErrorCode(0x2000);
    pub const UNAUTHORIZED: ErrorCode = ErrorCode(0x2100);
    pub const INVALID: ErrorCode = ErrorCode(0x2200);
    pub const CONFIG_ERROR: ErrorCode = ErrorCode(0x2300);
    pub const ALREADY_EXISTS: ErrorCode = ErrorCode(0x2400);
    pub const UNPREPARED: ErrorCode = ErrorCode(0x2500);
    /// DSE: a client wrote faster than it read.
    pub const CLIENT_WRITE_FAILURE: ErrorCode = ErrorCode(0x8000);

    /// The specification's name, if the code has one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            ErrorCode::SERVER_ERROR => "SERVER_ERROR",
            ErrorCode::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            ErrorCode::BAD_CREDENTIALS => "BAD_CREDENTIALS",
            ErrorCode::UNAVAILABLE => "UNAVAILABLE",
            ErrorCode::OVERLOADED => "OVERLOADED",
            ErrorCode::IS_BOOTSTRAPPING => "IS_BOOTSTRAPPING",
            ErrorCode::TRUNCATE_ERROR => "TRUNCATE_ERROR",
            ErrorCode::WRITE_TIMEOUT => "WRITE_TIMEOUT",
            ErrorCode::READ_TIMEOUT => "READ_TIMEOUT",
            ErrorCode::READ_FAILURE => "READ_FAILURE",
            ErrorCode::FUNCTION_FAILURE => "FUNCTION_FAILURE",
            ErrorCode::WRITE_FAILURE => "WRITE_FAILURE",
            ErrorCode::CDC_WRITE_FAILURE => "CDC_WRITE_FAILURE",
            ErrorCode::CAS_WRITE_UNKNOWN => "CAS_WRITE_UNKNOWN",
            ErrorCode::SYNTAX_ERROR => "SYNTAX_ERROR",
            ErrorCode::UNAUTHORIZED => "UNAUTHORIZED",
            ErrorCode::INVALID => "INVALID",
            ErrorCode::CONFIG_ERROR => "CONFIG_ERROR",
            ErrorCode::ALREADY_EXISTS => "ALREADY_EXISTS",
            ErrorCode::UNPREPARED => "UNPREPARED",
            ErrorCode::CLIENT_WRITE_FAILURE => "CLIENT_WRITE_FAILURE",
            _ => return None,
        })
    }
}

impl ErrorCode {
    /// The code of an ERROR of which only the beginning of the body is there: of an envelope with that
    /// `header`, as [`StreamItem::Skipped`](crate::stream::StreamItem::Skipped) has it. None where it was cut
    /// off too.
    pub fn of_begun(header: &Header, begun: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(begun);
        Extras::decode(&mut cursor, header).ok()?;
        cursor.read("error code", notation::int).ok().map(Self)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "error {:#06x}", self.0),
        }
    }
}

/// What stands behind code and message. Which variant goes with which code is in its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorDetails<'a> {
    /// Nothing, or the code is not known.
    None,
    /// `<consistency><required [int]><alive [int]>`.
    Unavailable {
        /// Of the request.
        consistency: Consistency,
        /// Replicas that have to be alive.
        required: i32,
        /// Replicas that are.
        alive: i32,
    },
    /// `<consistency><received [int]><block for [int]><write type [string]>[<contentions [short]>]`.
    WriteTimeout {
        /// How many replicas answered.
        acknowledged: Acknowledged,
        /// What kind of write.
        write_type: WriteType<'a>,
        /// Compare-and-set rounds lost: version 5, write type CAS.
        contentions: Option<u16>,
    },
    /// `<consistency><received [int]><block for [int]><data present [byte]>`.
    ReadTimeout {
        /// How many replicas answered.
        acknowledged: Acknowledged,
        /// Whether the replica that was asked for data answered.
        data_present: bool,
    },
    /// `<consistency><received [int]><block for [int]><failures><data present [byte]>`.
    ReadFailure {
        /// How many replicas answered.
        acknowledged: Acknowledged,
        /// How many failed, or which and why.
        failures: Failures,
        /// Whether the replica that was asked for data answered.
        data_present: bool,
    },
    /// `<keyspace [string]><function [string]><argument types [string list]>`.
    FunctionFailure {
        /// Of the function.
        keyspace: &'a str,
        /// Its name.
        function: &'a str,
        /// CQL types.
        argument_types: Vec<&'a str>,
    },
    /// `<consistency><received [int]><block for [int]><failures><write type [string]>`.
    WriteFailure {
        /// How many replicas answered.
        acknowledged: Acknowledged,
        /// How many failed, or which and why.
        failures: Failures,
        /// What kind of write.
        write_type: WriteType<'a>,
    },
    /// `<consistency><received [int]><block for [int]>`.
    CasWriteUnknown(Acknowledged),
    /// `<keyspace [string]><table [string]>`.
    AlreadyExists {
        /// The keyspace, or the table's.
        keyspace: &'a str,
        /// The table; empty if the keyspace is meant.
        table: &'a str,
    },
    /// `<id [short bytes]>`.
    Unprepared(PreparedId<'a>),
    /// ScyllaDB's, under the code that its extension announces: `<operation [byte]><by coordinator [byte]>`.
    RateLimit {
        /// 0 for reads, 1 for writes.
        operation: u8,
        /// Whether the coordinator refused, or a replica.
        rejected_by_coordinator: bool,
    },
}

/// `<consistency><received [int]><block for [int]>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// Of the request.
    pub consistency: Consistency,
    /// Replicas that answered.
    pub received: i32,
    /// Replicas that have to.
    pub block_for: i32,
}

/// Which replicas failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failures {
    /// How many: version 4, an `[int]`.
    Count(i32),
    /// Which and why: version 5 and DSE, an `[int]` count of `<address [inetaddr]><reason [short]>`.
    Reasons(Vec<(IpAddr, FailureReason)>),
}

/// Why a replica failed; what a number means depends on whether the server is DSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureReason(pub u16);

impl FailureReason {
    /// The name; unknown numbers count as `UNKNOWN`, as servers treat them.
    pub const fn name(self, is_dse: bool) -> &'static str {
        match (self.0, is_dse) {
            (1, _) => "READ_TOO_MANY_TOMBSTONES",
            (2, false) => "TIMEOUT",
            (3, false) => "INCOMPATIBLE_SCHEMA",
            (4, false) => "READ_SIZE",
            (5, false) => "NODE_DOWN",
            (6, false) | (2, true) => "INDEX_NOT_AVAILABLE",
            (7, false) => "READ_TOO_MANY_INDEXES",
            (8, false) => "NOT_CMS",
            (9, false) => "INVALID_ROUTING",
            (10, false) => "COORDINATOR_BEHIND",
            (11, false) => "RETRY_ON_DIFFERENT_TRANSACTION_SYSTEM",
            (503, false) => "INDEX_BUILD_IN_PROGRESS",
            (3, true) => "CDC_SPACE_FULL",
            (4, true) => "COUNTER_WRITE",
            (5, true) => "TABLE_NOT_FOUND",
            (6, true) => "KEYSPACE_NOT_FOUND",
            _ => "UNKNOWN",
        }
    }
}

/// What kind of write: `SIMPLE`, `BATCH`, `UNLOGGED_BATCH`, `COUNTER`, `BATCH_LOG`, `CAS`, `VIEW`, `CDC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteType<'a>(pub &'a str);

impl WriteType<'_> {
    const CAS: &'static str = "CAS";
}

impl<'a> ErrorMessage<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let code = ErrorCode(cursor.read("error code", notation::int)?);
        let message = cursor.read("error message", notation::string)?;
        let details = ErrorDetails::decode(cursor, code, dialect)?;
        Ok(ErrorMessage {
            code,
            message,
            details,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        writer.int(self.code.0);
        writer.string("error message", self.message)?;
        self.details.encode(writer, dialect)
    }
}

impl<'a> ErrorDetails<'a> {
    fn decode(cursor: &mut Cursor<'a>, code: ErrorCode, dialect: Dialect) -> Result<Self, DecodeError> {
        if dialect.extensions.rate_limit_error == Some(code.0) {
            return Ok(ErrorDetails::RateLimit {
                operation: cursor.read("operation", notation::byte)?,
                rejected_by_coordinator: boolean(cursor, "rejected by coordinator")?,
            });
        }
        Ok(match code {
            ErrorCode::UNAVAILABLE => ErrorDetails::Unavailable {
                consistency: Consistency::decode(cursor)?,
                required: cursor.read("required", notation::int)?,
                alive: cursor.read("alive", notation::int)?,
            },
            ErrorCode::WRITE_TIMEOUT => ErrorDetails::decode_write_timeout(cursor, dialect)?,
            ErrorCode::READ_TIMEOUT => ErrorDetails::ReadTimeout {
                acknowledged: Acknowledged::decode(cursor)?,
                data_present: boolean(cursor, "data present")?,
            },
            ErrorCode::READ_FAILURE => ErrorDetails::ReadFailure {
                acknowledged: Acknowledged::decode(cursor)?,
                failures: Failures::decode(cursor, dialect)?,
                data_present: boolean(cursor, "data present")?,
            },
            ErrorCode::FUNCTION_FAILURE => ErrorDetails::FunctionFailure {
                keyspace: cursor.read("keyspace", notation::string)?,
                function: cursor.read("function", notation::string)?,
                argument_types: string_list(cursor, "argument types")?,
            },
            ErrorCode::WRITE_FAILURE => ErrorDetails::WriteFailure {
                acknowledged: Acknowledged::decode(cursor)?,
                failures: Failures::decode(cursor, dialect)?,
                write_type: WriteType(cursor.read("write type", notation::string)?),
            },
            ErrorCode::CAS_WRITE_UNKNOWN => ErrorDetails::CasWriteUnknown(Acknowledged::decode(cursor)?),
            ErrorCode::ALREADY_EXISTS => ErrorDetails::AlreadyExists {
                keyspace: cursor.read("keyspace", notation::string)?,
                table: cursor.read("table", notation::string)?,
            },
            ErrorCode::UNPREPARED => {
                ErrorDetails::Unprepared(PreparedId(cursor.read("prepared id", notation::short_bytes)?))
            }
            _ => ErrorDetails::None,
        })
    }

    fn decode_write_timeout(cursor: &mut Cursor<'a>, dialect: Dialect) -> Result<Self, DecodeError> {
        let acknowledged = Acknowledged::decode(cursor)?;
        let write_type = WriteType(cursor.read("write type", notation::string)?);
        // Not every CAS timeout of a server comes with the number: only those of Paxos itself.
        let may_have_contentions = write_type.0 == WriteType::CAS && dialect.version.is_apache_v5();
        let has_contentions = may_have_contentions && !cursor.rest().is_empty();
        let contentions = cursor.read_if(has_contentions, "contentions", notation::short)?;
        Ok(ErrorDetails::WriteTimeout {
            acknowledged,
            write_type,
            contentions,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        match self {
            ErrorDetails::None => {}
            ErrorDetails::Unavailable {
                consistency,
                required,
                alive,
            } => {
                consistency.encode(writer);
                writer.int(*required);
                writer.int(*alive);
            }
            ErrorDetails::WriteTimeout {
                acknowledged,
                write_type,
                contentions,
            } => {
                acknowledged.encode(writer);
                writer.string("write type", write_type.0)?;
                if let Some(contentions) = contentions {
                    writer.short(*contentions);
                }
            }
            ErrorDetails::ReadTimeout {
                acknowledged,
                data_present,
            } => {
                acknowledged.encode(writer);
                writer.byte(u8::from(*data_present));
            }
            ErrorDetails::ReadFailure {
                acknowledged,
                failures,
                data_present,
            } => {
                acknowledged.encode(writer);
                failures.encode(writer, dialect)?;
                writer.byte(u8::from(*data_present));
            }
            ErrorDetails::FunctionFailure {
                keyspace,
                function,
                argument_types,
            } => {
                writer.string("keyspace", keyspace)?;
                writer.string("function", function)?;
                write_string_list(writer, "argument types", argument_types)?;
            }
            ErrorDetails::WriteFailure {
                acknowledged,
                failures,
                write_type,
            } => {
                acknowledged.encode(writer);
                failures.encode(writer, dialect)?;
                writer.string("write type", write_type.0)?;
            }
            ErrorDetails::CasWriteUnknown(acknowledged) => acknowledged.encode(writer),
            ErrorDetails::AlreadyExists { keyspace, table } => {
                writer.string("keyspace", keyspace)?;
                writer.string("table", table)?;
            }
            ErrorDetails::Unprepared(id) => writer.short_bytes("prepared id", id.0)?,
            ErrorDetails::RateLimit {
                operation,
                rejected_by_coordinator,
            } => {
                writer.byte(*operation);
                writer.byte(u8::from(*rejected_by_coordinator));
            }
        }
        Ok(())
    }
}

impl Acknowledged {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Acknowledged {
            consistency: Consistency::decode(cursor)?,
            received: cursor.read("received", notation::int)?,
            block_for: cursor.read("block for", notation::int)?,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        self.consistency.encode(writer);
        writer.int(self.received);
        writer.int(self.block_for);
    }
}

impl Failures {
    /// How many replicas failed.
    pub fn count(&self) -> usize {
        match self {
            Failures::Count(count) => usize::try_from(*count).unwrap_or(0),
            Failures::Reasons(reasons) => reasons.len(),
        }
    }

    fn decode(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Self, DecodeError> {
        if !dialect.version.is_at_least_v5() {
            return cursor
                .read("number of failures", notation::int)
                .map(Failures::Count);
        }
        let count = cursor.read("number of failures", notation::count)?;
        let mut reason = |_| {
            let address = cursor.read("failed replica", notation::inet_address)?;
            Ok((
                address,
                FailureReason(cursor.read("failure reason", notation::short)?),
            ))
        };
        Ok(Failures::Reasons(
            (0..count).map(&mut reason).collect::<Result<_, _>>()?,
        ))
    }

    fn encode(&self, writer: &mut Writer<'_>, dialect: Dialect) -> Result<(), EncodeError> {
        match self {
            Failures::Count(count) if !dialect.version.is_at_least_v5() => writer.int(*count),
            Failures::Reasons(reasons) if dialect.version.is_at_least_v5() => {
                writer.int_count("failures", reasons.len())?;
                for (address, reason) in reasons {
                    writer.inet_address(*address);
                    writer.short(reason.0);
                }
            }
            _ => {
                return Err(EncodeError::Unsupported {
                    what: "this form of failures",
                });
            }
        }
        Ok(())
    }
}

fn boolean(cursor: &mut Cursor<'_>, what: &'static str) -> Result<bool, DecodeError> {
    cursor.read(what, notation::byte).map(|byte| byte != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::Version;
    use crate::message::Extensions;

    fn decode(bytes: &[u8], dialect: Dialect) -> Result<ErrorMessage<'_>, DecodeError> {
        ErrorMessage::decode(&mut Cursor::new(bytes), dialect)
    }

    #[test]
    fn a_read_failure_counts_in_version_4_and_gives_reasons_in_version_5() {
        let v4 = b"\0\0\x13\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x02\0";
        let error = decode(v4, Dialect::new(Version::V4)).unwrap();
        assert_eq!(error.code, ErrorCode::READ_FAILURE);
        let ErrorDetails::ReadFailure { failures, .. } = error.details else {
            unreachable!()
        };
        assert_eq!(failures, Failures::Count(2));

        let v5 = b"\0\0\x13\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\x04\x7f\0\0\x02\0\x01\0";
        let error = decode(v5, Dialect::new(Version::V5)).unwrap();
        let ErrorDetails::ReadFailure {
            failures: Failures::Reasons(reasons),
            ..
        } = error.details
        else {
            unreachable!()
        };
        assert_eq!(reasons, [([127, 0, 0, 2].into(), FailureReason(1))]);
        assert_eq!(reasons[0].1.name(false), "READ_TOO_MANY_TOMBSTONES");
    }

    #[test]
    fn an_unknown_code_is_a_value() {
        let error = decode(b"\0\0\x99\x99\0\x01x", Dialect::new(Version::V4)).unwrap();
        assert_eq!((error.code.name(), error.message), (None, "x"));
        assert_eq!(error.details, ErrorDetails::None);
    }

    #[test]
    fn the_rate_limit_code_is_the_one_that_was_announced() {
        let extensions = Extensions {
            rate_limit_error: Some(0xf000),
            ..Extensions::NONE
        };
        let error = decode(b"\0\0\xf0\0\0\0\x01\x01", Dialect::with(Version::V4, extensions)).unwrap();
        assert_eq!(
            error.details,
            ErrorDetails::RateLimit {
                operation: 1,
                rejected_by_coordinator: true
            }
        );
    }

    #[test]
    fn a_reason_means_another_thing_in_dse() {
        assert_eq!(FailureReason(2).name(false), "TIMEOUT");
        assert_eq!(FailureReason(2).name(true), "INDEX_NOT_AVAILABLE");
        assert_eq!(FailureReason(9999).name(false), "UNKNOWN");
    }
}

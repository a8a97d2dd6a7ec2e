//! Errors as the node answers them: Cassandra's codes and, where clients and tests read them, Cassandra's
//! texts.

use std::net::{IpAddr, Ipv4Addr};

use cqlens_cql::syntax::ParseError;
use cqlens_proto::envelope::Version;
use cqlens_proto::message::error::{Acknowledged, FailureReason, Failures};
use cqlens_proto::message::{Consistency, ErrorCode, ErrorDetails, ErrorMessage, PreparedId};

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    code: ErrorCode,
    message: String,
    details: Details,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Details {
    None,
    AlreadyExists { keyspace: String, table: String },
    Unprepared(Vec<u8>),
    TooManyTombstones(Consistency),
}

/// Cassandra's answer to a read that would filter, word for word.
pub(super) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may \
     have unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
     ALLOW FILTERING";

impl Failure {
    /// A statement that is CQL and cannot be done: 0x2200.
    pub(super) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::INVALID, message)
    }

    /// A text that is not CQL: 0x2000.
    pub(super) fn syntax(error: &ParseError, text: &str) -> Failure {
        let before = text.get(..error.span.start as usize).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count();
        Failure::new(ErrorCode::SYNTAX_ERROR, format!("line {line}:{column} {error}"))
    }

    /// A request that the protocol does not allow: 0x000A.
    pub(super) fn protocol(message: impl Into<String>) -> Failure {
        Failure::new(ErrorCode::PROTOCOL_ERROR, message)
    }

    /// A definition of what is there already: 0x2400; `table` is empty where a keyspace is meant.
    pub(super) fn already_exists(keyspace: &str, table: &str) -> Failure {
        let message = match table {
            "" => format!("Cannot add existing keyspace \"{keyspace}\""),
            table => format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""),
        };
        let details = Details::AlreadyExists {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        };
        Failure {
            code: ErrorCode::ALREADY_EXISTS,
            message,
            details,
        }
    }

    /// An id that no PREPARE of this node gave: 0x2500.
    pub(super) fn unprepared(id: &[u8]) -> Failure {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host \
             has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
        );
        Failure {
            code: ErrorCode::UNPREPARED,
            message,
            details: Details::Unprepared(id.to_vec()),
        }
    }

    /// A read that passed more tombstones than the failure threshold allows: 0x1300.
    pub(super) fn too_many_tombstones(consistency: Consistency) -> Failure {
        let message = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from \
                       /127.0.0.1:7000";
        let details = Details::TooManyTombstones(consistency);
        Failure {
            code: ErrorCode::READ_FAILURE,
            message: message.to_owned(),
            details,
        }
    }

    fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            details: Details::None,
        }
    }

    /// The message for a client; version 3 has no READ_FAILURE and sees a timeout instead, as Cassandra does
    /// it.
    pub(super) fn message(&self, version: Version) -> ErrorMessage<'_> {
        let code = match self.details {
            Details::TooManyTombstones(_) if version == Version::V3 => ErrorCode::READ_TIMEOUT,
            _ => self.code,
        };
        ErrorMessage {
            code,
            message: &self.message,
            details: self.details.on_the_wire(version),
        }
    }
}

impl Details {
    fn on_the_wire(&self, version: Version) -> ErrorDetails<'_> {
        match self {
            Details::None => ErrorDetails::None,
            Details::AlreadyExists { keyspace, table } => ErrorDetails::AlreadyExists { keyspace, table },
            Details::Unprepared(id) => ErrorDetails::Unprepared(PreparedId(id)),
            Details::TooManyTombstones(consistency) => {
                let acknowledged = Acknowledged {
                    consistency: *consistency,
                    received: 0,
                    block_for: 1,
                };
                let failures = match version {
                    Version::V3 => {
                        return ErrorDetails::ReadTimeout {
                            acknowledged,
                            data_present: false,
                        };
                    }
                    Version::V4 => Failures::Count(1),
                    _ => Failures::Reasons(vec![(IpAddr::V4(Ipv4Addr::LOCALHOST), TOO_MANY_TOMBSTONES)]),
                };
                ErrorDetails::ReadFailure {
                    acknowledged,
                    failures,
                    data_present: false,
                }
            }
        }
    }
}

/// READ_TOO_MANY_TOMBSTONES.
const TOO_MANY_TOMBSTONES: FailureReason = FailureReason(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_tombstones_are_a_timeout_in_version_3_and_a_failure_with_its_reason_in_version_5() {
        let failure = Failure::too_many_tombstones(Consistency::LocalOne);
        assert_eq!(failure.message(Version::V3).code, ErrorCode::READ_TIMEOUT);
        let ErrorDetails::ReadFailure {
            failures: Failures::Reasons(reasons),
            ..
        } = failure.message(Version::V5).details
        else {
            unreachable!("version 5 names reasons")
        };
        assert_eq!(reasons[0].1.name(false), "READ_TOO_MANY_TOMBSTONES");
    }
}

//! The protocol's error codes (native protocol v4 and v5 §9) as patterns count them, and their names.

use cqlens_window::Pattern;

/// Not enough replicas are alive for the consistency level.
pub(super) const UNAVAILABLE: u32 = 0x1000;

/// Replicas did not write in time.
pub(super) const WRITE_TIMEOUT: u32 = 0x1100;

/// Replicas did not answer in time.
pub(super) const READ_TIMEOUT: u32 = 0x1200;

/// A statement that is understood and refused.
pub(super) const INVALID: u32 = 0x2200;

/// A replica could not read.
pub(super) const READ_FAILURE: u32 = 0x1300;

/// The server does not know the id of the prepared statement.
pub(super) const UNPREPARED: u32 = 0x2500;

/// It is not known whether a lightweight transaction was applied (v5).
pub(super) const CAS_WRITE_UNKNOWN: u32 = 0x1700;

/// ScyllaDB refuses what exceeds the `per_partition_rate_limit` of a table.
pub(super) const RATE_LIMIT: u32 = Pattern::RATE_LIMIT;

/// Executions that were answered with one of these errors.
pub(super) fn count(pattern: &Pattern, codes: &[u32]) -> u64 {
    codes
        .iter()
        .filter_map(|code| pattern.error_codes.get(code))
        .sum()
}

/// The name of an error in the specification.
pub fn name(code: u32) -> &'static str {
    match code {
        0x0000 => "SERVER_ERROR",
        0x000A => "PROTOCOL_ERROR",
        0x0100 => "AUTH_ERROR",
        UNAVAILABLE => "UNAVAILABLE",
        0x1001 => "OVERLOADED",
        0x1002 => "IS_BOOTSTRAPPING",
        0x1003 => "TRUNCATE_ERROR",
        WRITE_TIMEOUT => "WRITE_TIMEOUT",
        READ_TIMEOUT => "READ_TIMEOUT",
        READ_FAILURE => "READ_FAILURE",
        0x1400 => "FUNCTION_FAILURE",
        0x1500 => "WRITE_FAILURE",
        0x1600 => "CDC_WRITE_FAILURE",
        CAS_WRITE_UNKNOWN => "CAS_WRITE_UNKNOWN",
        0x2000 => "SYNTAX_ERROR",
        0x2100 => "UNAUTHORIZED",
        INVALID => "INVALID",
        0x2300 => "CONFIG_ERROR",
        0x2400 => "ALREADY_EXISTS",
        UNPREPARED => "UNPREPARED",
        RATE_LIMIT => "RATE_LIMIT_ERROR",
        _ => "other errors",
    }
}

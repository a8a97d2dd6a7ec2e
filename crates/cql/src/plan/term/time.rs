//! Conversions between dates, timestamps and time-based UUIDs (`TimeFcts`).

use crate::plan::value;
use cqlens_proto::types::CqlType;

/// Milliseconds from the epoch of time-based UUIDs (1582-10-15) to 1970.
const UUID_EPOCH_MILLIS: i64 = 12_219_292_800_000;
const MILLIS_OF_DAY: i64 = 86_400_000;

/// Milliseconds since 1970 of a timestamp, date or time-based UUID; `None` for values of other types.
pub(super) fn millis(cql_type: &CqlType, bytes: &[u8]) -> Option<i64> {
    Some(match cql_type {
        CqlType::Timestamp => i64::from_be_bytes(*bytes.first_chunk()?),
        CqlType::Date => (i64::from(u32::from_be_bytes(*bytes.first_chunk()?)) - (1 << 31)) * MILLIS_OF_DAY,
        CqlType::TimeUuid => {
            let [low0, low1, low2, low3, mid0, mid1, high0, high1] = *bytes.first_chunk::<8>()?;
            let ticks = i64::from_be_bytes([high0 & 0x0f, high1, mid0, mid1, low0, low1, low2, low3]);
            ticks / 10_000 - UUID_EPOCH_MILLIS
        }
        _ => return None,
    })
}

/// The day of a time, as a `date`.
pub(super) fn date(millis: i64) -> Vec<u8> {
    value::days_of_date(millis.div_euclid(MILLIS_OF_DAY))
}

/// The least time-based UUID of a millisecond: its clock sequence and node are compared as signed bytes.
pub(super) fn least_uuid(millis: i64) -> Vec<u8> {
    time_uuid(millis, 0, 0x80)
}

/// The greatest time-based UUID of a millisecond.
pub(super) fn greatest_uuid(millis: i64) -> Vec<u8> {
    time_uuid(millis, 9_999, 0x7f)
}

fn time_uuid(millis: i64, ticks: i64, rest: u8) -> Vec<u8> {
    let ticks = millis
        .wrapping_add(UUID_EPOCH_MILLIS)
        .wrapping_mul(10_000)
        .wrapping_add(ticks);
    let [high0, high1, mid0, mid1, low0, low1, low2, low3] = ticks.to_be_bytes();
    let mut bytes = vec![low0, low1, low2, low3, mid0, mid1, 0x10 | (high0 & 0x0f), high1];
    bytes.resize(16, rest);
    bytes
}

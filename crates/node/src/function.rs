//! Functions: those that stand for a value, and those that are computed from the columns of a row.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cqlens_cql::syntax::ast::{FunctionCall, Term};
use cqlens_proto::types::{CqlType, Uuid};

use super::failure::Failure;

/// A function of one time to another form of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// `toTimestamp` and, as it once was called, `dateOf`.
    Timestamp,
    /// `toDate`.
    Date,
    /// `toUnixTimestamp` and, as it once was called, `unixTimestampOf`.
    UnixTimestamp,
}

impl Conversion {
    /// The conversion of a name in lower case, with or without underscores.
    pub(super) fn of(name: &str) -> Option<Conversion> {
        match name.replace('_', "").as_str() {
            "totimestamp" | "dateof" => Some(Conversion::Timestamp),
            "todate" => Some(Conversion::Date),
            "tounixtimestamp" | "unixtimestampof" => Some(Conversion::UnixTimestamp),
            _ => None,
        }
    }

    /// The type that it gives.
    pub(super) fn result_type(self) -> CqlType {
        match self {
            Conversion::Timestamp => CqlType::Timestamp,
            Conversion::Date => CqlType::Date,
            Conversion::UnixTimestamp => CqlType::BigInt,
        }
    }

    /// Converts a serialized timeuuid, timestamp or date; `None` for other values.
    pub(super) fn apply(self, from: &CqlType, value: &[u8]) -> Option<Bytes> {
        let millis = match from {
            CqlType::TimeUuid | CqlType::Uuid => Uuid(value.try_into().ok()?).unix_millis()?,
            CqlType::Timestamp => i64::from_be_bytes(value.try_into().ok()?),
            CqlType::Date => {
                let day = i64::from(u32::from_be_bytes(value.try_into().ok()?)) - DAY_ZERO;
                day * MILLIS_PER_DAY
            }
            _ => return None,
        };
        Some(match self {
            Conversion::Timestamp | Conversion::UnixTimestamp => long(millis),
            Conversion::Date => {
                let day = millis.div_euclid(MILLIS_PER_DAY) + DAY_ZERO;
                Bytes::copy_from_slice(&u32::try_from(day).ok()?.to_be_bytes())
            }
        })
    }
}

const DAY_ZERO: i64 = 1 << 31;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// The type of a function's argument, for the markers in it.
pub(super) fn argument_type(call: &FunctionCall<'_>) -> CqlType {
    match call.name.name.as_str().to_ascii_lowercase().as_str() {
        "mintimeuuid" | "maxtimeuuid" => CqlType::Timestamp,
        _ => CqlType::TimeUuid,
    }
}

/// What a function without columns gives as a value of `expected`; `evaluate` serializes its argument.
///
/// # Errors
/// Functions that this node does not have, and arguments that they do not take.
pub(super) fn scalar(
    call: &FunctionCall<'_>,
    expected: &CqlType,
    clock_micros: i64,
    evaluate: impl Fn(&Term<'_>) -> Result<Bytes, Failure>,
) -> Result<Bytes, Failure> {
    let name = call.name.name.as_str().to_ascii_lowercase();
    let millis = clock_micros.div_euclid(1_000);
    let argument = || {
        let Some(argument) = call.arguments.first() else {
            return Err(unknown(&name));
        };
        evaluate(argument)
    };
    if let Some(conversion) = Conversion::of(&name) {
        let value = argument()?;
        return conversion
            .apply(&argument_type(call), &value)
            .ok_or_else(|| unknown(&name));
    }
    match name.replace('_', "").as_str() {
        "uuid" => Ok(random_uuid(clock_micros)),
        "now" | "currenttimeuuid" => Ok(time_uuid(clock_micros * 10 + next_tick(), NODE)),
        "currenttimestamp" => Ok(long(millis)),
        "currentdate" => Conversion::Date
            .apply(&CqlType::Timestamp, &long(millis))
            .ok_or_else(|| unknown(&name)),
        "mintimeuuid" => Ok(time_uuid(millis_of(&argument()?) * 10_000, [0x80; 8])),
        "maxtimeuuid" => Ok(time_uuid(millis_of(&argument()?) * 10_000 + 9_999, [0x7f; 8])),
        _ => Err(Failure::invalid(format!(
            "Unknown function '{name}' for a value of type {expected}"
        ))),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::invalid(format!("Invalid call to function {name}"))
}

fn millis_of(timestamp: &[u8]) -> i64 {
    timestamp.try_into().map_or(0, i64::from_be_bytes)
}

/// A serialized `bigint`, counter or timestamp.
pub(super) fn long(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The clock sequence and node of timeuuids that this node makes.
const NODE: [u8; 8] = [0x80, 0, 2, 0, 0, 0, 0, 1];

/// A version 1 UUID of a number of 100 ns since 1970.
fn time_uuid(ticks: i64, rest: [u8; 8]) -> Bytes {
    // From the UUID epoch, 1582-10-15, to 1970.
    const EPOCH_OFFSET: i64 = 0x01b2_1dd2_1381_4000;
    let [t6, t7, t4, t5, t0, t1, t2, t3] = ticks.wrapping_add(EPOCH_OFFSET).to_be_bytes();
    let time = [t0, t1, t2, t3, t4, t5, (t6 & 0x0f) | 0x10, t7];
    Bytes::from([time, rest].concat())
}

/// A version 4 UUID. It is unique in this process; it is not meant to be unpredictable.
fn random_uuid(clock_micros: i64) -> Bytes {
    use siphasher::sip128::{Hasher128, SipHasher13};
    use std::hash::Hasher;
    let mut hasher = SipHasher13::new();
    hasher.write_i64(clock_micros);
    hasher.write_i64(next_tick());
    let mut uuid = hasher.finish128().as_bytes();
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    Bytes::copy_from_slice(&uuid)
}

/// Tells calls within one microsecond apart.
fn next_tick() -> i64 {
    static TICK: AtomicU64 = AtomicU64::new(0);
    i64::try_from(TICK.fetch_add(1, Ordering::Relaxed) % 10_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_timeuuid_that_is_made_of_a_time_converts_back_to_it() {
        let uuid = time_uuid(1_700_000_000_123 * 10_000, NODE);
        let timestamp = Conversion::Timestamp.apply(&CqlType::TimeUuid, &uuid).unwrap();
        assert_eq!(timestamp, long(1_700_000_000_123));
    }

    #[test]
    fn a_date_is_the_day_of_its_timestamp() {
        let date = Conversion::Date.apply(&CqlType::Timestamp, &long(-1)).unwrap();
        assert_eq!(date[..], ((1_u32 << 31) - 1).to_be_bytes());
        assert_eq!(
            Conversion::Timestamp.apply(&CqlType::Date, &date).unwrap(),
            long(-MILLIS_PER_DAY)
        );
    }
}

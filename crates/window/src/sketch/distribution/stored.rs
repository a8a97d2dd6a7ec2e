//! A distribution as snapshots have it.

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2Serializer},
};
use serde::{Deserialize, Serialize};

use super::{Distribution, EXACT_VALUES, Many, Values};
use crate::sketch::meter;

/// The form in snapshots: `few` pairs, or `hdr` (HdrHistogram V2, base64) with the exact bounds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    sum: String,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "meter::list"
    )]
    few: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hdr: Option<(u64, u64, String)>,
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stored = Stored {
            sum: self.sum().to_string(),
            few: Vec::new(),
            hdr: None,
        };
        match &self.values {
            Values::Few(few) => stored.few.clone_from(few),
            Values::Many(many) => {
                let mut bytes = Vec::new();
                V2Serializer::new()
                    .serialize(&many.histogram, &mut bytes)
                    .map_err(serde::ser::Error::custom)?;
                stored.hdr = Some((many.min, many.max, STANDARD.encode(bytes)));
            }
        }
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let stored = Stored::deserialize(deserializer)?;
        let sum = stored.sum.parse().map_err(D::Error::custom)?;
        let values = match stored.hdr {
            None if stored.few.len() > EXACT_VALUES => return Err(D::Error::custom("too many exact values")),
            None if !stored.few.is_sorted_by(|a, b| a.0 < b.0) => {
                return Err(D::Error::custom("values out of order"));
            }
            None => Values::Few(stored.few),
            Some((min, max, text)) => {
                let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
                if !is_ours(&bytes) {
                    return Err(D::Error::custom("not a histogram of this program"));
                }
                let mut histogram: Histogram<u64> = Deserializer::new()
                    .deserialize(&mut bytes.as_slice())
                    .map_err(D::Error::custom)?;
                if histogram.sigfig() != 2 || histogram.low() != 1 || min > max {
                    return Err(D::Error::custom("not a histogram of this program"));
                }
                histogram.auto(true);
                let many = Many {
                    histogram,
                    min,
                    max,
                    sum,
                };
                meter::charge(many.bytes())?;
                Values::Many(Box::new(many))
            }
        };
        let read = Self { values };
        match read.is_plausible() {
            true => Ok(read),
            false => Err(D::Error::custom("a distribution of counts that no traffic has")),
        }
    }
}

/// What a histogram begins with: HdrHistogram V2, not compressed.
const COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

/// Bytes before the counts: cookie, length of the counts, offset, digits, lowest value, highest value, ratio.
const HEADER: usize = 4 + 4 + 4 + 4 + 8 + 8 + 8;

/// Whether the header is that of a histogram which this program has written: with two significant digits, and with the length
/// that follows. The library allocates what the header announces before it reads on: gigabytes for a length, megabytes for
/// five digits.
fn is_ours(bytes: &[u8]) -> bool {
    let word = |at: usize| bytes.get(at..at + 4);
    let counts = bytes
        .len()
        .checked_sub(HEADER)
        .and_then(|length| u32::try_from(length).ok());
    counts.is_some_and(|counts| {
        word(0) == Some(&COOKIE) && word(4) == Some(&counts.to_be_bytes()) && word(12) == Some(&[0, 0, 0, 2])
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_histogram_whose_header_announces_too_much_is_refused_by_its_header() {
        let mut many = Distribution::default();
        (0..1_000).for_each(|value| many.record(value));
        let stored = serde_json::to_value(&many).unwrap();
        let bytes = STANDARD.decode(stored["hdr"][2].as_str().unwrap()).unwrap();
        assert!(is_ours(&bytes));
        let with = |at: usize, word: u32| {
            let mut changed = bytes.clone();
            changed[at..at + 4].copy_from_slice(&word.to_be_bytes());
            changed
        };
        let length = u32::try_from(bytes.len() - HEADER).unwrap();
        let compressed_cookie = 0x1c84_9314;
        let cases = [
            with(4, 0x8000_0012),
            with(4, length + 1),
            with(0, compressed_cookie),
            with(12, 5),
            [&bytes[..], &[0]].concat(),
            bytes[..HEADER - 1].to_vec(),
            Vec::new(),
        ];
        for case in cases {
            let mut changed = stored.clone();
            changed["hdr"][2] = STANDARD.encode(&case).into();
            let error = serde_json::from_value::<Distribution>(changed).unwrap_err();
            assert_eq!(error.to_string(), "not a histogram of this program", "{case:?}");
        }
    }
}

//! How many different things there were, in a few kilobytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use datasketches::{
    common::NumStdDev,
    hll::{HllSketch, HllType, HllUnion},
};
use serde::{Deserialize, Serialize};

use super::meter;

/// A count of distinct 64-bit hashes (HyperLogLog with 2,048 registers).
///
/// Practically exact up to about 200 distinct hashes; beyond that the standard error is 2.3 %. At most 2 KiB.
/// The estimate does not depend on the order in which hashes came or sketches were merged.
#[derive(Debug, Clone)]
pub struct Distinct {
    sketch: HllSketch,
    /// It holds something, and its bytes are counted: every insertion needs to know.
    is_counted: bool,
}

/// Logarithm of the number of registers. Part of the snapshot format: sketches of two sizes do not merge
/// well.
const LG_REGISTERS: u8 = 11;

const SIZE_IS_VALID: &str = "the register count is within the library's range";

impl Default for Distinct {
    fn default() -> Self {
        let sketch = HllSketch::new(LG_REGISTERS, HllType::Hll8).expect(SIZE_IS_VALID);
        Self {
            sketch,
            is_counted: false,
        }
    }
}

impl Distinct {
    /// Counts `hash` if it has not been seen before.
    pub fn insert(&mut self, hash: u64) {
        self.count();
        self.sketch.update(hash);
    }

    #[inline]
    fn count(&mut self) {
        if !self.is_counted {
            self.is_counted = true;
            meter::grow(Self::MOST_BYTES);
        }
    }

    /// Bytes on the heap, at most.
    pub(crate) fn bytes(&self) -> usize {
        if self.is_counted { Self::MOST_BYTES } else { 0 }
    }

    /// The registers and what the library keeps beside them.
    const MOST_BYTES: usize = (1 << LG_REGISTERS) + 256;

    /// Adds everything that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        if other.sketch.is_empty() {
            return;
        }
        self.count();
        self.sketch = union([&self.sketch, &other.sketch]).to_sketch(HllType::Hll8);
    }

    /// In the format of Apache DataSketches, which other engines merge. Their estimate is [`Distinct::estimate`], whether they merge
    /// several sketches or have one.
    pub fn to_datasketches(&self) -> Vec<u8> {
        // Merged with itself, a sketch has the same registers, and no longer says in which order hashes came: an engine that has only
        // this one would estimate by that order.
        let unordered = union([&self.sketch, &self.sketch]);
        unordered.to_sketch(HllType::Hll4).serialize()
    }

    /// The estimated number of distinct hashes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate is not negative"
    )]
    pub fn estimate(&self) -> u64 {
        self.sketch.composite_estimate().round() as u64
    }

    /// The number of distinct hashes is at most this, with 97.5 % confidence.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bound is not negative"
    )]
    pub fn at_most(&self) -> u64 {
        (self.sketch.upper_bound(NumStdDev::Two).round() as u64).max(self.estimate())
    }

    /// The number of distinct hashes is at least this, with 97.5 % confidence.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bound is not negative"
    )]
    pub fn at_least(&self) -> u64 {
        self.sketch.lower_bound(NumStdDev::Two).floor() as u64
    }
}

fn union<const MANY: usize>(sketches: [&HllSketch; MANY]) -> HllUnion {
    let mut union = HllUnion::new(LG_REGISTERS).expect(SIZE_IS_VALID);
    sketches.iter().for_each(|sketch| union.update(sketch));
    union
}

impl PartialEq for Distinct {
    fn eq(&self, other: &Self) -> bool {
        self.estimate() == other.estimate()
    }
}

impl Serialize for Distinct {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Four bits for each register instead of eight; more for the few that need them.
        let stored = union([&self.sketch]).to_sketch(HllType::Hll4);
        STANDARD.encode(stored.serialize()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let bytes = STANDARD
            .decode(String::deserialize(deserializer)?)
            .map_err(D::Error::custom)?;
        let sketch = HllSketch::deserialize(&bytes).map_err(D::Error::custom)?;
        if sketch.lg_config_k() != LG_REGISTERS {
            return Err(D::Error::custom("a sketch of another size"));
        }
        // The library counts empty entries of a list and leaves them out when it writes: that could not be read again.
        if sketch.serialize().len() != bytes.len() {
            return Err(D::Error::custom("a sketch with other entries than it announces"));
        }
        meter::charge(Self::MOST_BYTES)?;
        Ok(Self {
            sketch: union([&sketch]).to_sketch(HllType::Hll8),
            is_counted: true,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(hashes: impl Iterator<Item = u64>) -> Distinct {
        let mut distinct = Distinct::default();
        hashes.for_each(|hash| distinct.insert(hash));
        distinct
    }

    #[test]
    fn small_counts_are_exact_and_repeats_do_not_count() {
        assert_eq!(of((0..150).chain(0..150)).estimate(), 150);
    }

    #[test]
    fn bounds_enclose_the_estimate_and_small_counts_are_exact() {
        let few = of(0..150);
        assert_eq!(few.at_most(), 150);
        let many = of(0..100_000);
        assert!(many.at_least() < many.estimate() && many.estimate() < many.at_most());
        assert!(many.at_most() < 110_000, "{}", many.at_most());
    }

    #[test]
    fn large_counts_stay_within_four_standard_errors() {
        let estimate = of(0..1_000_000).estimate() as f64;
        assert!((estimate - 1e6).abs() < 1e6 * 4.0 * 0.023, "{estimate}");
    }

    #[test]
    fn merging_in_any_order_equals_counting_everything() {
        let whole = of(0..30_000).estimate();
        let (a, b, c) = (of(0..10_000), of(5_000..30_000), of(20_000..20_100));
        for parts in [[&a, &b, &c], [&c, &b, &a], [&b, &a, &c]] {
            let mut merged = Distinct::default();
            parts.iter().for_each(|part| merged.merge(part));
            assert_eq!(merged.estimate(), whole);
        }
    }

    #[test]
    fn a_stored_sketch_says_the_same_and_takes_up_half_a_byte_for_each_register() {
        for many in [0, 5, 100, 300, 5_000, 1_000_000] {
            let distinct = of(0..many);
            let text = serde_json::to_string(&distinct).unwrap();
            assert!(text.len() < 1_500, "{many}: {}", text.len());
            let back: Distinct = serde_json::from_str(&text).unwrap();
            let said = |one: &Distinct| (one.at_least(), one.estimate(), one.at_most());
            assert_eq!(said(&back), said(&distinct), "{many}");
            let (mut merged, mut counted) = (back, distinct);
            let more = of(many / 2..many * 3);
            merged.merge(&more);
            counted.merge(&more);
            assert_eq!(merged.estimate(), counted.estimate(), "{many}");
        }
    }

    /// As files before had them, with a byte for each register.
    #[test]
    fn a_sketch_of_an_old_file_is_read() {
        let distinct = of(0..5_000);
        let text = format!("{:?}", STANDARD.encode(distinct.sketch.serialize()));
        assert!(text.len() > 2_700, "{}", text.len());
        assert_eq!(serde_json::from_str::<Distinct>(&text).unwrap(), distinct);
    }

    #[test]
    fn a_stored_sketch_comes_back_and_a_damaged_one_is_refused() {
        let distinct = of(0..5_000);
        let text = serde_json::to_string(&distinct).unwrap();
        let back: Distinct = serde_json::from_str(&text).unwrap();
        assert_eq!(back.estimate(), distinct.estimate());
        assert!(serde_json::from_str::<Distinct>("\"AAAA\"").is_err());
    }

    #[test]
    fn a_sketch_that_announces_entries_which_it_does_not_have_is_refused() {
        for many in [5_u8, 100] {
            let text = serde_json::to_value(of(0..many.into())).unwrap();
            let mut bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
            let last = bytes.len() - 4;
            bytes[last..].fill(0);
            let forged = serde_json::from_value::<Distinct>(STANDARD.encode(bytes).into());
            assert!(forged.is_err(), "{many}: {forged:?}");
        }
    }

    #[test]
    fn an_engine_that_has_one_sketch_estimates_the_same() {
        let mut distinct = Distinct::default();
        for number in 0..5_000_u64 {
            distinct.insert(number);
            let theirs = HllSketch::deserialize(&distinct.to_datasketches()).unwrap();
            let off = (theirs.estimate() - distinct.estimate() as f64).abs();
            assert!(off <= 0.5, "{number}: {off}");
        }
    }
}

//! Distributions that have a median and a p99 and are log-normal between and beyond, as latencies and sizes are; and
//! numbers that look as if they were drawn, and are always the same.

use cqlens_window::Distribution;

/// The median and the p99.
pub(crate) type Range = (u64, u64);

/// So many values of such a distribution.
pub(crate) fn spread((p50, p99): Range, times: u64) -> Distribution {
    let mut distribution = Distribution::default();
    let sigma = (p99.max(1) as f64 / p50.max(1) as f64).ln() / Z_OF_P99;
    let mut left = times;
    for slice in 0..SLICES {
        let z = (f64::from(slice) - f64::from(SLICES - 1) / 2.0) * WIDTH;
        let share = (-z * z / 2.0).exp() * WIDTH / (2.0 * std::f64::consts::PI).sqrt();
        let part = whole(times as f64 * share).min(left);
        left -= part;
        distribution.record_n(whole(p50 as f64 * (sigma * z).exp()), part);
    }
    distribution.record_n(p50, left);
    distribution
}

const Z_OF_P99: f64 = 2.326;

/// A normal distribution is cut into so many slices, so many standard deviations wide each: 3.4 to either side.
const SLICES: u8 = 35;
const WIDTH: f64 = 0.2;

/// The nearest whole number; values of examples are small and positive.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "examples have no number beyond 2^53"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// A hash of a number (splitmix64).
pub(crate) fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A part between 0 and 1 that the number decides.
pub(crate) fn part(number: u64) -> f64 {
    (hash(number) >> 11) as f64 / (1_u64 << 53) as f64
}

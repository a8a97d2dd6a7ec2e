//! How long the points of a timeline are, so that they are few.

use jiff::Timestamp;

/// The hours of a week.
pub(super) const MOST_POINTS: i64 = 168;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Each a multiple of the one before, so that points join; what a clock shows, unlike 64 minutes. Days double. The first ones
/// are for windows of a few seconds: in minutes, half of a short test would be its beginning and its end.
const LENGTHS: [i64; 12] = [
    1,
    10,
    30,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
];

/// Points that begin at multiples of their length since 1970, in UTC: on the full hour, at midnight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    /// Seconds.
    length: i64,
    /// The first and the last second of it all; none before there is anything.
    span: Option<(i64, i64)>,
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            length: LENGTHS[0],
            span: None,
        }
    }
}

impl Grid {
    /// With a window from `first` to `last` in which a source watched for so many seconds.
    pub(super) fn with(self, first: Timestamp, last: Timestamp, seconds: f64) -> Self {
        let span = (first.as_second(), last.as_second());
        let mut length = LENGTHS[0];
        while (length as f64) < seconds * WHOLE {
            length = longer(length);
        }
        self.merged(&Self {
            length,
            span: Some(span),
        })
    }

    /// The grid that both fit.
    pub(super) fn merged(self, other: &Self) -> Self {
        let spans = self.span.into_iter().chain(other.span);
        let span = spans.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
        let mut length = self.length.max(other.length);
        if let Some((first, last)) = span {
            while last.div_euclid(length) - first.div_euclid(length) >= MOST_POINTS {
                length = longer(length);
            }
        }
        Self { length, span }
    }

    /// The length of a point.
    pub(super) fn point_seconds(&self) -> i64 {
        self.length
    }

    /// The point in which a millisecond is.
    pub(super) fn place(&self, millisecond: i64) -> i64 {
        millisecond.div_euclid(self.length * 1_000)
    }

    /// The millisecond at which a point begins.
    pub(super) fn start(&self, place: i64) -> i64 {
        place.saturating_mul(self.length * 1_000)
    }
}

/// A point is not shorter than the windows, or it would show what nobody knows: the minutes of an hourly window.
/// Windows end a moment early or late.
const WHOLE: f64 = 0.9;

fn longer(length: i64) -> i64 {
    let next = LENGTHS.iter().find(|next| **next > length);
    next.copied().unwrap_or(length * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_a_multiple_of_the_one_before() {
        let mut length = LENGTHS[0];
        for _ in 0..20 {
            assert_eq!(longer(length) % length, 0, "{length}");
            length = longer(length);
        }
    }
}

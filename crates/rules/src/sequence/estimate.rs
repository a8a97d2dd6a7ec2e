//! How far off a number may be that is estimated from a sample.

/// Between how many and how many operations there were, at 95 % (Wilson 1927), of so many that are estimated from a
/// `part` of the `looked_at`; the estimate itself where all executions were looked at.
pub(super) fn range(estimate: u64, (part, looked_at): (u64, u64), executions: u64) -> (u64, u64) {
    if looked_at >= executions || part == 0 {
        return (estimate, estimate);
    }
    let n = looked_at as f64;
    let share = (part as f64 / n).min(1.0);
    let middle = share + Z * Z / (2.0 * n);
    let off = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let [least, most] = [middle - off, middle + off].map(|end| end / (1.0 + Z * Z / n) / share);
    let of_estimate = |times: f64| cqlens_window::number::rounded(estimate as f64 * times);
    let least = of_estimate(least).clamp(part.min(estimate), estimate);
    let most = of_estimate(most).clamp(estimate, executions.max(estimate));
    (least, most)
}

/// Nineteen of twenty lie within so many standard deviations.
const Z: f64 = 1.96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_at_as_a_whole_is_exact() {
        assert_eq!(range(500, (500, 1_000), 1_000), (500, 500));
        assert_eq!(range(0, (0, 10), 1_000), (0, 0));
    }

    #[test]
    fn a_sample_has_its_range() {
        // A tenth of 10,000: three in ten, give or take 2.8 in a hundred.
        assert_eq!(range(3_000, (300, 1_000), 10_000), (2_724, 3_291));
        let (least, most) = range(3_000, (30, 100), 10_000);
        assert!(least < 2_300 && most > 3_900, "{least} to {most}");
        // All that were looked at: there are no more than were executed, and as many as were seen.
        let (least, most) = range(1_000, (50, 50), 1_000);
        assert!((900..950).contains(&least) && most == 1_000, "{least} to {most}");
        assert_eq!(range(20, (19, 19), 20).1, 20);
    }
}

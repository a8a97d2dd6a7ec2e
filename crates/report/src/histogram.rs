//! Distributions in the JSON form, so that others can draw them: pairs of the highest value of a step and how often values
//! up to it came, above those of the step before.

use serde::{Serialize, Serializer};

/// Steps of a distribution in the JSON form; more are put together in steps of equal ratio.
const MOST_STEPS: usize = 24;

/// Whether p50, p99 and the greatest say all of it: of one value, and where the steps have been forgotten.
#[expect(clippy::ptr_arg, reason = "serde asks for it")]
pub(super) fn is_told_by_quantiles(steps: &Vec<(u64, u64)>) -> bool {
    steps.len() < 2
}

/// Writes at most [`MOST_STEPS`] of them.
pub(super) fn serialize<S: Serializer>(steps: &[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    coarse(steps).serialize(serializer)
}

fn coarse(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return Vec::new();
    };
    if steps.len() <= MOST_STEPS {
        return steps.to_vec();
    }
    let log = |value: u64| (value.max(1) as f64).ln();
    let width = ((log(last.0) - log(first.0)) / MOST_STEPS as f64).max(f64::MIN_POSITIVE);
    let group = |value: u64| ((log(value) - log(first.0)) / width).ceil();
    let mut coarse: Vec<(u64, u64)> = Vec::with_capacity(MOST_STEPS + 1);
    for &(value, count) in steps {
        match coarse.last_mut() {
            Some(step) if group(step.0).total_cmp(&group(value)).is_eq() => {
                *step = (value, step.1.saturating_add(count));
            }
            _ => coarse.push((value, count)),
        }
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_steps_stay_and_many_are_put_together_without_losing_any() {
        let few = [(1, 7), (40, 2)];
        assert_eq!(coarse(&few), few);
        let many: Vec<_> = (0..1_000).map(|value| (value * value, 3)).collect();
        let coarse = coarse(&many);
        assert!(coarse.len() <= MOST_STEPS + 1, "{}", coarse.len());
        assert_eq!(coarse.iter().map(|step| step.1).sum::<u64>(), 3_000);
        assert_eq!(coarse.last().map(|step| step.0), Some(998_001));
        assert!(coarse.is_sorted_by_key(|step| step.0));
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let steps: Vec<_> = (0..40).map(|at| (u64::MAX - 40 + at, u64::MAX / 40)).collect();
        assert!(coarse(&steps).len() <= MOST_STEPS + 1);
    }
}

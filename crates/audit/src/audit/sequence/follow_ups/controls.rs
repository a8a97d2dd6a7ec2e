//! What a source is compared with: the values of another execution of the same statement.
//!
//! What follows a source asks for its values. What comes by chance asks for those of another execution as often: where
//! it hardly does, even a few values that come back all the time are no chance.

use std::sync::Arc;

use crate::audit::count::bounded::BoundedMap;

/// Values of one execution that are kept.
pub(super) const MOST_VALUES: usize = 128;

/// The values of the latest executions, by statement and actor.
#[derive(Debug)]
pub(super) struct Controls(BoundedMap<Latest>);

/// The latest execution, and the latest that asked for something else than it.
#[derive(Debug, Default)]
struct Latest {
    asked: u64,
    values: Arc<[u64]>,
    others: Arc<[u64]>,
}

impl Controls {
    /// Statements of actors whose values are kept.
    const MOST: usize = 1_024;

    pub(super) fn new() -> Self {
        Self(BoundedMap::new(Self::MOST))
    }

    /// The values of another execution, which asked for something else; empty before there was one.
    pub(super) fn of(&self, statement: u64, asked: u64) -> Arc<[u64]> {
        match self.0.get(statement) {
            Some(latest) if latest.asked != asked => Arc::clone(&latest.values),
            Some(latest) => Arc::clone(&latest.others),
            None => Arc::default(),
        }
    }

    /// Keeps the values of an execution.
    pub(super) fn keep(&mut self, statement: u64, asked: u64, values: &[u64]) {
        let (latest, _) = self.0.entry(statement, Latest::default);
        let values: Arc<[u64]> = values.iter().take(MOST_VALUES).copied().collect();
        if latest.asked != asked {
            latest.others = std::mem::take(&mut latest.values);
            latest.asked = asked;
        }
        latest.values = values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_of_an_execution_that_asked_for_something_else() {
        let mut controls = Controls::new();
        let of = |controls: &Controls, asked| controls.of(7, asked).to_vec();
        assert!(of(&controls, 1).is_empty());
        controls.keep(7, 1, &[10, 11]);
        assert!(of(&controls, 1).is_empty(), "the same");
        assert_eq!(of(&controls, 2), [10, 11]);
        controls.keep(7, 2, &[20]);
        assert_eq!((of(&controls, 1), of(&controls, 2)), (vec![20], vec![10, 11]));
        controls.keep(7, 2, &[21]);
        assert_eq!((of(&controls, 3), of(&controls, 2)), (vec![21], vec![10, 11]));
        assert!(controls.of(8, 2).is_empty(), "another statement");
    }

    #[test]
    fn a_large_execution_has_some_of_its_values() {
        let mut controls = Controls::new();
        let values: Vec<u64> = (0..1_000).collect();
        controls.keep(7, 1, &values);
        assert_eq!(controls.of(7, 2).len(), MOST_VALUES);
    }
}

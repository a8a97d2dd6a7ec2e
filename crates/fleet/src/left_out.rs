//! What a store has that cannot be read as a window: counted, the first of them by name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// The first of them, escaped.
    pub names: Vec<String>,
}

/// How many are named.
const MOST_NAMES: usize = 5;

/// Of a name that is shown, so many characters.
const MOST_CHARACTERS: usize = 200;

/// Where listings note what they leave out.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<LeftOut>>);

impl Notes {
    /// Counts one, and keeps its name if it is one of the first.
    pub(super) fn add(&self, name: &str) {
        let mut left_out = self.lock();
        left_out.count += 1;
        if left_out.names.len() < MOST_NAMES {
            let shown = name.chars().take(MOST_CHARACTERS);
            left_out.names.push(shown.flat_map(char::escape_debug).collect());
        }
    }

    /// What was left out since the last call.
    pub(super) fn take(&self) -> LeftOut {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, LeftOut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

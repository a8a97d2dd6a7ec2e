//! What the statements of a run have to do with each other.

use std::collections::BTreeMap;

use cqlens_audit::audit::Once;
use cqlens_cql::plan::Flag;
use cqlens_rules::Finding;
use cqlens_window::{PatternId, Window};
use jiff::Timestamp;

use super::source::PlacedStatement;

/// The writes of a run, each once, and where they stand.
pub(super) struct RunWrites {
    pub(super) window: Window,
    places: BTreeMap<PatternId, PlacedStatement>,
}

/// More of them are not compared: their templates are kept until the end.
const MOST: usize = 10_000;

impl Default for RunWrites {
    fn default() -> Self {
        Self {
            window: Window::new(Timestamp::UNIX_EPOCH, "statements"),
            places: BTreeMap::new(),
        }
    }
}

impl RunWrites {
    /// Takes note of a statement if it writes.
    pub(super) fn note(&mut self, once: Once, place: &PlacedStatement) {
        let Once { id, mut window } = once;
        if let Some(pattern) = window.patterns.remove(&id)
            && pattern.head.kind.is_write()
            && self.places.len() < MOST
            && !self.places.contains_key(&id)
        {
            self.window.patterns.insert(id, pattern);
            self.places.insert(id, place.clone());
        }
    }

    /// The place of a finding on several: of the first write without a condition, which is the one to change.
    pub(super) fn place(&self, finding: &Finding) -> Option<&PlacedStatement> {
        let is_plain = |id: &&PatternId| {
            let pattern = self.window.patterns.get(id);
            pattern.is_some_and(|pattern| !pattern.is(Flag::Lwt))
        };
        let places = finding.patterns.iter().filter(is_plain);
        places.filter_map(|id| self.places.get(id)).next()
    }
}

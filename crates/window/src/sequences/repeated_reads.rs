//! Reads that are sent again and again with the same values.

use serde::{Deserialize, Serialize};

use crate::{Distinct, counts::raise};

/// The same reads with the same values, one after the other: [`RepeatedReads::FEWEST`] or more within a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RepeatedReads {
    /// How often that was.
    pub runs: u64,
    /// Reads of all of them.
    pub reads: u64,
    /// What was read, each counted once for each client.
    pub keys: Distinct,
    /// Those in quick succession, also where others of the same statement come in between.
    #[serde(default, skip_serializing_if = "Bursts::is_empty")]
    pub bursts: Bursts,
}

/// The same reads with the same values, [`RepeatedReads::FEWEST`] or more within 50 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// How often that was.
    pub runs: u64,
    /// Reads of all of them.
    pub reads: u64,
    /// How often as many came in the 50 ms after that, whether they did before or not: what chance brings.
    pub runs_by_chance: u64,
    /// Reads of all of those.
    pub reads_by_chance: u64,
}

impl RepeatedReads {
    /// Fewer within a second are no habit: a page has a header and a footer.
    pub const FEWEST: u64 = 5;

    pub(super) fn merge(&mut self, other: &Self) {
        raise(&mut self.runs, other.runs);
        raise(&mut self.reads, other.reads);
        self.keys.merge(&other.keys);
        raise(&mut self.bursts.runs, other.bursts.runs);
        raise(&mut self.bursts.reads, other.bursts.reads);
        raise(&mut self.bursts.runs_by_chance, other.bursts.runs_by_chance);
        raise(&mut self.bursts.reads_by_chance, other.bursts.reads_by_chance);
    }
}

impl Bursts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

//! How much detail of a window goes into its file, and into those of hours and days.
//!
//! What is counted stays as it is. Most of a file are light partitions, rows of samples and steps of histograms; of
//! these, less is kept as windows age.

use super::{Distribution, Window};

/// How much detail a window keeps in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// A window as it was observed.
    Observed,
    /// The windows of an hour.
    Hour,
    /// Those of a day.
    Day,
}

impl Detail {
    /// Fewer partitions than these of a table are kept: reports show ten.
    pub(super) const PARTITIONS: usize = 12;

    /// The same by rows and by bytes, of which reports show three.
    pub(super) const WEIGHTS: usize = 6;

    /// Rows in the sample of a table. Those of several windows together are as many as there is room for, whatever each
    /// has; a few minutes alone do not show how partitions grow.
    pub(super) fn rows(self) -> u16 {
        match self {
            Self::Observed => 24,
            Self::Hour | Self::Day => 64,
        }
    }

    /// What is kept of a distribution.
    pub(super) fn coarsen(self, distribution: &mut Distribution) {
        match self {
            Self::Observed => {}
            Self::Hour => distribution.coarsen(5),
            Self::Day => distribution.coarsen(4),
        }
    }
}

impl Window {
    /// Leaves out what a file of this detail does not keep. Counts, sums, the smallest and largest values and distinct
    /// counts stay as they are; quantiles and the counts of heavy partitions are known with a larger error.
    pub fn condense(&mut self, detail: Detail) {
        for table in self.tables.values_mut() {
            table.condense(detail);
        }
        for pattern in self.patterns.values_mut() {
            let distributions = pattern.distributions_mut();
            distributions.into_iter().for_each(|one| detail.coarsen(one));
        }
        self.sequences
            .distributions_mut()
            .for_each(|one| detail.coarsen(one));
    }
}

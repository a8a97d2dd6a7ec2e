//! The verdicts of a run, counted by question, as a table.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::{Category, Verdict, Verdicts};

/// How often both agreed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<Category, Counts>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) agreed: usize,
    /// Refusals that cqlens leaves to the server.
    pub(crate) unforeseen: usize,
    pub(crate) disagreed: usize,
    /// Answers of the server that were made wrong, which was noticed.
    pub(crate) noticed: usize,
}

impl Tally {
    /// Counts verdicts.
    pub(crate) fn add(&mut self, verdicts: &Verdicts) {
        for (category, verdict) in &verdicts.0 {
            let counts = self.counts.entry(*category).or_default();
            match verdict {
                Verdict::Agreed => counts.agreed += 1,
                Verdict::Unforeseen(_) => counts.unforeseen += 1,
                Verdict::Disagreed(_) => counts.disagreed += 1,
            }
        }
    }

    pub(crate) fn add_noticed(&mut self, category: Category) {
        self.counts.entry(category).or_default().noticed += 1;
    }

    pub(crate) fn of(&self, category: Category) -> Counts {
        self.counts.get(&category).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:40} {:>7} {:>10} {:>9} {:>7}",
            "question", "agreed", "unforeseen", "disagreed", "noticed"
        )?;
        for category in Category::ALL {
            let counts = self.of(category);
            writeln!(
                out,
                "{:40} {:>7} {:>10} {:>9} {:>7}",
                category.question(),
                counts.agreed,
                counts.unforeseen,
                counts.disagreed,
                counts.noticed
            )?;
        }
        Ok(())
    }
}

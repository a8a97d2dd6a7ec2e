//! Copies in several tables of which there is nothing to be done: one finding for each application.

use super::{Context, Finding, Pattern, PatternId, Severity, dual_write_without_batch::ABOUT, number, often};
use crate::rules::application;

/// Sets of tables of one application whose copies are only worth knowing: said once, with the tables below.
pub(super) struct Several<'a> {
    pub(super) patterns: Vec<(PatternId, &'a Pattern)>,
    /// The tables of each, and how often.
    pub(super) sets: Vec<(String, u64)>,
    pub(super) how: &'static str,
    /// The statements of the most frequent in a logged batch.
    pub(super) batch: Option<String>,
}

impl Several<'_> {
    pub(super) fn finding(mut self, senders: &str, context: &Context<'_>) -> Finding {
        self.sets
            .sort_by(|(left, few), (right, many)| many.cmp(few).then(left.cmp(right)));
        let times: u64 = self.sets.iter().map(|(_, times)| times).sum();
        let title = format!(
            "{} writes the same values to {} sets of tables {}{}",
            application::subject(senders),
            number::count(self.sets.len() as u64),
            self.how,
            often(times, application::watch(&self.patterns, context))
        );
        let shown = self.sets.iter().take(MOST_SETS);
        let mut sets = shown
            .map(|(names, times)| format!("{names} {}", number::plural(*times, "time", "times")))
            .collect::<Vec<_>>()
            .join("; ");
        if let Some(more @ 1..) = self.sets.len().checked_sub(MOST_SETS) {
            sets += &format!("; and {more} more");
        }
        Finding::on_all(&ABOUT, Severity::Info, self.patterns, context)
            .about(senders)
            .title(title)
            .first("operations", times)
            .first("written_together", sets)
            .suggest(self.batch)
    }
}

const MOST_SETS: usize = 10;

//! Copies in several tables of which there is nothing to be done: one finding for each application.

use super::{
    Context, Finding, Pattern, PatternId, Severity, TableName, dual_write_without_batch::ABOUT, number, often,
};
use crate::{CopiedTables, EvidenceValue, application};

/// Sets of tables of one application whose copies are only worth knowing: said once, with the tables below.
pub(super) struct Several<'a> {
    pub(super) patterns: Vec<(PatternId, &'a Pattern)>,
    /// The tables of each, and how often.
    pub(super) sets: Vec<(Vec<TableName>, u64)>,
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
            application::subject(senders, context),
            number::count(self.sets.len() as u64),
            self.how,
            often(times, application::watch(&self.patterns, context))
        );
        let more = self.sets.len().saturating_sub(MOST_SETS);
        self.sets.truncate(MOST_SETS);
        let sets = self.sets.into_iter().map(|(tables, operations)| CopiedTables {
            tables: tables.iter().map(ToString::to_string).collect(),
            operations,
        });
        let sets = EvidenceValue::Copies(sets.collect());
        let finding = Finding::on_all(&ABOUT, Severity::Info, self.patterns, context)
            .about(senders)
            .title(title)
            .first("operations", times);
        let finding = match more {
            0 => finding,
            more => finding.first("copied_tables_left_out", more),
        };
        finding.first("copied_tables", sets).suggest(self.batch)
    }
}

const MOST_SETS: usize = 10;

//! Where the time goes: what the ranking of statements shows beside what the report says of each.

use askama::filters::Safe;

use super::ReportPage;
use crate::{PatternReport, ranking::RankedStatement};
use cqlens_window::number;

impl ReportPage<'_> {
    /// The measured time of all statements.
    pub(super) fn measured(&self) -> String {
        let micros: u64 = self.report.patterns.iter().map(|pattern| pattern.time_us).sum();
        number::seconds(micros as f64 / 1_000_000.0)
    }

    /// Percent of the longest bar.
    pub(super) fn bar_width(&self, ranked: &RankedStatement<'_>) -> String {
        format!("{:.1}", ranked.of_greatest * 100.0)
    }

    /// A statement's rate; nothing where it has no timeline.
    pub(super) fn pattern_sparkline(&self, pattern: &PatternReport) -> Safe<String> {
        let course = self.report.pattern_over_time(pattern.id);
        course.map_or_else(
            || Safe(String::new()),
            |course| self.sparkline(course, &crate::timeline::REQUESTS),
        )
    }
}

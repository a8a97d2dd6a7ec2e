//! The page table by table: the list of tables at its top, and problems where their tables are.

use super::{
    ReportPage,
    index::{Ranked, full_name, name_of},
};
use crate::TableReport;

/// Tables of the first screen; more are below.
const MOST_LINES: usize = 20;

/// A table with problems, in one line.
pub(super) struct TableLine<'a> {
    pub(super) table: &'a TableReport,
    /// Its worst problem.
    pub(super) worst: Ranked<'a>,
    /// Those that are on it.
    pub(super) problems: &'a [Ranked<'a>],
}

impl<'a> ReportPage<'a> {
    pub(super) fn is_by_table(&self) -> bool {
        self.report.by_table.is_some()
    }

    /// Where further problems are.
    pub(super) fn place_of_problems(&self) -> &'static str {
        match self.is_by_table() {
            true => "tables",
            false => "details",
        }
    }

    /// The problems that have a place of their own on the page, apart from tables.
    pub(super) fn detailed(&self) -> Vec<Ranked<'a>> {
        let problems = self.index.problems.iter().copied();
        problems
            .filter(|ranked| !self.is_by_table() || self.table_of(ranked).is_none())
            .collect()
    }

    /// The problems that stand in the section of a table.
    pub(super) fn problems_below(&self, table: &TableReport) -> Vec<Ranked<'a>> {
        let problems = self.index.problems_on(table).iter().copied();
        problems
            .filter(|ranked| self.is_by_table() && self.table_of(ranked) == Some(name_of(table)))
            .collect()
    }

    /// The problems that the section of a table only leads to.
    pub(super) fn problems_linked(&self, table: &TableReport) -> Vec<&Ranked<'a>> {
        let name = name_of(table);
        let problems = self.index.problems_on(table).iter();
        problems
            .filter(|ranked| !self.is_by_table() || self.table_of(ranked).as_ref() != Some(&name))
            .collect()
    }

    /// The table of a problem, if the page has it.
    fn table_of(&self, ranked: &Ranked<'_>) -> Option<String> {
        let problem = ranked.problem;
        let name = full_name(problem.keyspace.as_deref(), problem.table.as_deref());
        name.filter(|name| self.index.has_table(name))
    }

    /// The tables with problems, the worst first.
    pub(super) fn table_lines(&self) -> Vec<TableLine<'_>> {
        let tables = self.tables_with_problems().into_iter().filter_map(|table| {
            let problems = self.index.problems_on(table);
            let worst = *problems.first()?;
            Some(TableLine {
                table,
                worst,
                problems,
            })
        });
        tables.take(MOST_LINES).collect()
    }

    /// Tables with problems that are not in the list.
    pub(super) fn more_tables(&self) -> usize {
        self.tables_with_problems().len().saturating_sub(MOST_LINES)
    }
}

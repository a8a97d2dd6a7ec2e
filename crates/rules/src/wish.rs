//! CQL that would help, written once all findings are known: for those that a report shows first, within a budget.
//!
//! A rule says what it wishes for. To write a table is the dearest part of a judgement: a client that sends thousands
//! of shapes would get as many tables, in as many reports.

use std::collections::BTreeSet;

use super::{
    Context, Finding,
    read::{
        suggest::{self, Suggestion},
        with_suggestion,
    },
};
use cqlens_window::{Pattern, PatternId, number};

/// What is to be written for a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// The table that would serve the pattern, which the finding then advises.
    Table(PatternId),
    /// A table for each of these.
    Tables(Vec<PatternId>),
    /// The table of the pattern with its rows in the opposite order.
    InReverse(PatternId),
    /// The pattern as a job should send it: range after range.
    InRanges(PatternId),
    /// The pattern for one of the keys that it lists.
    OfOneKey(PatternId),
    /// A table in the place of an index.
    ReplaceIndex {
        /// Those that use the index.
        reads: Vec<PatternId>,
        /// The index as CQL names it, where it may be dropped.
        drop: Option<String>,
    },
}

/// What a report has no CQL of, because there would be too much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Findings without any.
    pub findings: u64,
    /// Further statements of findings that have some.
    pub statements: u64,
}

impl Unwritten {
    /// Says so in a sentence; nothing where all was written.
    pub fn sentence(self) -> Option<String> {
        let of = |count: u64, one: &str, many: &str| (count > 0).then(|| number::plural(count, one, many));
        let counts = [
            of(self.findings, "finding", "findings"),
            of(self.statements, "further statement", "further statements"),
        ];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        (!counts.is_empty()).then(|| {
            format!(
                "There was not enough room for all suggestions: CQL is missing for {}.",
                counts.join(" and ")
            )
        })
    }
}

/// How much may still be written.
#[derive(Debug)]
struct CqlBudget {
    statements: usize,
    bytes: usize,
}

/// Statements that CQL is written for in one report.
const MOST_STATEMENTS: usize = 1_000;

/// Statements that CQL is written for in one finding: more examples explain nothing more.
const MOST_OF_A_FINDING: usize = 20;

/// Bytes of CQL in one report: some hundred tables of some hundred columns.
const MOST_BYTES: usize = 4 << 20;

/// Writes the CQL that these findings wish for, in their order.
pub(super) fn fulfil(findings: &mut [Finding], context: &Context<'_>) -> Unwritten {
    let mut budget = CqlBudget {
        statements: MOST_STATEMENTS,
        bytes: MOST_BYTES,
    };
    let mut unwritten = Unwritten::default();
    for finding in findings {
        let wishes = std::mem::take(&mut finding.wishes);
        let statements: usize = wishes.iter().map(Wish::statements).sum();
        if statements > 0 && budget.is_spent() {
            unwritten.findings += 1;
            continue;
        }
        let mut writer = WishWriter {
            context,
            left: MOST_OF_A_FINDING.min(budget.statements),
            written: finding.suggested_cql.iter().cloned().collect(),
        };
        let before = writer.left;
        for (at, wish) in wishes.into_iter().enumerate() {
            unwritten.statements += writer.write(finding, wish, at == 0) as u64;
        }
        budget.statements -= before - writer.left;
        let bytes: usize = finding.suggested_cql.iter().map(String::len).sum();
        budget.bytes = budget.bytes.saturating_sub(bytes);
    }
    unwritten
}

impl CqlBudget {
    fn is_spent(&self) -> bool {
        self.statements == 0 || self.bytes == 0
    }
}

impl Wish {
    fn statements(&self) -> usize {
        match self {
            Self::Tables(patterns) => patterns.len(),
            // Of the reads of an index, one is enough.
            Self::ReplaceIndex { .. }
            | Self::Table(_)
            | Self::InReverse(_)
            | Self::InRanges(_)
            | Self::OfOneKey(_) => 1,
        }
    }
}

/// Writes what one finding wishes for.
struct WishWriter<'c, 'a> {
    context: &'c Context<'a>,
    /// Statements that it may still try.
    left: usize,
    /// What the finding has, each once.
    written: BTreeSet<String>,
}

impl<'a> WishWriter<'_, 'a> {
    /// How many statements there was no room for. The advice follows what is wished for first.
    fn write(&mut self, finding: &mut Finding, wish: Wish, is_first: bool) -> usize {
        let context = self.context;
        match wish {
            Wish::Table(id) => self.each(finding, vec![id], |finding, pattern| {
                let suggestion = suggest::table_for(pattern, context);
                with_suggestion(finding, is_first.then_some(pattern), suggestion)
            }),
            Wish::Tables(ids) => self.each(finding, ids, |_, pattern| table(pattern, context)),
            Wish::InReverse(id) => self.each(finding, vec![id], |_, pattern| {
                suggest::in_reverse(pattern, context).unwrap_or_default()
            }),
            Wish::InRanges(id) => self.each(finding, vec![id], |_, pattern| {
                suggest::in_ranges(pattern, context).into_iter().collect()
            }),
            Wish::OfOneKey(id) => self.each(finding, vec![id], |_, pattern| {
                suggest::of_one_key(pattern, context).into_iter().collect()
            }),
            Wish::ReplaceIndex { reads, drop } => {
                let mut patterns = reads.into_iter().filter_map(|id| self.take(id));
                let found = patterns.find_map(|pattern| suggest::table_for(pattern, context));
                let cql = found.map_or_else(Vec::new, |table| replacing(table, drop));
                self.add(finding, cql);
                0
            }
        }
    }

    fn each(
        &mut self,
        finding: &mut Finding,
        ids: Vec<PatternId>,
        write: impl Fn(&mut Finding, &'a Pattern) -> Vec<String>,
    ) -> usize {
        let mut unwritten = 0;
        for id in ids {
            if self.left == 0 {
                unwritten += 1;
            } else if let Some(pattern) = self.take(id) {
                let cql = write(finding, pattern);
                self.add(finding, cql);
            }
        }
        unwritten
    }

    fn take(&mut self, id: PatternId) -> Option<&'a Pattern> {
        self.left = self.left.checked_sub(1)?;
        self.context.window.patterns.get(&id)
    }

    /// What stands there already is not said again.
    fn add(&mut self, finding: &mut Finding, cql: Vec<String>) {
        for cql in cql {
            if self.written.insert(cql.clone()) {
                finding.suggested_cql.push(cql);
            }
        }
    }
}

fn table(pattern: &Pattern, context: &Context<'_>) -> Vec<String> {
    let suggestion = suggest::table_for(pattern, context);
    suggestion.map_or_else(Vec::new, |suggestion| suggestion.cql)
}

fn replacing(table: Suggestion, drop: Option<String>) -> Vec<String> {
    // A table that is there already takes one step.
    let step = if table.existing.is_none() { "5. " } else { "" };
    let drop =
        drop.map(|index| format!("-- {step}once no query uses the index any more:\n-- DROP INDEX {index};"));
    table.cql.into_iter().chain(drop).collect()
}

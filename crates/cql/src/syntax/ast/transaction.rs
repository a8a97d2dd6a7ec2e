//! `BEGIN TRANSACTION`: reads, conditions on what they found, and writes, of which a part may refer to what was read.

use std::collections::BTreeSet;

use super::{Assignment, InsertSource, Modification, Name, RelationOperator, Select, Term};
use crate::syntax::Span;

/// `BEGIN TRANSACTION … COMMIT TRANSACTION` (Cassandra 6.0).
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction<'text> {
    /// `LET name = (SELECT …)`, in the order of the text.
    pub lets: Vec<Let<'text>>,
    /// The rows that it responds with.
    pub returning: Option<Returning<'text>>,
    /// `IF … THEN`, all joined by `AND`; none without an `IF`.
    pub conditions: Vec<RowCondition<'text>>,
    /// What is written; only if the conditions hold.
    pub updates: Vec<Modification<'text>>,
}

impl<'text> Transaction<'text> {
    /// What it writes of rows that it has read, in the order of the text.
    pub fn written_references(&self) -> Vec<&RowReference<'text>> {
        let mut references = Vec::new();
        for update in &self.updates {
            match update {
                Modification::Insert(insert) => {
                    if let InsertSource::Values { values, .. } = &insert.source {
                        references.extend(values.iter().filter_map(Term::as_reference));
                    }
                }
                Modification::Update(update) => {
                    let values = update.assignments.iter().map(Assignment::value);
                    references.extend(values.filter_map(Term::as_reference));
                }
                Modification::Delete(_) => {}
            }
        }
        references
    }

    /// `LET`s of which neither a condition nor a write nor the response uses anything.
    pub fn unused_lets(&self) -> impl Iterator<Item = &Let<'text>> {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        if let Some(Returning::References(references)) = &self.returning {
            used.extend(references.iter().map(|reference| reference.row.as_str()));
        }
        used.extend(
            self.conditions
                .iter()
                .map(|condition| condition.reference.row.as_str()),
        );
        used.extend(
            self.written_references()
                .iter()
                .map(|reference| reference.row.as_str()),
        );
        self.lets
            .iter()
            .filter(move |read| !used.contains(read.name.as_str()))
    }
}

/// A row that is read under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Let<'text> {
    /// The name as it is written: Cassandra does not lower its letters.
    pub name: Name<'text>,
    /// The read, of which no clause but `WHERE` and `LIMIT` is allowed.
    pub select: Select<'text>,
}

/// What a transaction responds with.
#[derive(Debug, Clone, PartialEq)]
pub enum Returning<'text> {
    /// `SELECT … FROM …`
    Select(Box<Select<'text>>),
    /// `SELECT row.column, …`: parts of the rows that `LET` read; never empty.
    References(Vec<RowReference<'text>>),
}

/// `row`, `row.column`, or a part of that column.
#[derive(Debug, Clone, PartialEq)]
pub struct RowReference<'text> {
    /// The name that a `LET` gave the row, as it is written.
    pub row: Name<'text>,
    /// A [`Term::Column`] with its name as it is written, or fields and elements of one.
    pub part: Option<Box<Term<'text>>>,
    /// From the row's name to the end of the part.
    pub span: Span,
}

/// A condition of `IF … THEN`.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCondition<'text> {
    /// What is compared.
    pub reference: RowReference<'text>,
    /// How: a comparison, `IS NULL` or `IS NOT NULL`. That of the text also where the value stands on the left.
    pub operator: RelationOperator,
    /// With what; none after `IS`.
    pub value: Option<Term<'text>>,
    /// `value operator reference`.
    pub is_value_first: bool,
    /// All of it.
    pub span: Span,
}

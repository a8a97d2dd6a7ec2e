//! Transactions of Cassandra 6.0: all reads first, then the conditions, then all writes or none.

use std::{cmp::Ordering, sync::Arc};

use bytes::Bytes;
use cqlens_cql::syntax::ast::{
    RelationOperator, Returning, RowCondition, RowReference, Select, Term, Transaction,
};
use cqlens_proto::types::CqlType;

use super::answer::{Answer, Outcome, ResultColumn, RowSet};
use super::bind;
use super::database::Database;
use super::execution::Execution;
use super::failure::Failure;
use super::layout::Layout;
use super::statement::{select, writable};
use super::store::order;
use super::write::modification;

/// The rows that `LET` has read, by the names that it gave them.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedRows {
    rows: Vec<NamedRow>,
}

#[derive(Debug, Clone)]
struct NamedRow {
    name: String,
    columns: Vec<ResultColumn>,
    /// None if there is no such row.
    values: Option<Vec<Option<Bytes>>>,
}

impl NamedRows {
    /// What a reference stands for: its type, and the value that was read.
    ///
    /// # Errors
    /// Rows and columns that were not read, and parts of columns.
    pub(super) fn value(&self, reference: &RowReference<'_>) -> Result<(CqlType, Option<Bytes>), Failure> {
        let row = self.row(reference)?;
        let Some(Term::Column(name)) = reference.part.as_deref() else {
            return Err(parts_only());
        };
        let place = row.columns.iter().position(|column| column.name == name.as_str());
        let place = place.ok_or_else(|| {
            Failure::invalid(format!("Undefined column name {}.{}", row.name, name.as_str()))
        })?;
        let value = row.values.as_ref().and_then(|values| values[place].clone());
        Ok((row.columns[place].column_type.clone(), value))
    }

    fn row(&self, reference: &RowReference<'_>) -> Result<&NamedRow, Failure> {
        let name = reference.row.as_str();
        let row = self.rows.iter().find(|row| row.name == name);
        row.ok_or_else(|| unknown_row(name))
    }
}

/// The table that a reference reads, and the place of the column in it.
///
/// # Errors
/// Rows that are not read, columns that there are not, and parts of columns.
pub(super) fn referred(
    reference: &RowReference<'_>,
    transaction: &Transaction<'_>,
    database: &mut Database,
    keyspace: Option<&str>,
) -> Result<(Arc<Layout>, usize), Failure> {
    let name = reference.row.as_str();
    let read = transaction.lets.iter().find(|read| read.name.as_str() == name);
    let read = read.ok_or_else(|| unknown_row(name))?;
    let Some(Term::Column(part)) = reference.part.as_deref() else {
        return Err(parts_only());
    };
    let layout = database.layout(&read.select.table, keyspace)?;
    let index = layout.column(part.as_str())?.index;
    Ok((layout, index))
}

/// What a response calls a part of a row: `row.column`.
///
/// # Errors
/// As [`referred`].
pub(super) fn result_column(
    reference: &RowReference<'_>,
    transaction: &Transaction<'_>,
    database: &mut Database,
    keyspace: Option<&str>,
) -> Result<ResultColumn, Failure> {
    let (layout, index) = referred(reference, transaction, database, keyspace)?;
    let column = &layout.columns[index];
    let name = format!("{}.{}", reference.row.as_str(), column.name);
    Ok(layout.result_column(&name, &column.cql_type))
}

fn unknown_row(name: &str) -> Failure {
    Failure::invalid(format!("Cannot resolve reference to tuple '{name}'."))
}

fn parts_only() -> Failure {
    Failure::invalid("This stand-in node refers to whole columns of rows only")
}

/// Runs a transaction.
///
/// # Errors
/// As its statements, tables that no transaction may touch, and what this node does not have.
pub(super) fn run(
    transaction: &Transaction<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<Answer, Failure> {
    let mut execution = Execution {
        page_size: None,
        is_in_transaction: true,
        ..execution.clone()
    };
    execution.named_rows = named_rows(transaction, &execution, database)?;
    let rows = match &transaction.returning {
        None => None,
        Some(Returning::References(references)) => {
            Some(returned(references, transaction, &execution, database)?)
        }
        Some(Returning::Select(select)) => Some(read(select, &execution, database)?),
    };
    let mut mutations = Vec::new();
    for update in &transaction.updates {
        let layout = writable(update.table(), &execution, database)?;
        check_mode(update.table().name.as_str(), &layout.keyspace, database)?;
        mutations.extend(modification::mutations(update, &layout, &execution)?);
    }
    let conditions = transaction.conditions.iter();
    let holds: Result<Vec<bool>, Failure> =
        conditions.map(|condition| holds(condition, &execution)).collect();
    if holds?.into_iter().all(|holds| holds) {
        database.write(mutations, execution.now)?;
    }
    Ok(Answer {
        outcome: Outcome::Rows(rows.unwrap_or_else(|| RowSet::new(Vec::new(), Vec::new()))),
        warnings: Vec::new(),
    })
}

/// Parts of the rows that were read, as one row.
fn returned(
    references: &[RowReference<'_>],
    transaction: &Transaction<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<RowSet, Failure> {
    let mut columns = Vec::new();
    let mut values = Vec::new();
    for reference in references {
        columns.push(result_column(
            reference,
            transaction,
            database,
            execution.keyspace,
        )?);
        values.push(execution.named_rows.value(reference)?.1);
    }
    Ok(RowSet::new(columns, vec![values]))
}

fn named_rows(
    transaction: &Transaction<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<NamedRows, Failure> {
    let mut rows = Vec::new();
    for named in &transaction.lets {
        let read = read(&named.select, execution, database)?;
        rows.push(NamedRow {
            name: named.name.as_str().to_owned(),
            columns: read.columns,
            values: read.rows.into_iter().next(),
        });
    }
    Ok(NamedRows { rows })
}

fn read(
    statement: &Select<'_>,
    execution: &Execution<'_>,
    database: &mut Database,
) -> Result<RowSet, Failure> {
    let layout = database.layout(&statement.table, execution.keyspace)?;
    check_mode(&layout.name, &layout.keyspace, database)?;
    match select(statement, execution, database)?.outcome {
        Outcome::Rows(rows) => Ok(rows),
        _ => Err(Failure::invalid("A SELECT has no rows")),
    }
}

fn check_mode(table: &str, keyspace: &str, database: &Database) -> Result<(), Failure> {
    let table = database.schema.table(keyspace, table);
    match table.is_some_and(|table| table.is_transactional()) {
        true => Ok(()),
        false => Err(Failure::invalid(
            "Accord transactions are disabled on table (See transactional_mode in table options)",
        )),
    }
}

fn holds(condition: &RowCondition<'_>, execution: &Execution<'_>) -> Result<bool, Failure> {
    let rows = &execution.named_rows;
    let is_there = match condition.reference.part {
        None => rows.row(&condition.reference)?.values.is_some(),
        Some(_) => rows.value(&condition.reference)?.1.is_some(),
    };
    match (condition.operator, &condition.value) {
        (RelationOperator::IsNull, _) => Ok(!is_there),
        (RelationOperator::IsNotNull, _) => Ok(is_there),
        (operator, Some(term)) => {
            let (cql_type, found) = rows.value(&condition.reference)?;
            let given = bind::term(term, &cql_type, execution)?.value();
            // Nothing compares with null.
            let Some((found, given)) = found.zip(given) else {
                return Ok(false);
            };
            let [found, given] = [found, given].map(|value| order::of(&cql_type, &value));
            let ordering = match condition.is_value_first {
                true => given.cmp(&found),
                false => found.cmp(&given),
            };
            compares(operator, ordering)
        }
        _ => Err(Failure::invalid("A condition compares with a value")),
    }
}

fn compares(operator: RelationOperator, ordering: Ordering) -> Result<bool, Failure> {
    Ok(match operator {
        RelationOperator::Equal => ordering.is_eq(),
        RelationOperator::NotEqual => ordering.is_ne(),
        RelationOperator::LessThan => ordering.is_lt(),
        RelationOperator::LessOrEqual => ordering.is_le(),
        RelationOperator::GreaterThan => ordering.is_gt(),
        RelationOperator::GreaterOrEqual => ordering.is_ge(),
        _ => {
            return Err(Failure::invalid(format!(
                "{} is not supported in transactions",
                operator.as_str()
            )));
        }
    })
}

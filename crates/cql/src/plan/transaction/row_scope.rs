//! The rows that a transaction reads under names, and what refers to them (`RowDataReference`).

use std::collections::BTreeMap;

use crate::schema::{Column, Keyspace, Schema, Table};
use crate::syntax::ast::{
    Assignment, AssignmentOperation, InsertSource, Let, Modification, Returning, RowCondition, RowReference,
    Selection, Term, Transaction,
};
use cqlens_proto::types::CqlType;

use super::planning::{named_table, table_of};
use crate::plan::compile::{Compiler, Receiver, accepts};
use crate::plan::refusal::Refusal;
use crate::plan::selector;
use crate::plan::text_facts::TextFacts;

/// The rows that a transaction reads under a name.
pub(super) struct RowScope<'s, 't> {
    rows: BTreeMap<&'t str, NamedRow<'s, 't>>,
    text: &'t TextFacts<'t, 't>,
    schema: &'s Schema,
}

#[derive(Clone, Copy)]
struct NamedRow<'s, 't> {
    keyspace: &'s Keyspace,
    table: &'s Table,
    selection: &'t Selection<'t>,
}

impl<'s, 't> RowScope<'s, 't> {
    pub(super) fn of(
        transaction: &'t Transaction<'t>,
        text: &'t TextFacts<'t, 't>,
        schema: &'s Schema,
    ) -> Self {
        let row = |read: &'t Let<'t>| {
            let name = &read.select.table;
            let (keyspace, table) =
                named_table(name.keyspace_or(text.keyspace)?, name.name.as_str(), schema)?;
            let row = NamedRow {
                keyspace,
                table,
                selection: &read.select.selection,
            };
            Some((read.name.as_str(), row))
        };
        Self {
            rows: transaction.lets.iter().filter_map(row).collect(),
            text,
            schema,
        }
    }

    /// Whether all that refers to rows finds what it names, and fits where it stands.
    pub(super) fn check(&self, transaction: &Transaction<'_>) -> Result<(), Refusal> {
        if let Some(Returning::References(references)) = &transaction.returning {
            for reference in references {
                if self.type_of(reference)?.is_none() {
                    let message = "SELECT references must specify a column.";
                    return Err(Refusal::at(message, reference.span));
                }
            }
        }
        for condition in &transaction.conditions {
            self.check_condition(condition)?;
        }
        transaction
            .updates
            .iter()
            .try_for_each(|update| self.check_update(update))
    }

    /// The type of what a reference stands for; none for a whole row (`RowDataReference.Raw.resolveReference`).
    fn type_of(&self, reference: &RowReference<'_>) -> Result<Option<CqlType>, Refusal> {
        let refuse = |message: String| Err(Refusal::at(message, reference.span));
        let row = reference.row.as_str();
        let Some(named) = self.rows.get(row) else {
            return refuse(format!("Cannot resolve reference to tuple '{row}'."));
        };
        let Some(part) = &reference.part else {
            return Ok(None);
        };
        let (column, inner) = match &**part {
            Term::Column(column) => (column, None),
            part @ (Term::Field { receiver, .. } | Term::Element { receiver, .. }) => match &**receiver {
                Term::Column(column) => (column, Some(part)),
                _ => return refuse("a reference may have one field or element".to_owned()),
            },
            _ => return refuse("no reference".to_owned()),
        };
        let Some(found) = named.table.column(column.as_str()) else {
            return refuse(format!("Column '{column}' does not exist in tuple '{row}'."));
        };
        let selected = selector::columns(named.selection, named.table)?;
        if !selected.iter().any(|selected| selected.name == found.name) {
            return refuse(format!("{row} references a column not included in the select"));
        }
        let cql_type = named.keyspace.resolve(&found.data_type);
        Ok(Some(match (inner, cql_type) {
            (Some(Term::Field { field, .. }), CqlType::Udt(udt)) => {
                let mut fields = udt.fields.iter();
                match fields.find(|(name, _)| name == field.as_str()) {
                    Some((_, field)) => field.clone(),
                    None => return refuse(format!("{} has no field {field}", found.name)),
                }
            }
            (Some(Term::Element { .. }), CqlType::Map(entry)) => entry.1.clone(),
            (Some(Term::Element { .. }), CqlType::List(element) | CqlType::Set(element)) => {
                (*element).clone()
            }
            (_, cql_type) => cql_type,
        }))
    }

    fn check_condition(&self, condition: &RowCondition<'_>) -> Result<(), Refusal> {
        let cql_type = self.type_of(&condition.reference)?;
        let Some(value) = &condition.value else {
            return Ok(());
        };
        let Some(cql_type) = cql_type else {
            let message = format!(
                "Row reference ({}) can only be used with IS NULL/IS NOT NULL conditions",
                condition.reference.row
            );
            return Err(Refusal::at(message, condition.span));
        };
        let Some(named) = self.rows.get(condition.reference.row.as_str()) else {
            return Ok(());
        };
        let compiler = Compiler {
            keyspace: Some(named.keyspace),
            partition_key: &[],
            token_type: &CqlType::BigInt,
            work: self.text.work,
            constants: self.text.constants,
        };
        let receiver = Receiver {
            name: condition.reference.row.as_str(),
            cql_type: &cql_type,
        };
        compiler.term(value, receiver).map(drop)
    }

    fn check_update(&self, update: &Modification<'_>) -> Result<(), Refusal> {
        let Some((keyspace, table)) = table_of(update, self.text, self.schema) else {
            return Ok(());
        };
        match update {
            Modification::Insert(insert) => {
                let InsertSource::Values { columns, values } = &insert.source else {
                    return Ok(());
                };
                for (name, value) in columns.iter().zip(values) {
                    let (Some(column), Some(reference)) = (table.column(name.as_str()), value.as_reference())
                    else {
                        continue;
                    };
                    self.check_assignment(reference, column, &keyspace.resolve(&column.data_type))?;
                }
            }
            Modification::Update(update) => {
                for assignment in &update.assignments {
                    let column = table.column(assignment.column.as_str());
                    let (Some(column), Some(reference)) = (column, assignment.value().as_reference()) else {
                        continue;
                    };
                    let receiver = receiver_of(assignment, keyspace.resolve(&column.data_type));
                    self.check_assignment(reference, column, &receiver)?;
                }
            }
            Modification::Delete(_) => {}
        }
        Ok(())
    }

    fn check_assignment(
        &self,
        reference: &RowReference<'_>,
        column: &Column,
        receiver: &CqlType,
    ) -> Result<(), Refusal> {
        let cql_type = self.type_of(reference)?;
        match cql_type {
            Some(cql_type) if accepts(receiver, &cql_type) => Ok(()),
            _ => {
                let message = format!(
                    "Invalid reference type for \"{}\" of type {receiver}",
                    column.name
                );
                Err(Refusal::at(message, reference.span))
            }
        }
    }
}

/// What takes the value of an assignment: the column, or what is assigned of it.
fn receiver_of(assignment: &Assignment<'_>, cql_type: CqlType) -> CqlType {
    match (&assignment.operation, cql_type) {
        (AssignmentOperation::SetElement { .. }, CqlType::Map(entry)) => entry.1.clone(),
        (AssignmentOperation::SetElement { .. }, CqlType::List(element)) => (*element).clone(),
        (AssignmentOperation::SetField { field, .. }, CqlType::Udt(udt)) => {
            let found = udt.fields.iter().find(|(name, _)| name == field.as_str());
            found.map_or(CqlType::Udt(udt.clone()), |(_, field)| field.clone())
        }
        (AssignmentOperation::Subtract(_), CqlType::Map(entry)) => CqlType::Set(Box::new(entry.0.clone())),
        (_, cql_type) => cql_type,
    }
}

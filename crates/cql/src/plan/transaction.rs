//! Plans of transactions (`TransactionStatement`, Cassandra 6.0): which partitions Accord is given to read and to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::footprint::{Footprint, Keys, Reason};
use crate::schema::{Column, DataType, Keyspace, Schema, Table, TableName};
use crate::syntax::ast::{
    Assignment, AssignmentOperation, BatchKind, BindMarker, DeletionTarget, InsertSource, Let, Modification,
    QualifiedName, Returning, RowCondition, RowReference, Select, Selection, Term, Transaction,
};
use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;

use super::batch::summed;
use super::batch_sum::BatchSum;
use super::compile::{Compiler, Receiver, accepts};
use super::facts::{Facts, SchemaFacts};
use super::keys::Counted;
use super::refusal::Refusal;
use super::shape::{Plan, Shape};
use super::target::KeyText;
use super::text_facts::TextFacts;
use super::touched::Touched;
use super::{select, selector};

/// A transaction: all of it is given to Accord, whatever its conditions will say.
#[derive(Debug, Clone)]
pub(super) struct TransactionPlan {
    /// What `LET` reads, then the `SELECT`.
    reads: Vec<ReadOfTransaction>,
    writes: Vec<WriteOfTransaction>,
    pub(super) refusal: Option<Refusal>,
}

#[derive(Debug, Clone)]
struct ReadOfTransaction {
    plan: Plan,
    /// One row of one partition, under a name.
    is_let: bool,
    /// Its limit decides whether it is one row.
    needs_limit: bool,
}

#[derive(Debug, Clone)]
struct WriteOfTransaction {
    plan: Plan,
    /// It changes what is stored, so that the server reads it too: `c += 1`.
    reads_itself: bool,
}

/// What a transaction does with the partitions that it names.
#[derive(Debug, Clone, Copy)]
pub struct TransactionFootprint {
    /// Those that are read: by `LET`, by `SELECT`, and by writes that change what is stored.
    pub read: Footprint,
    /// Those that are written.
    pub written: Footprint,
}

/// The tables of a transaction, each with the number of its statements that read or write it.
#[derive(Debug, Clone, Default)]
pub struct TransactionTables {
    /// Those that are read.
    pub read: Vec<(Arc<TableName>, u32)>,
    /// Those that are written.
    pub written: Vec<(Arc<TableName>, u32)>,
}

/// The parts of a transaction, as its text has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionFacts {
    /// `LET`s.
    pub lets: usize,
    /// What it responds with.
    pub returns: TransactionReturns,
    /// Conditions of `IF`.
    pub conditions: usize,
    /// Writes.
    pub updates: usize,
    /// `LET`s of which neither a condition nor a write nor the response uses anything.
    pub unused_lets: usize,
}

/// What a transaction responds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionReturns {
    /// No rows.
    Nothing,
    /// The rows of a `SELECT`.
    Rows,
    /// Parts of rows that it has read.
    References,
}

impl Plan {
    /// What a transaction reads and writes; the keys that are known are pushed to `read` and `written`, which must be
    /// clear. None for other statements.
    ///
    /// # Errors
    ///
    /// The refusal of the statement, or of what is bound to it.
    pub fn transaction_footprint(
        &self,
        values: Option<&Values<'_>>,
        read: &mut Keys,
        written: &mut Keys,
    ) -> Result<Option<TransactionFootprint>, Refusal> {
        let Shape::Transaction(transaction) = &self.shape else {
            return Ok(None);
        };
        if values.is_none() && self.facts.bind_markers > 0 {
            let unknown = Footprint::unknown(Reason::Unbound);
            return Ok(Some(TransactionFootprint {
                read: unknown,
                written: unknown,
            }));
        }
        let of = |touched: Touched| touched.footprint();
        Ok(Some(TransactionFootprint {
            read: of(transaction.touch_read(values, read)?),
            written: of(transaction.touch_written(values, written)?),
        }))
    }

    /// The tables that a transaction reads, and those that it writes, by the number of its statements that do; none for
    /// other statements. What is changed by what is stored is both.
    pub fn transaction_tables(&self) -> Option<TransactionTables> {
        let Shape::Transaction(transaction) = &self.shape else {
            return None;
        };
        let reads = transaction.reads.iter().map(|read| &read.plan);
        let updated = transaction.writes.iter().filter(|write| write.reads_itself);
        let reads = reads.chain(updated.map(|write| &write.plan));
        let writes = transaction.writes.iter().map(|write| &write.plan);
        Some(TransactionTables {
            read: summed(reads.flat_map(Plan::tables)),
            written: summed(writes.flat_map(Plan::tables)),
        })
    }
}

impl TransactionPlan {
    /// All distinct partitions, read or written.
    pub(super) fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let mut sum = BatchSum::new(BatchKind::Logged);
        for read in &self.reads {
            sum.add_touched(read.touch(values, keys)?);
        }
        for write in &self.writes {
            sum.add_touched(write.plan.touch(values, keys)?);
        }
        sum.touched(keys)
    }

    fn touch_read(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let mut sum = BatchSum::new(BatchKind::Logged);
        for read in &self.reads {
            sum.add_touched(read.touch(values, keys)?);
        }
        for write in self.writes.iter().filter(|write| write.reads_itself) {
            sum.add_touched(write.plan.touch(values, keys)?);
        }
        sum.touched(keys)
    }

    fn touch_written(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let mut sum = BatchSum::new(BatchKind::Logged);
        for write in &self.writes {
            sum.add_touched(write.plan.touch(values, keys)?);
        }
        sum.touched(keys)
    }

    /// How many partitions each execution names, where none of its statements may name one of another's.
    pub(super) fn children(&self) -> impl Iterator<Item = &Plan> {
        let reads = self.reads.iter().map(|read| &read.plan);
        reads.chain(self.writes.iter().map(|write| &write.plan))
    }
}

impl ReadOfTransaction {
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        let refuse = |message: &'static str| Err(Refusal::bind(Reason::InvalidStatement, message));
        let limit = self.plan.limits(values)?.limit;
        if self.needs_limit && limit != Some(1) {
            return refuse(ONE_ROW);
        }
        let has_list = self
            .plan
            .facts
            .schema
            .as_ref()
            .is_some_and(|schema| schema.in_on_partition_key);
        if has_list && limit.is_some() {
            return refuse(NO_LIMIT);
        }
        let touched = self.plan.touch(values, keys)?;
        match touched {
            Touched::Counted(Counted { named, .. }) if self.is_let && named > 1 => {
                refuse("Within a transaction, SELECT statements must select a single partition")
            }
            // Cassandra 6.0 cannot read what it knows to be empty.
            Touched::Counted(Counted {
                named: 0,
                is_bound: false,
                ..
            }) => refuse("a read of a transaction names no row"),
            Touched::Scan | Touched::TokenRange(_) | Touched::Index => {
                refuse("Range queries are not allowed for reads within a transaction")
            }
            touched => Ok(touched),
        }
    }
}

const ONE_ROW: &str = "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. \
    In both cases partition key elements must be always specified with equality operators";
const NO_LIMIT: &str =
    "Partition key is present in IN clause and there is a LIMIT... this is currently not supported";

/// Plans a transaction.
pub(super) fn plan(text: &TextFacts<'_, '_>, transaction: &Transaction<'_>, schema: &Schema) -> Plan {
    let mut refusal = refused_by_text(transaction);
    let mut reads = Vec::new();
    for read in &transaction.lets {
        let (plan, checked) = read_plan(text, &read.select, true, schema);
        refusal = refusal.or(checked.as_ref().err().cloned());
        reads.push(ReadOfTransaction {
            plan,
            is_let: true,
            needs_limit: checked.unwrap_or(false),
        });
    }
    if let Some(Returning::Select(select)) = &transaction.returning {
        let (plan, checked) = read_plan(text, select, false, schema);
        refusal = refusal.or(checked.err());
        reads.push(ReadOfTransaction {
            plan,
            is_let: false,
            needs_limit: false,
        });
    }
    let mut writes = Vec::new();
    for update in &transaction.updates {
        let plan = text.of_modification(update, schema);
        let table = table_of(update, text, schema);
        let reads_itself = table.is_some_and(|(_, table)| reads_itself(update, table));
        refusal = refusal.or_else(|| refused_write(&plan, update, table.map(|(_, table)| table)));
        writes.push(WriteOfTransaction { plan, reads_itself });
    }
    let plans = reads.iter().map(|read| &read.plan);
    let plans: Vec<&Plan> = plans.chain(writes.iter().map(|write| &write.plan)).collect();
    let refusal = refusal.or_else(|| plans.iter().find_map(|plan| plan.refusal()).cloned());
    let is_known = plans.iter().all(|plan| plan.facts.schema.is_some());
    let refusal = refusal.or_else(|| {
        let scope = Scope::of(transaction, text, schema);
        is_known.then(|| scope.check(transaction).err()).flatten()
    });
    let tables = summed(plans.iter().flat_map(|plan| plan.tables()));
    let schema_facts = (is_known && refusal.is_none()).then(|| SchemaFacts {
        in_on_partition_key: plans.iter().any(|plan| {
            plan.facts
                .schema
                .as_ref()
                .is_some_and(|facts| facts.in_on_partition_key)
        }),
        partition_key_markers: key_markers(&reads, &writes),
        markers_of_one_table: markers_of_one_table(text, transaction),
        ..SchemaFacts::default()
    });
    let facts = Facts {
        transaction: Some(facts_of(transaction)),
        schema: schema_facts,
        ..Facts::new(text.statement.kind(), text.statement.bind_markers.len())
    };
    if text.work.is_exhausted() {
        return Plan::too_complex(facts, tables);
    }
    Plan {
        facts,
        tables,
        shape: Shape::Transaction(TransactionPlan {
            reads,
            writes,
            refusal,
        }),
    }
}

fn refused_by_text(transaction: &Transaction<'_>) -> Option<Refusal> {
    if transaction.returning.is_none() && transaction.updates.is_empty() {
        return Some(Refusal::new("Transaction contains no reads or writes"));
    }
    let mut names: Vec<&str> = transaction.lets.iter().map(|read| read.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1])?;
    let message = format!(
        "The name '{}' has already been used by a LET assignment.",
        twice[0]
    );
    Some(Refusal::new(message))
}

/// The plan of a read, and whether only its limit, which is bound, decides if it is one row.
fn read_plan(
    text: &TextFacts<'_, '_>,
    select: &Select<'_>,
    is_let: bool,
    schema: &Schema,
) -> (Plan, Result<bool, Refusal>) {
    let facts = text.of_select(select);
    let key_text = KeyText::Where(&select.where_clause);
    let plan = text.of_table(facts, &select.table, key_text, schema, |target| {
        select::plan(select, target).map(|(facts, plan)| (facts, Shape::Read(plan)))
    });
    let checked = match plan.refusal() {
        Some(refusal) => Err(refusal.clone()),
        None => check_read(&plan, select, is_let, schema),
    };
    (plan, checked)
}

fn check_read(plan: &Plan, select: &Select<'_>, is_let: bool, schema: &Schema) -> Result<bool, Refusal> {
    let refuse = |message: &'static str| Err(Refusal::at(message, select.table.span()));
    let (Some(facts), [(name, _)]) = (&plan.facts.schema, plan.tables()) else {
        return Ok(false);
    };
    let table = schema.table(&name.keyspace, &name.table);
    if !select.order_by.is_empty() {
        return refuse("No ORDER BY clause allowed within a transaction");
    }
    if !select.group_by.is_empty() {
        return refuse("No GROUP BY clause allowed within a transaction");
    }
    if !table.is_some_and(|table| table.is_transactional()) {
        return refuse(DISABLED);
    }
    if facts.counter {
        return refuse(NO_COUNTERS);
    }
    if facts.aggregate {
        return refuse("No aggregation functions allowed within a transaction");
    }
    let limit = match &select.limit {
        Some(Term::Literal(literal)) => literal.text.parse::<i64>().ok(),
        _ => None,
    };
    if facts.in_on_partition_key && limit.is_some() {
        return refuse(NO_LIMIT);
    }
    if !facts.full_partition_key {
        return refuse(match is_let {
            true => "Range queries are not allowed for reads within a transaction",
            false => "SELECT must specify either all partition key elements",
        });
    }
    if !is_let || facts.names_rows {
        return Ok(false);
    }
    match &select.limit {
        Some(Term::BindMarker(_)) => Ok(true),
        _ if limit == Some(1) => Ok(false),
        _ => refuse(ONE_ROW),
    }
}

const DISABLED: &str = "Accord transactions are disabled on table (See transactional_mode in table options)";
const NO_COUNTERS: &str = "Counter columns cannot be accessed within a transaction";

fn refused_write(plan: &Plan, update: &Modification<'_>, table: Option<&Table>) -> Option<Refusal> {
    if let Some(refusal) = plan.refusal() {
        return Some(refusal.clone());
    }
    let table = table?;
    let message = if !table.is_transactional() {
        DISABLED
    } else if plan.facts.lwt {
        "Updates within transactions may not specify their own conditions"
    } else if plan.facts.timestamp_set {
        "Updates within transactions may not specify custom timestamps"
    } else if plan.facts.ttl_set {
        "Updates within transactions may not specify custom ttls"
    } else if table.is_counter() {
        NO_COUNTERS
    } else {
        return None;
    };
    Some(Refusal::at(message, update.table().span()))
}

fn table_of<'s>(
    update: &Modification<'_>,
    text: &TextFacts<'_, '_>,
    schema: &'s Schema,
) -> Option<(&'s Keyspace, &'s Table)> {
    let name = update.table();
    named_table(name.keyspace_or(text.keyspace)?, name.name.as_str(), schema)
}

fn named_table<'s>(keyspace: &str, table: &str, schema: &'s Schema) -> Option<(&'s Keyspace, &'s Table)> {
    let keyspace = schema.keyspace(keyspace)?;
    Some((keyspace, keyspace.tables.get(table)?))
}

/// Whether the server has to read what a write changes (`Operation.requiresRead`).
fn reads_itself(update: &Modification<'_>, table: &Table) -> bool {
    let is_list = |column: &Column| matches!(column.data_type.thawed(), DataType::List(_));
    let column = |name: &str| table.column(name);
    match update {
        Modification::Insert(_) => false,
        Modification::Update(update) => update.assignments.iter().any(|assignment| {
            let Some(column) = column(assignment.column.as_str()) else {
                return false;
            };
            match &assignment.operation {
                AssignmentOperation::Add(_) | AssignmentOperation::Prepend(_) => {
                    !column.data_type.is_collection()
                }
                AssignmentOperation::Subtract(_) => !column.data_type.is_collection() || is_list(column),
                AssignmentOperation::SetElement { .. } => is_list(column),
                AssignmentOperation::Set(_) | AssignmentOperation::SetField { .. } => false,
            }
        }),
        Modification::Delete(delete) => delete.deletions.iter().any(|deletion| {
            matches!(deletion.target, DeletionTarget::Element(_))
                && column(deletion.column.as_str()).is_some_and(is_list)
        }),
    }
}

fn facts_of(transaction: &Transaction<'_>) -> TransactionFacts {
    let mut used = Vec::new();
    each_reference(transaction, &mut |reference| used.push(reference.row.as_str()));
    let unused = transaction
        .lets
        .iter()
        .filter(|read| !used.contains(&read.name.as_str()));
    TransactionFacts {
        lets: transaction.lets.len(),
        returns: match &transaction.returning {
            None => TransactionReturns::Nothing,
            Some(Returning::Select(_)) => TransactionReturns::Rows,
            Some(Returning::References(_)) => TransactionReturns::References,
        },
        conditions: transaction.conditions.len(),
        updates: transaction.updates.len(),
        unused_lets: unused.count(),
    }
}

/// Shows every reference to a row that was read.
fn each_reference<'t, 'a>(transaction: &'t Transaction<'a>, found: &mut impl FnMut(&'t RowReference<'a>)) {
    if let Some(Returning::References(references)) = &transaction.returning {
        references.iter().for_each(&mut *found);
    }
    transaction
        .conditions
        .iter()
        .for_each(|condition| found(&condition.reference));
    for update in &transaction.updates {
        match update {
            Modification::Insert(insert) => {
                if let InsertSource::Values { values, .. } = &insert.source {
                    values.iter().filter_map(as_reference).for_each(&mut *found);
                }
            }
            Modification::Update(update) => update
                .assignments
                .iter()
                .filter_map(|assignment| as_reference(assigned(assignment)))
                .for_each(&mut *found),
            Modification::Delete(_) => {}
        }
    }
}

fn as_reference<'t, 'a>(term: &'t Term<'a>) -> Option<&'t RowReference<'a>> {
    match term {
        Term::Reference(reference) => Some(reference),
        _ => None,
    }
}

fn assigned<'t, 'a>(assignment: &'t Assignment<'a>) -> &'t Term<'a> {
    match &assignment.operation {
        AssignmentOperation::Set(value)
        | AssignmentOperation::Add(value)
        | AssignmentOperation::Subtract(value)
        | AssignmentOperation::Prepend(value)
        | AssignmentOperation::SetElement { value, .. }
        | AssignmentOperation::SetField { value, .. } => value,
    }
}

/// Which markers are values of the partition key: those of the `SELECT`, else of the first write that has some.
fn key_markers(reads: &[ReadOfTransaction], writes: &[WriteOfTransaction]) -> Option<Vec<usize>> {
    let returning = reads.iter().filter(|read| !read.is_let).map(|read| &read.plan);
    let mut described = returning.chain(writes.iter().map(|write| &write.plan));
    described.find_map(|plan| plan.facts.schema.as_ref()?.partition_key_markers.clone())
}

/// Whether all markers are values of one table: each belongs to the part of the text that began last before it.
fn markers_of_one_table(text: &TextFacts<'_, '_>, transaction: &Transaction<'_>) -> bool {
    let named = |name: &QualifiedName<'_>| {
        let keyspace = name.keyspace_or(text.keyspace).map(str::to_owned);
        (keyspace, name.name.as_str().to_owned())
    };
    let mut parts = Vec::new();
    for read in &transaction.lets {
        parts.push((read.select.table.span().start, named(&read.select.table)));
    }
    if let Some(Returning::Select(select)) = &transaction.returning {
        parts.push((select.table.span().start, named(&select.table)));
    }
    for condition in &transaction.conditions {
        let mut lets = transaction.lets.iter();
        if let Some(read) = lets.find(|read| read.name.text == condition.reference.row.text) {
            parts.push((condition.span.start, named(&read.select.table)));
        }
    }
    for update in &transaction.updates {
        parts.push((update.table().span().start, named(update.table())));
    }
    let table_of = |marker: &BindMarker<'_>| {
        let before = parts.iter().take_while(|(start, _)| *start <= marker.span.start);
        before.last().or(parts.first()).map(|(_, table)| table)
    };
    let mut tables = text.statement.bind_markers.iter().map(table_of);
    let first = tables.next();
    tables.all(|table| Some(table) == first)
}

/// The rows that a transaction reads under a name.
struct Scope<'s, 't> {
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

impl<'s, 't> Scope<'s, 't> {
    fn of(transaction: &'t Transaction<'t>, text: &'t TextFacts<'t, 't>, schema: &'s Schema) -> Self {
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
    fn check(&self, transaction: &Transaction<'_>) -> Result<(), Refusal> {
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
                    let (Some(column), Some(reference)) = (table.column(name.as_str()), as_reference(value))
                    else {
                        continue;
                    };
                    self.check_assignment(reference, column, &keyspace.resolve(&column.data_type))?;
                }
            }
            Modification::Update(update) => {
                for assignment in &update.assignments {
                    let column = table.column(assignment.column.as_str());
                    let (Some(column), Some(reference)) = (column, as_reference(assigned(assignment))) else {
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

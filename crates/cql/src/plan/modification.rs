//! Plans of `INSERT`, `UPDATE` and `DELETE` (`ModificationStatement.Parsed.prepare`).

use crate::syntax::Span;
use crate::syntax::ast::{
    AssignmentOperation, Comparand, Delete, If, Insert, InsertSource, JsonDefault, Name, Relation,
    RelationOperator, Subject, Term, Update, Using, Where,
};
use cqlens_proto::types::CqlType;

use super::cells::CellPlan;
use super::checks::CheckedValue;
use super::clustering::RowCheck;
use super::compile::Receiver;
use super::facts::{DeleteKind, SchemaFacts};
use super::json::{self, JsonKey};
use super::keys::{KeyColumn, KeyPlan};
use super::refusal::Refusal;
use super::restrictions::{Purpose, Restrictions};
use super::shape::{WritePlan, Writes};
use super::target::Target;
use super::transaction::SetCells;
use crate::schema::{Column, ColumnKind, DataType, Table};

/// Which of a row's cells a statement writes or its conditions look at.
#[derive(Debug, Clone, Copy, Default)]
struct Touches {
    regular: bool,
    statics: bool,
}

impl Touches {
    fn add(&mut self, table: &Table, column: &Column) {
        match column.kind {
            ColumnKind::Static => self.statics = true,
            _ if table.is_static_compact() => self.statics = true,
            _ => self.regular = true,
        }
    }

    fn only_static(self) -> bool {
        self.statics && !self.regular
    }
}

pub(super) fn insert(insert: &Insert<'_>, target: &Target<'_>) -> Result<(SchemaFacts, WritePlan), Refusal> {
    if target.table.is_counter() {
        let message = "INSERT statements are not allowed on counter tables, use UPDATE instead";
        return Err(Refusal::at(message, insert.table.span()));
    }
    let refusal = check_using(&insert.using, insert.if_not_exists, target)?;
    let (facts, plan) = match &insert.source {
        InsertSource::Values { columns, values } => insert_values(insert, columns, values, target),
        InsertSource::Json { value, default } => insert_json(value, *default, target),
    }?;
    Ok((facts, WritePlan { refusal, ..plan }))
}

fn insert_values(
    insert: &Insert<'_>,
    names: &[Name<'_>],
    values: &[Term<'_>],
    target: &Target<'_>,
) -> Result<(SchemaFacts, WritePlan), Refusal> {
    if names.len() != values.len() {
        return Err(Refusal::at("Unmatched column names/values", insert.table.span()));
    }
    let translator = target.translator();
    let mut touches = Touches::default();
    let mut sets_clustering = false;
    let mut clause = Where::default();
    for (index, (name, value)) in names.iter().zip(values).enumerate() {
        if names[..index].iter().any(|other| other.text == name.text) {
            return Err(Refusal::at("The column names contains duplicates", name.span));
        }
        let column = translator.column(name.as_str(), name.span)?;
        sets_clustering |= matches!(column.kind, ColumnKind::Clustering(_));
        if column.is_primary_key() {
            if matches!(value, Term::Reference(_)) {
                let message = format!(
                    "a reference cannot be used to insert PRIMARY KEY column {}",
                    column.name
                );
                return Err(Refusal::at(message, value.span()));
            }
            clause.relations.push(equal(name, value));
        } else {
            target.check_value(column, value)?;
            touches.add(target.table, column);
        }
    }
    let only_static = !sets_clustering && touches.only_static();
    let restrictions = Restrictions::of(&translator, &clause, Purpose::Insert, None, only_static)?;
    let facts = SchemaFacts {
        full_partition_key: true,
        static_only: touches.only_static(),
        // `=` on all key columns is how an INSERT names its partition, not a restriction in the text.
        ..target.facts(&restrictions)
    };
    let cells = CellPlan::of_insert(insert, &restrictions, target);
    target.check_required(names.iter().map(Name::as_str))?;
    let written = names.iter().map(Name::as_str).zip(values);
    let checks = target.checked_values(written, &restrictions);
    Ok((
        facts,
        WritePlan {
            cells,
            checks,
            set_cells: SetCells::of_insert(names, &restrictions, target),
            ..write_plan(target, &restrictions, None)
        },
    ))
}

fn insert_json(
    value: &Term<'_>,
    default: JsonDefault,
    target: &Target<'_>,
) -> Result<(SchemaFacts, WritePlan), Refusal> {
    let columns = target.table.partition_key().iter().zip(&target.key_types);
    let columns = columns
        .map(|(column, cql_type)| (column.name.clone(), cql_type.clone()))
        .collect();
    let deleted = target.table.columns.iter().filter(|column| {
        let is_regular = column.kind == ColumnKind::Regular;
        is_regular && default == JsonDefault::Null
    });
    let deleted = deleted.map(|column| column.name.as_str().into()).collect();
    let checked = target
        .table
        .columns
        .iter()
        .filter(|column| !column.constraints.is_empty());
    let checked = checked.map(|column| column.name.as_str().into()).collect();
    let key = JsonKey::of(value, columns, deleted, target.name.clone()).checking(checked);
    if let Term::Literal(literal) = value {
        let known = |name: &str| target.table.column(name).is_some();
        json::check(&literal.decoded(), known).map_err(|message| Refusal::at(message, literal.span))?;
    }
    let mut touches = Touches::default();
    target
        .table
        .columns
        .iter()
        .filter(|column| !column.is_primary_key())
        .for_each(|column| touches.add(target.table, column));
    let facts = SchemaFacts {
        full_partition_key: true,
        counter: target.table.is_counter(),
        static_only: touches.only_static(),
        markers_of_one_table: true,
        ..SchemaFacts::default()
    };
    Ok((
        facts,
        WritePlan {
            writes: Writes::Json(key),
            row_check: None,
            checks: Vec::new(),
            conditional_in: None,
            deletes_columns_of_range: false,
            refusal: None,
            cells: None,
            set_cells: SetCells::of_json(value, target),
        },
    ))
}

pub(super) fn update(update: &Update<'_>, target: &Target<'_>) -> Result<(SchemaFacts, WritePlan), Refusal> {
    let refusal = check_using(&update.using, update.condition.is_some(), target)?;
    let translator = target.translator();
    let mut touches = condition_touches(update.condition.as_ref(), target)?;
    for assignment in &update.assignments {
        let column = translator.column(assignment.column.as_str(), assignment.column.span)?;
        if column.is_primary_key() {
            let message = format!("PRIMARY KEY part {} found in SET part", column.name);
            return Err(Refusal::at(message, assignment.span));
        }
        check_assignment(
            column,
            &assignment.operation,
            assignment.span,
            update.condition.is_some(),
            target,
        )?;
        touches.add(target.table, column);
    }
    let only_static = touches.only_static();
    let restrictions = Restrictions::of(
        &translator,
        &update.where_clause,
        Purpose::Update,
        None,
        only_static,
    )?;
    let facts = SchemaFacts {
        full_partition_key: true,
        static_only: only_static,
        ..target.facts(&restrictions)
    };
    let in_message = "IN on the partition key is not supported with conditional updates";
    let conditional = update.condition.as_ref().map(|_| in_message);
    Ok((
        facts,
        WritePlan {
            refusal,
            checks: checks_of_update(update, &restrictions, target)?,
            cells: CellPlan::of_update(update, &restrictions, target),
            set_cells: SetCells::of_update(update, &restrictions, target),
            ..write_plan(target, &restrictions, conditional)
        },
    ))
}

/// What an `UPDATE` sets as a whole; what it adds to a column is not known.
fn checks_of_update(
    update: &Update<'_>,
    restrictions: &Restrictions<'_>,
    target: &Target<'_>,
) -> Result<Vec<CheckedValue>, Refusal> {
    let assignments = update.assignments.iter();
    target.check_required(assignments.clone().map(|assignment| assignment.column.as_str()))?;
    let written = assignments.filter_map(|assignment| match &assignment.operation {
        AssignmentOperation::Set(value) => Some((assignment.column.as_str(), value)),
        _ => None,
    });
    Ok(target.checked_values(written, restrictions))
}

pub(super) fn delete(delete: &Delete<'_>, target: &Target<'_>) -> Result<(SchemaFacts, WritePlan), Refusal> {
    let refusal = check_using(&delete.using, delete.condition.is_some(), target)?;
    let translator = target.translator();
    let mut touches = condition_touches(delete.condition.as_ref(), target)?;
    // Nothing named: whole rows are deleted, and their regular cells with them.
    touches.regular |= delete.deletions.is_empty();
    let mut deletes_regular = false;
    for deletion in &delete.deletions {
        let column = translator.column(deletion.column.as_str(), deletion.column.span)?;
        if column.is_primary_key() {
            let message = format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            );
            return Err(Refusal::at(message, deletion.column.span));
        }
        touches.add(target.table, column);
        deletes_regular |= column.kind == ColumnKind::Regular;
    }
    let only_static = touches.only_static();
    let restrictions = Restrictions::of(
        &translator,
        &delete.where_clause,
        Purpose::Delete,
        None,
        only_static,
    )?;
    let names_rows = restrictions.names_rows();
    if delete.condition.is_some() && !names_rows && touches.regular {
        let message = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to \
                       delete non static columns, or to look at them";
        return Err(Refusal::new(message));
    }
    let delete_kind = match (delete.deletions.is_empty(), restrictions.clustering.is_empty()) {
        (false, _) => DeleteKind::Column,
        (true, true) => DeleteKind::Partition,
        (true, false) if names_rows => DeleteKind::Row,
        (true, false) => DeleteKind::Range,
    };
    let facts = SchemaFacts {
        full_partition_key: true,
        static_only: only_static,
        delete_kind: Some(delete_kind),
        ..target.facts(&restrictions)
    };
    let in_message = "IN on the partition key is not supported with conditional deletions";
    let conditional = delete.condition.as_ref().map(|_| in_message);
    Ok((
        facts,
        WritePlan {
            refusal,
            deletes_columns_of_range: deletes_regular && !names_rows,
            cells: CellPlan::of_delete(delete, &restrictions, target),
            set_cells: SetCells::of_delete(delete, &restrictions, target),
            ..write_plan(target, &restrictions, conditional)
        },
    ))
}

fn write_plan(
    target: &Target<'_>,
    restrictions: &Restrictions<'_>,
    conditional: Option<&'static str>,
) -> WritePlan {
    let columns = restrictions.partition.iter().flatten().zip(&target.key_types);
    let columns = columns.filter_map(|(restriction, cql_type)| KeyColumn::of(restriction, cql_type.clone()));
    let token = restrictions.token.clone().map(Into::into);
    let keys = KeyPlan {
        table: target.name.clone(),
        columns: columns.collect(),
        token,
    };
    let conditional_in = conditional.filter(|_| restrictions.has_partition_in());
    WritePlan {
        writes: Writes::Keys(keys),
        row_check: RowCheck::of(restrictions, target.keyspace),
        checks: Vec::new(),
        conditional_in,
        deletes_columns_of_range: false,
        refusal: None,
        cells: None,
        set_cells: None,
    }
}

/// `column = value`, as an `INSERT` means it.
fn equal<'t>(name: &Name<'t>, value: &Term<'t>) -> Relation<'t> {
    Relation {
        subject: Subject::Column(name.clone()),
        operator: RelationOperator::Equal,
        comparand: Comparand::One(value.clone()),
        span: name.span,
    }
}

fn condition_touches(condition: Option<&If<'_>>, target: &Target<'_>) -> Result<Touches, Refusal> {
    let mut touches = Touches::default();
    if let Some(If::Conditions(conditions)) = condition {
        for condition in conditions {
            for name in condition.subject.columns() {
                let column = target.translator().column(name.as_str(), name.span)?;
                if column.is_primary_key() {
                    let message = format!("PRIMARY KEY column '{}' cannot have IF conditions", column.name);
                    return Err(Refusal::at(message, name.span));
                }
                touches.add(target.table, column);
            }
        }
    }
    Ok(touches)
}

/// `USING` and conditions: what is refused when prepared, and what only when executed.
fn check_using(
    using: &Using<'_>,
    is_conditional: bool,
    target: &Target<'_>,
) -> Result<Option<Refusal>, Refusal> {
    let is_counter = target.table.is_counter();
    if is_conditional && is_counter {
        return Err(Refusal::new(
            "Conditional updates are not supported on counter tables",
        ));
    }
    let late = |term: &Term<'_>, message: &'static str| {
        Ok(Some(Refusal {
            span: Some(term.span()),
            ..Refusal::validate(message)
        }))
    };
    match (&using.timestamp, &using.ttl) {
        (Some(timestamp), _) if is_conditional => Err(Refusal::at(
            "Cannot provide custom timestamp for conditional updates",
            timestamp.span(),
        )),
        (Some(timestamp), _) if is_counter => {
            late(timestamp, "Cannot provide custom timestamp for counter updates")
        }
        (_, Some(ttl)) if is_counter => late(ttl, "Cannot provide custom TTL for counter updates"),
        _ if target.table.view.is_some() => Ok(Some(Refusal::validate(
            "Cannot directly modify a materialized view",
        ))),
        _ => Ok(None),
    }
}

/// `c = c + 1` is for counters and collections, and with `IF` also for numbers and strings.
fn check_assignment(
    column: &Column,
    operation: &AssignmentOperation<'_>,
    span: Span,
    is_conditional: bool,
    target: &Target<'_>,
) -> Result<(), Refusal> {
    let is_counter = column.data_type.is_counter();
    let adds = matches!(
        operation,
        AssignmentOperation::Add(_) | AssignmentOperation::Subtract(_) | AssignmentOperation::Prepend(_)
    );
    let can_add = is_counter || (column.data_type.is_collection() && column.data_type.is_multi_cell());
    if adds && !can_add && !is_conditional && !target.in_transaction {
        let message = format!("Invalid operation for non counter column {}", column.name);
        return Err(Refusal::at(message, span));
    }
    match operation {
        AssignmentOperation::Set(_) if is_counter => {
            let message = format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            );
            Err(Refusal::at(message, span))
        }
        AssignmentOperation::Set(value) => target.check_value(column, value),
        _ => Ok(()),
    }
}

impl Target<'_> {
    /// Whether a value can be assigned to a column, as far as the statement alone says.
    fn check_value(&self, column: &Column, value: &Term<'_>) -> Result<(), Refusal> {
        let cql_type: CqlType = self.keyspace.resolve(&column.data_type);
        if matches!(column.data_type, DataType::Custom(_)) {
            return Ok(());
        }
        self.compiler()
            .term(
                value,
                Receiver {
                    name: &column.name,
                    cql_type: &cql_type,
                },
            )
            .map(drop)
    }
}

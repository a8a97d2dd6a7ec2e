//! One plan for all texts of a shape: what it has for constants is what a plan has for markers, and the
//! constants of each text are bound to it as values are.
//!
//! That holds as long as nothing is decided by what a constant says. So each constant must be a value of its own,
//! not a part of an expression; and while such a statement is planned it is noted which constants are
//! looked at, as values of which types. Another text of the shape is planned the same way if its constants
//! are values of these types too.

use std::cell::{Cell, RefCell};

use cqlens_proto::message::{Value, ValuesBuf};
use cqlens_proto::types::CqlType;

use crate::schema::Schema;
use crate::syntax::Work;
use crate::syntax::ast::{
    AssignmentOperation, Body, Comparand, If, InsertSource, Literal, Relation, RelationOperator, Statement,
    Subject, Term, Using,
};

use super::compile;
use super::shape::Plan;
use super::term::{CompiledTerm, Marker};
use super::text_facts::TextFacts;
use super::value;

/// As which types the constants of a text are read.
#[derive(Debug, Clone)]
pub struct ConstantTypes(Box<[Option<CqlType>]>);

impl ConstantTypes {
    /// The constants of a text of the same shape, as its plan wants them bound. None where one of them is no
    /// value of its type: then nothing is known of how the text is planned.
    pub fn values(&self, constants: &[Literal<'_>]) -> Option<ValuesBuf> {
        let mut values = Vec::with_capacity(constants.len());
        for (cql_type, constant) in self.0.iter().zip(constants) {
            values.push(match cql_type {
                Some(cql_type) => Some(parsed(cql_type, constant)?),
                // Planning did not read it, so no execution does.
                None => None,
            });
        }
        let values = values.iter().map(|value| Value::from(value.as_deref()));
        ValuesBuf::positional(values).ok()
    }
}

fn parsed(cql_type: &CqlType, constant: &Literal<'_>) -> Option<Box<[u8]>> {
    match compile::constant(constant, cql_type)? {
        CompiledTerm::Constant(bytes) if value::is_valid(cql_type, &bytes) => Some(bytes),
        _ => None,
    }
}

impl Plan {
    /// As [`Plan::of_within`], of a `SELECT`, `INSERT`, `UPDATE` or `DELETE` whose `constants`, which are all of
    /// its text, are to be bound by [`ConstantTypes::values`]. None where that would be another plan than for the
    /// constants as they are.
    pub fn of_constants(
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        schema: &Schema,
        work: &Work,
        constants: &[Literal<'_>],
    ) -> Option<(Self, ConstantTypes)> {
        if !statement.bind_markers.is_empty() || whole_constants(&statement.body)?.len() != constants.len() {
            return None;
        }
        let bound = BoundConstants::new(constants);
        let text = TextFacts {
            statement,
            keyspace,
            work,
            constants: Some(&bound),
        };
        let plan = Self::of_text(&text, schema);
        let timestamp = statement
            .body
            .written_using()
            .and_then(|using| using.timestamp.as_ref());
        if let Some(Term::Literal(timestamp)) = timestamp {
            bound.bound(
                timestamp,
                &CqlType::BigInt,
                compile::constant(timestamp, &CqlType::BigInt),
            );
        }
        let types = bound.types()?;
        (!work.is_exhausted()).then_some((plan, types))
    }
}

/// The constants that are values of their own: of columns that are written, or compared as a whole, and of
/// what stands behind `USING`, `LIMIT` and `PER PARTITION LIMIT`. None for batches, and for statements that
/// neither read nor write rows.
fn whole_constants<'s, 'text>(body: &'s Body<'text>) -> Option<Vec<&'s Literal<'text>>> {
    let mut whole = WholeConstants(Vec::new());
    match body {
        Body::Select(select) => {
            whole.add_compared(&select.where_clause.relations);
            whole.add(&select.per_partition_limit);
            whole.add(&select.limit);
        }
        Body::Insert(insert) => {
            if let InsertSource::Values { values, .. } = &insert.source {
                whole.add(values);
            }
            whole.add_using(&insert.using);
        }
        Body::Update(update) => {
            whole.add_using(&update.using);
            for assignment in &update.assignments {
                use AssignmentOperation::{Add, Set, Subtract};
                if let Set(value) | Add(value) | Subtract(value) = &assignment.operation {
                    whole.add([value]);
                }
            }
            whole.add_compared(&update.where_clause.relations);
            whole.add_conditions(update.condition.as_ref());
        }
        Body::Delete(delete) => {
            whole.add_using(&delete.using);
            whole.add_compared(&delete.where_clause.relations);
            whole.add_conditions(delete.condition.as_ref());
        }
        _ => return None,
    }
    Some(whole.0)
}

struct WholeConstants<'s, 'text>(Vec<&'s Literal<'text>>);

impl<'s, 'text> WholeConstants<'s, 'text> {
    fn add(&mut self, terms: impl IntoIterator<Item = &'s Term<'text>>) {
        self.0.extend(terms.into_iter().filter_map(|term| match term {
            Term::Literal(literal) => Some(literal),
            _ => None,
        }));
    }

    fn add_using(&mut self, using: &'s Using<'text>) {
        self.add(&using.timestamp);
        self.add(&using.ttl);
    }

    fn add_compared(&mut self, relations: &'s [Relation<'text>]) {
        use RelationOperator::{Equal, GreaterOrEqual, GreaterThan, In, LessOrEqual, LessThan};
        for relation in relations {
            let operators = [Equal, In, LessThan, LessOrEqual, GreaterThan, GreaterOrEqual];
            if !matches!(relation.subject, Subject::Column(_)) || !operators.contains(&relation.operator) {
                continue;
            }
            match &relation.comparand {
                Comparand::One(term) => self.add([term]),
                Comparand::List(terms) => self.add(terms),
                _ => {}
            }
        }
    }

    fn add_conditions(&mut self, condition: Option<&'s If<'text>>) {
        if let Some(If::Conditions(relations)) = condition {
            self.add_compared(relations);
        }
    }
}

/// The constants of a statement that is being planned, taken for markers.
#[derive(Debug)]
pub(super) struct BoundConstants<'t> {
    constants: &'t [Literal<'t>],
    types: RefCell<Vec<Option<CqlType>>>,
    /// What a constant says has decided something.
    depends: Cell<bool>,
}

impl<'t> BoundConstants<'t> {
    fn new(constants: &'t [Literal<'t>]) -> Self {
        Self {
            constants,
            types: RefCell::new(vec![None; constants.len()]),
            depends: Cell::new(false),
        }
    }

    /// Notes that something depends on what a constant says.
    pub(super) fn depend(&self) {
        self.depends.set(true);
    }

    /// A constant that was compiled as of a type, as a marker.
    pub(super) fn bound(
        &self,
        constant: &Literal<'_>,
        cql_type: &CqlType,
        compiled: Option<CompiledTerm>,
    ) -> Option<CompiledTerm> {
        let place = self
            .constants
            .binary_search_by_key(&constant.span.start, |constant| constant.span.start);
        let (Some(CompiledTerm::Constant(bytes)), Ok(index)) = (&compiled, place) else {
            self.depend();
            return compiled;
        };
        let is_as_before = {
            let known = &mut self.types.borrow_mut()[index];
            known.get_or_insert_with(|| cql_type.clone()) == cql_type
        };
        if !is_as_before || is_nested(cql_type) || !value::is_valid(cql_type, bytes) {
            self.depend();
            return compiled;
        }
        Some(CompiledTerm::Marker(Marker {
            index,
            name: Box::default(),
            cql_type: cql_type.clone(),
        }))
    }

    /// The types of those that were looked at; none if something depends on what they say.
    fn types(self) -> Option<ConstantTypes> {
        let types = self.types.into_inner();
        (!self.depends.get()).then(|| ConstantTypes(types.into_boxed_slice()))
    }
}

/// Whether a value of a type has parts, which Cassandra takes apart and packs again.
fn is_nested(cql_type: &CqlType) -> bool {
    matches!(
        cql_type,
        CqlType::List(_)
            | CqlType::Set(_)
            | CqlType::Map(_)
            | CqlType::Tuple(_)
            | CqlType::Udt(_)
            | CqlType::Vector(..)
    )
}

//! What a request does, judged by its texts and values: what a recording says of it is not believed.

use cqlens_cql::syntax::ast::{
    Assignment, AssignmentOperation, BatchKind as TextBatchKind, BindMarker, Body, Kind, LiteralKind,
    Modification, Statement, Term, Update,
};
use cqlens_proto::message::BatchKind;

use crate::{
    exchange::{Effect, RecordedRequest, RecordedStatement, RecordedValue, ValueContent},
    statement::StatementCache,
};

/// What a text does by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It does not parse: anything.
    Unknown,
    /// Reads rows.
    Read,
    /// Writes cells, and may add to counters.
    Write(Additions),
    /// A conditional write.
    Conditional,
    /// Changes a keyspace or what is in it.
    Definition,
    /// Sets the keyspace of the connection.
    Use,
    /// Is about the server: LIST, DESCRIBE.
    Server,
    /// Is about roles, permissions and the like, which belong to no keyspace.
    Roles,
}

/// Whether a write adds to counters: without a schema, `c = c + ?` may append to a list, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Whatever is bound.
    always: bool,
    /// If a counter's increment is bound to one of these, by their places and names.
    bound: Vec<(usize, Option<Box<str>>)>,
}

/// What a request does, and at least what was said of it; none if a text of it does not parse.
pub fn effect(request: &RecordedRequest, statements: &mut StatementCache) -> Option<Effect> {
    let mut effect = at_least(request);
    for statement in &request.statements {
        let action = &statements.facts(&statement.cql).action;
        effect = effect.max(action.effect(&statement.values)?);
    }
    Some(effect)
}

/// Judged by the kind of the request alone.
fn at_least(request: &RecordedRequest) -> Effect {
    let of_batch = match request.batch {
        None => Effect::Read,
        Some(BatchKind::Counter) => Effect::Counter,
        Some(_) => Effect::Write,
    };
    of_batch.max(request.effect)
}

impl Action {
    pub(crate) fn of(statement: &Statement<'_>) -> Self {
        match &statement.body {
            Body::Select(_) => Self::Read,
            Body::Insert(insert) if insert.if_not_exists => Self::Conditional,
            Body::Insert(_) => Self::Write(Additions::default()),
            Body::Update(update) => of_writes([update.condition.is_some()], [update]),
            Body::Delete(delete) => of_writes([delete.condition.is_some()], []),
            Body::Batch(batch) => {
                let conditions = batch.statements.iter().map(is_conditional);
                let updates = batch.statements.iter().filter_map(as_update);
                match of_writes(conditions, updates) {
                    Self::Write(_) if batch.kind == TextBatchKind::Counter => Self::Write(Additions {
                        always: true,
                        ..Additions::default()
                    }),
                    action => action,
                }
            }
            Body::Use(_) => Self::Use,
            Body::Other(other) => of_other(other.kind),
            _ => Self::Definition,
        }
    }

    /// The effect with these values; none if it is unknown.
    fn effect(&self, values: &[RecordedValue]) -> Option<Effect> {
        Some(match self {
            Self::Unknown => return None,
            Self::Read | Self::Use | Self::Server => Effect::Read,
            Self::Write(additions) if additions.count_with(values) => Effect::Counter,
            Self::Write(_) => Effect::Write,
            Self::Conditional => Effect::Conditional,
            Self::Definition | Self::Roles => Effect::Definition,
        })
    }
}

fn of_other(kind: Kind) -> Action {
    match kind {
        Kind::Describe
        | Kind::ListPermissions
        | Kind::ListRoles
        | Kind::ListUsers
        | Kind::ListSuperusers
        | Kind::ListServiceLevel => Action::Server,
        kind if kind.is_of_keyspace_object() => Action::Definition,
        _ => Action::Roles,
    }
}

fn is_conditional(statement: &Modification<'_>) -> bool {
    match statement {
        Modification::Insert(insert) => insert.if_not_exists,
        Modification::Update(update) => update.condition.is_some(),
        Modification::Delete(delete) => delete.condition.is_some(),
    }
}

fn as_update<'s, 't>(statement: &'s Modification<'t>) -> Option<&'s Update<'t>> {
    match statement {
        Modification::Update(update) => Some(update),
        Modification::Insert(_) | Modification::Delete(_) => None,
    }
}

fn of_writes<'s, 't: 's>(
    conditions: impl IntoIterator<Item = bool>,
    updates: impl IntoIterator<Item = &'s Update<'t>>,
) -> Action {
    if conditions.into_iter().any(|is_conditional| is_conditional) {
        return Action::Conditional;
    }
    let mut additions = Additions::default();
    let assignments = updates.into_iter().flat_map(|update| &update.assignments);
    assignments.for_each(|assignment| additions.add(assignment));
    Action::Write(additions)
}

impl Additions {
    fn add(&mut self, assignment: &Assignment<'_>) {
        let (AssignmentOperation::Add(term) | AssignmentOperation::Subtract(term)) = &assignment.operation
        else {
            return;
        };
        match term {
            Term::BindMarker(BindMarker { index, name, .. }) => {
                let name = name.as_ref().map(|name| name.as_str().into());
                self.bound.push((*index, name));
            }
            Term::Literal(literal) => self.always |= literal.kind == LiteralKind::Integer,
            // Of collections.
            Term::List { .. } | Term::Set { .. } | Term::Map { .. } | Term::Null(_) => {}
            _ => self.always = true,
        }
    }

    fn count_with(&self, values: &[RecordedValue]) -> bool {
        let mut bound = self.bound.iter();
        self.always || bound.any(|(index, name)| may_count(values, *index, name.as_deref()))
    }
}

/// Bytes of a counter's increment. A collection has as many with one empty element alone.
const INCREMENT_LEN: usize = 8;

fn may_count(values: &[RecordedValue], index: usize, name: Option<&str>) -> bool {
    let is_increment = |value: &RecordedValue| match &value.content {
        ValueContent::Bytes(bytes) => bytes.len() == INCREMENT_LEN,
        ValueContent::Hashed { .. } => true,
        ValueContent::Null | ValueContent::NotSet => false,
    };
    let are_named = values.first().is_some_and(|value| value.name.is_some());
    match (are_named, name) {
        (false, _) => values.get(index).is_none_or(is_increment),
        (true, Some(name)) => values
            .iter()
            .any(|value| value.name.as_deref() == Some(name) && is_increment(value)),
        // Bound by the name of its column.
        (true, None) => values.iter().any(is_increment),
    }
}

/// What one statement of a request does, and at least what the request does by its kind.
pub(crate) fn effect_of(
    request: &RecordedRequest,
    statement: &RecordedStatement,
    action: &Action,
) -> Option<Effect> {
    let effect = action.effect(&statement.values)?;
    Some(effect.max(at_least(request)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    fn of(cql: &str) -> Option<Effect> {
        effect(&request(cql), &mut StatementCache::default())
    }

    #[test]
    fn what_a_text_does_is_more_than_what_was_said_of_it() {
        for (cql, expected) in [
            ("SELECT * FROM k.t", Effect::Read),
            ("INSERT INTO k.t (a) VALUES (1)", Effect::Write),
            ("DELETE FROM k.t WHERE a = 1", Effect::Write),
            ("UPDATE k.t SET l = l + [1] WHERE a = 1", Effect::Write),
            ("UPDATE k.t SET c = c + 1 WHERE a = 1", Effect::Counter),
            (
                "BEGIN COUNTER BATCH UPDATE k.t SET c = c + ? WHERE a = 1; APPLY BATCH",
                Effect::Counter,
            ),
            (
                "INSERT INTO k.t (a) VALUES (1) IF NOT EXISTS",
                Effect::Conditional,
            ),
            ("UPDATE k.t SET b = 1 WHERE a = 1 IF b = 2", Effect::Conditional),
            (
                "BEGIN BATCH DELETE FROM k.t WHERE a = 1 IF EXISTS; APPLY BATCH",
                Effect::Conditional,
            ),
            ("TRUNCATE k.t", Effect::Definition),
            ("DROP KEYSPACE k", Effect::Definition),
            (
                "CREATE ROLE r WITH SUPERUSER = true AND LOGIN = true",
                Effect::Definition,
            ),
            ("GRANT ALL ON ALL KEYSPACES TO r", Effect::Definition),
        ] {
            assert_eq!(of(cql), Some(expected), "{cql}");
        }
        assert_eq!(of("DROP KEYSPACE k k"), None);
    }

    #[test]
    fn what_is_bound_decides_whether_it_is_a_counters() {
        let bound = |name: Option<&str>, len: usize| {
            let mut request = request("UPDATE k.t SET c = c + :n WHERE a = 1");
            request.statements[0].values.push(RecordedValue {
                name: name.map(Into::into),
                content: ValueContent::Bytes(vec![0; len].into()),
            });
            effect(&request, &mut StatementCache::default())
        };
        assert_eq!(bound(None, 8), Some(Effect::Counter));
        assert_eq!(bound(Some("n"), 8), Some(Effect::Counter));
        assert_eq!(bound(None, 12), Some(Effect::Write));
        assert_eq!(bound(Some("n"), 12), Some(Effect::Write));
    }

    #[test]
    fn the_strictest_statement_of_a_batch_counts() {
        let mut batch = request("INSERT INTO k.t (a) VALUES (1)");
        batch.batch = Some(BatchKind::Logged);
        batch
            .statements
            .push(request("DROP TABLE k.t").statements[0].clone());
        assert_eq!(
            effect(&batch, &mut StatementCache::default()),
            Some(Effect::Definition)
        );
    }
}

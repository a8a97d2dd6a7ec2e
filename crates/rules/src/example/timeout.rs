//! What to ask instead of what replicas could not answer in time.

use super::batch;
use crate::{
    Context,
    error_code::{CAS_WRITE_UNKNOWN, READ_TIMEOUT, WRITE_TIMEOUT},
    figures::definition,
    statement::modifications,
};
use cqlens_cql::{
    plan::{Flag, StatementKind},
    schema::quote,
    syntax::{
        self,
        ast::{AssignmentOperation, InsertSource, Modification, RelationOperator, Subject},
    },
};
use cqlens_window::Pattern;

/// For the statement that timed out most often: the keys of an `IN` one by one, the statements of a batch one by one, and after
/// a conditional write a look at what was decided. Nothing of others, which may be as good as they can be.
pub(crate) fn of_less(patterns: &[&Pattern], context: &Context<'_>) -> Option<(String, String)> {
    let pattern = patterns.iter().max_by_key(|pattern| timed_out(pattern))?;
    let cql = &pattern.head.cql;
    let own = format!("{cql};");
    if pattern.head.kind == StatementKind::Batch {
        return Some((own, batch::in_parts(pattern)?));
    }
    if pattern.is(Flag::InPartitionKey) {
        return Some((own, key_by_key(cql)?));
    }
    if pattern.is(Flag::Lwt) && !pattern.head.kind.is_read() {
        let read = decided(pattern, context)?;
        return Some((
            format!("-- after a timeout sent again at once, though it may have been applied\n{own}"),
            format!(
                "-- at consistency level SERIAL: what was decided; only then, if need be, the write again\n{read}"
            ),
        ));
    }
    None
}

fn timed_out(pattern: &Pattern) -> u64 {
    let codes = [READ_TIMEOUT, WRITE_TIMEOUT, CAS_WRITE_UNKNOWN];
    let times = codes.iter().filter_map(|code| pattern.error_codes.get(code));
    times.sum()
}

/// A read by the keys of an `IN`, of which there is one, for each of them.
fn key_by_key(cql: &str) -> Option<String> {
    let (before, behind) = cql.split_once(" IN ")?;
    let rest = match behind.strip_prefix('(') {
        Some(list) => list.split_once(')')?.1,
        None => behind.strip_prefix('?')?,
    };
    let of_one = format!("{before} = ?{rest}");
    let is_whole = !rest.contains(" IN ") && syntax::parse(&of_one).is_ok();
    is_whole
        .then(|| format!("-- for each key, at the same time: each goes to a replica of its own\n{of_one};"))
}

/// The read that shows whether a conditional write was applied: what it sets, of the row that it names.
fn decided(pattern: &Pattern, context: &Context<'_>) -> Option<String> {
    let table = definition(pattern, context.schema)?;
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let [modification] = &modifications(&statement)[..] else {
        return None;
    };
    let mut named: Vec<&str> = match modification {
        Modification::Insert(insert) => match &insert.source {
            InsertSource::Values { columns, .. } => columns.iter().map(|column| column.as_str()).collect(),
            InsertSource::Json { .. } => return None,
        },
        Modification::Update(update) => {
            let set = update.assignments.iter();
            let set = set.filter(|assignment| matches!(assignment.operation, AssignmentOperation::Set(_)));
            let relations = update.where_clause.relations.iter();
            let key = relations.filter_map(|relation| match &relation.subject {
                Subject::Column(column) if relation.operator == RelationOperator::Equal => {
                    Some(column.as_str())
                }
                _ => None,
            });
            set.map(|assignment| assignment.column.as_str())
                .chain(key)
                .collect()
        }
        Modification::Delete(_) => return None,
    };
    named.dedup();
    let is_key = |name: &&str| table.column(name).is_some_and(|column| column.is_primary_key());
    let (key, set): (Vec<&str>, Vec<&str>) = named.into_iter().partition(is_key);
    let all = table
        .partition_key()
        .iter()
        .all(|column| key.contains(&&*column.name));
    let shown = if set.is_empty() { &key } else { &set };
    let shown: Vec<_> = shown.iter().map(|column| quote(column)).collect();
    let key: Vec<_> = key
        .iter()
        .map(|column| format!("{} = ?", quote(column)))
        .collect();
    all.then(|| {
        format!(
            "SELECT {} FROM {}.{} WHERE {};",
            shown.join(", "),
            quote(&table.keyspace),
            quote(&table.name),
            key.join(" AND ")
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{read, window, write};
    use cqlens_cql::{footprint::PartitionClass, schema::Schema};
    use cqlens_window::Cluster;

    const SHOP: &str =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};
         CREATE TABLE shop.names (name text PRIMARY KEY, owner int);";

    fn failing(mut pattern: Pattern, code: u32) -> Pattern {
        (0..20).for_each(|_| pattern.count_error(code));
        pattern
    }

    fn of(pattern: Pattern) -> Option<(String, String)> {
        let (window, cluster, schema) = (window([]), Cluster::default(), Schema::from_cql(SHOP).unwrap());
        let fine = read(
            "SELECT owner FROM shop.names WHERE name = ?",
            &[],
            PartitionClass::Single,
            60,
        );
        of_less(&[&fine, &pattern], &Context::new(&window, &schema, &cluster))
    }

    #[test]
    fn the_keys_of_a_list_are_asked_one_by_one() {
        for list in ["?", "(?, ?)"] {
            let cql = format!("SELECT owner FROM shop.names WHERE name IN {list} LIMIT ?");
            let of_several = read(&cql, &[Flag::InPartitionKey], PartitionClass::Multi, 60);
            let (before, after) = of(failing(of_several, READ_TIMEOUT)).unwrap();
            assert_eq!(before, format!("{cql};"));
            assert_eq!(
                after,
                "-- for each key, at the same time: each goes to a replica of its own\n\
                 SELECT owner FROM shop.names WHERE name = ? LIMIT ?;"
            );
        }
    }

    #[test]
    fn after_a_conditional_write_one_looks_at_what_was_decided() {
        let read = |cql: &str, kind| {
            let claim = write(cql, kind, &[Flag::Lwt], 60);
            let (_, after) = of(failing(claim, CAS_WRITE_UNKNOWN)).unwrap();
            after.lines().nth(1).unwrap().to_owned()
        };
        let expected = "SELECT owner FROM shop.names WHERE name = ?;";
        let claim = "INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS";
        assert_eq!(read(claim, StatementKind::Insert), expected);
        let update = "UPDATE shop.names SET owner = ? WHERE name = ? IF owner = ?";
        assert_eq!(read(update, StatementKind::Update), expected);
    }

    #[test]
    fn a_read_of_one_partition_is_shown_nothing_better() {
        let one = read(
            "SELECT owner FROM shop.names WHERE name = ?",
            &[],
            PartitionClass::Single,
            60,
        );
        assert_eq!(of(failing(one, READ_TIMEOUT)), None);
    }
}

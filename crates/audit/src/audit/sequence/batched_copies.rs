//! Whether the statements of a batch are copies of one another: the same values into several tables.

use cqlens_proto::message::{Batch, BatchQuery, BatchStatement, Value};

use super::copies::is_most;

/// Batches of statements for more tables are loads, and no copies of a row.
const MOST_TABLES: usize = 8;

/// Values of a statement that are compared.
const MOST_VALUES: usize = 256;

/// Whether a batch of `tables` tables writes the same values into each of them; none where it is not known which statement
/// writes which table. A statement that comes several times, with other rows, is compared by its first row.
pub(super) fn are_copies(
    batch: &Batch<'_>,
    tables: usize,
    hash: impl Fn(&[u8]) -> Option<u64>,
) -> Option<bool> {
    if !(2..=MOST_TABLES).contains(&tables) {
        return None;
    }
    let mut statements: Vec<(BatchQuery<'_>, Vec<u64>)> = Vec::new();
    for statement in &batch.statements {
        if statements
            .iter()
            .any(|(query, _)| is_same(*query, statement.query))
        {
            continue;
        }
        if statements.len() >= tables {
            return None;
        }
        statements.push((statement.query, values(statement, &hash)));
    }
    // Each of so many different statements writes one of as many tables.
    (statements.len() == tables).then(|| is_each_a_copy(&statements))
}

fn is_each_a_copy(statements: &[(BatchQuery<'_>, Vec<u64>)]) -> bool {
    let mut places = 0..statements.len();
    places.all(|at| {
        let others = statements.iter().enumerate().filter(|(other, _)| *other != at);
        let own = statements.get(at).map_or(&[][..], |(_, values)| values);
        others.map(|(_, (_, values))| values).any(|values| {
            let common = own.iter().filter(|value| values.contains(value)).count();
            is_most(common, own.len(), values.len())
        })
    })
}

fn is_same(one: BatchQuery<'_>, other: BatchQuery<'_>) -> bool {
    match (one, other) {
        (BatchQuery::Text(one), BatchQuery::Text(other)) => one == other,
        (BatchQuery::Prepared(one), BatchQuery::Prepared(other)) => one == other,
        _ => false,
    }
}

/// Hashes of the values that a statement binds, each once.
fn values(statement: &BatchStatement<'_>, hash: impl Fn(&[u8]) -> Option<u64>) -> Vec<u64> {
    let bound = statement.values.iter().take(MOST_VALUES);
    let hashes = bound.filter_map(|(_, value)| match value {
        Value::Bytes(bytes) => hash(bytes),
        _ => None,
    });
    let mut hashes: Vec<u64> = hashes.collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_proto::message::{BatchKind, Consistency, ValuesBuf};

    const BY_NAME: &str = "INSERT INTO by_name (name, email, age) VALUES (?, ?, ?)";
    const BY_EMAIL: &str = "INSERT INTO by_email (email, name, age) VALUES (?, ?, ?)";

    fn copies(statements: &[(&str, &[u64])], tables: usize) -> Option<bool> {
        let values: Vec<ValuesBuf> = statements
            .iter()
            .map(|(_, values)| {
                let bytes: Vec<[u8; 8]> = values.iter().map(|value| value.to_be_bytes()).collect();
                ValuesBuf::positional(bytes.iter().map(|bytes| Value::Bytes(bytes))).unwrap()
            })
            .collect();
        let statements = statements.iter().zip(&values);
        let statements = statements.map(|((cql, _), values)| BatchStatement {
            query: BatchQuery::Text(cql),
            values: values.values(),
        });
        let batch = Batch::new(BatchKind::Unlogged, statements.collect(), Consistency::One);
        are_copies(&batch, tables, |bytes| {
            Some(u64::from_be_bytes(bytes.try_into().unwrap()))
        })
    }

    #[test]
    fn statements_with_the_same_values_are_copies() {
        assert_eq!(
            copies(&[(BY_NAME, &[1, 2, 30]), (BY_EMAIL, &[2, 1, 30])], 2),
            Some(true)
        );
        let rows: &[(&str, &[u64])] = &[
            (BY_NAME, &[1, 2, 30]),
            (BY_NAME, &[3, 4, 30]),
            (BY_EMAIL, &[2, 1, 30]),
            (BY_EMAIL, &[4, 3, 30]),
        ];
        assert_eq!(copies(rows, 2), Some(true));
    }

    #[test]
    fn statements_that_share_a_key_are_none() {
        assert_eq!(
            copies(&[(BY_NAME, &[1, 2, 30]), (BY_EMAIL, &[1, 7, 31])], 2),
            Some(false)
        );
        let log = "INSERT INTO log (at, what) VALUES (?, ?)";
        let with_log: &[(&str, &[u64])] = &[(BY_NAME, &[1, 2, 30]), (BY_EMAIL, &[2, 1, 30]), (log, &[8, 9])];
        assert_eq!(copies(with_log, 3), Some(false));
    }

    #[test]
    fn of_statements_whose_tables_are_not_known_nothing_is_told() {
        // Three statements for two tables.
        let update = "UPDATE by_name SET age = ? WHERE name = ?";
        let three: &[(&str, &[u64])] = &[
            (BY_NAME, &[1, 2, 30]),
            (BY_EMAIL, &[2, 1, 30]),
            (update, &[30, 1]),
        ];
        assert_eq!(copies(three, 2), None);
        assert_eq!(copies(&[(BY_NAME, &[1, 2, 30]), (BY_NAME, &[2, 1, 30])], 1), None);
        assert_eq!(copies(&[(BY_NAME, &[1, 2, 30])], 2), None);
    }
}

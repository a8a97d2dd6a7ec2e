//! What the text of a statement says by itself.

use cqlens_cql::syntax::{
    ast::{AssignmentOperation, Body, Kind, Modification, QualifiedName, Update},
    parse,
};

/// What is neither read, nor write, nor definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// Sets the keyspace of the connection.
    Use,
    /// Gives a role, maybe with its password.
    Credentials,
    /// Asks the server about itself: LIST, DESCRIBE.
    Server,
}

impl Special {
    /// Whether a statement that the audit does not tell the kind of is one of these.
    pub(crate) fn of(cql: &str) -> Option<Self> {
        let Ok(statement) = parse(cql) else {
            // Whatever it is, a password must not be kept.
            return (names_password(cql) || is_about_roles(cql)).then_some(Self::Credentials);
        };
        match statement.kind() {
            Kind::Use => Some(Self::Use),
            Kind::CreateRole | Kind::AlterRole => Some(Self::Credentials),
            Kind::Describe
            | Kind::ListPermissions
            | Kind::ListRoles
            | Kind::ListUsers
            | Kind::ListSuperusers
            | Kind::ListServiceLevel => Some(Self::Server),
            _ => None,
        }
    }
}

/// Whether it may give a role with its password, however that is misspelt: both words stand somewhere, whatever is
/// between them.
fn is_about_roles(cql: &str) -> bool {
    let mut words = cql.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_one_of = |word: &str, words: [&str; 2]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    words.any(|word| is_one_of(word, ["create", "alter"]))
        && words.any(|word| is_one_of(word, ["role", "user"]))
}

fn names_password(cql: &str) -> bool {
    const PASSWORD: &[u8] = b"password";
    let mut parts = cql.as_bytes().windows(PASSWORD.len());
    parts.any(|part| part.eq_ignore_ascii_case(PASSWORD))
}

/// Whether a write whose table is not in the schema may add to a counter: it adds to a column, which may be a
/// list as well.
pub(crate) fn may_count(cql: &str) -> bool {
    let adds = |update: &Update<'_>| {
        let mut assignments = update.assignments.iter();
        assignments.any(|assignment| {
            matches!(
                assignment.operation,
                AssignmentOperation::Add(_) | AssignmentOperation::Subtract(_)
            )
        })
    };
    match parse(cql).map(|statement| statement.body) {
        Ok(Body::Update(update)) => adds(&update),
        Ok(Body::Batch(batch)) => batch.statements.iter().any(|statement| match statement {
            Modification::Update(update) => adds(update),
            Modification::Insert(_) | Modification::Delete(_) => false,
        }),
        Ok(_) => false,
        Err(_) => true,
    }
}

/// Whether the statement of a batch means another table in another keyspace.
pub(crate) fn needs_keyspace(cql: &str) -> bool {
    let lacks = |table: &QualifiedName<'_>| table.keyspace.is_none();
    match parse(cql).map(|statement| statement.body) {
        Ok(Body::Insert(insert)) => lacks(&insert.table),
        Ok(Body::Update(update)) => lacks(&update.table),
        Ok(Body::Delete(delete)) => lacks(&delete.table),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_roles_are_told_apart_also_where_they_do_not_parse() {
        let of = |cql| Special::of(cql);
        assert_eq!(of("USE shop"), Some(Special::Use));
        assert_eq!(
            of("create role a with password = 'b'"),
            Some(Special::Credentials)
        );
        assert_eq!(
            of("ALTER USER a WITH PassWord 'b' AND"),
            Some(Special::Credentials)
        );
        for cql in [
            "CREATE USER a WITH PASSWORT 'b'",
            "CREATE/* */ROLE a WITH PASSWORT = 'b'",
            "/* */ ALTER -- a\n USER/**/a WITH PASS 'b'",
            "CREATE//\nROLE a WITH 'b'",
        ] {
            assert_eq!(of(cql), Some(Special::Credentials), "{cql}");
        }
        assert_eq!(of("CREATE TABEL shop.orders (a int PRIMARY KEY)"), None);
        assert_eq!(of("LIST ROLES"), Some(Special::Server));
        assert_eq!(of("TRUNCATE shop.orders"), None);
        assert_eq!(of("GRANT SELECT ON shop.orders TO a"), None);
    }

    #[test]
    fn a_write_that_adds_to_a_column_may_count() {
        assert!(may_count("UPDATE t SET n = n + 1 WHERE k = 0"));
        assert!(may_count(
            "BEGIN COUNTER BATCH UPDATE t SET n -= ? WHERE k = 0; APPLY BATCH"
        ));
        assert!(!may_count("UPDATE t SET n = 1 WHERE k = 0"));
        assert!(!may_count("INSERT INTO t (k) VALUES (0)"));
    }

    #[test]
    fn a_qualified_table_needs_no_keyspace() {
        assert!(needs_keyspace("DELETE FROM t WHERE k = 0"));
        assert!(!needs_keyspace("DELETE FROM s.t WHERE k = 0"));
    }
}

//! What may be sent to another cluster: reads, and of all else only what a setting allows.

use std::collections::BTreeSet;

use cqlens_cql::schema::is_system;

use crate::{
    effect::{Action, effect_of},
    exchange::{Effect, Page, RecordedRequest, ValueContent},
    skipped::Skipped,
    statement::StatementCache,
};

/// What may be sent beside reads: of each kind of statement the keyspaces that it may touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// That may be written to.
    pub writes: BTreeSet<String>,
    /// That conditional writes may be sent to.
    pub conditional: BTreeSet<String>,
    /// Whose counters may be added to.
    pub counters: BTreeSet<String>,
    /// That may be defined anew, and what is in them. What names no keyspace, as roles, is never sent.
    pub definitions: BTreeSet<String>,
}

impl Permissions {
    /// Whether a request may be sent, judged by what its statements say: what was recorded of its effect can
    /// only make it less.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, request: &RecordedRequest, statements: &mut StatementCache) -> Result<(), Skipped> {
        for statement in &request.statements {
            let facts = statements.facts(&statement.cql);
            let effect = effect_of(request, statement, &facts.action).ok_or(Skipped::Unparsed)?;
            match facts.action {
                Action::Use => return Err(Skipped::Use),
                Action::Server => return Err(Skipped::SystemTable),
                // Those of the other cluster are its own.
                Action::Roles => return Err(Skipped::Definition),
                _ => {}
            }
            self.check_keyspaces(effect, facts.touched(request.keyspace.as_deref()))?;
        }
        has_values(request)
    }

    fn check_keyspaces<'k>(
        &self,
        effect: Effect,
        touched: impl Iterator<Item = &'k str>,
    ) -> Result<(), Skipped> {
        let limit = self.limit(effect);
        let mut touches_any = false;
        for keyspace in touched {
            touches_any = true;
            if is_system(keyspace) {
                return Err(Skipped::SystemTable);
            }
            if let Some((allowed, reason)) = limit
                && !allowed.contains(keyspace)
            {
                return Err(reason);
            }
        }
        match limit {
            // A write whose keyspace is unknown is never sent.
            Some((_, reason)) if !touches_any => Err(reason),
            _ => Ok(()),
        }
    }

    /// The keyspaces that may be affected so, and why others are left out; none for all.
    fn limit(&self, effect: Effect) -> Option<(&BTreeSet<String>, Skipped)> {
        match effect {
            Effect::Read => None,
            Effect::Write => Some((&self.writes, Skipped::Write)),
            Effect::Counter => Some((&self.counters, Skipped::Counter)),
            Effect::Conditional => Some((&self.conditional, Skipped::Conditional)),
            Effect::Definition => Some((&self.definitions, Skipped::Definition)),
        }
    }
}

fn has_values(request: &RecordedRequest) -> Result<(), Skipped> {
    let mut values = request.statements.iter().flat_map(|statement| &statement.values);
    if values.any(|value| matches!(value.content, ValueContent::Hashed { .. })) {
        return Err(Skipped::HashedValues);
    }
    match request.page {
        Page::Unknown => Err(Skipped::UnknownPage),
        Page::First | Page::After(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use cqlens_proto::message::BatchKind;

    use super::*;
    use crate::{exchange::RecordedValue, testing::request};

    fn check(permissions: &Permissions, cql: &str, effect: Effect) -> Result<(), Skipped> {
        let request = RecordedRequest {
            effect,
            ..request(cql)
        };
        permissions.check(&request, &mut StatementCache::default())
    }

    #[test]
    fn reads_are_sent_and_writes_only_to_keyspaces_that_are_named() {
        let none = Permissions::default();
        let write = "INSERT INTO k.t (a) VALUES (1)";
        assert_eq!(check(&none, "SELECT * FROM k.t", Effect::Read), Ok(()));
        // What another server may read in it.
        for text in ["SELECT * FROM k.t /*", "SELECT * FROM k.t /* ' */ TRUNCATE k.t"] {
            assert!(check(&none, text, Effect::Read).is_err(), "{text}");
        }
        assert_eq!(check(&none, write, Effect::Write), Err(Skipped::Write));
        let k = Permissions {
            writes: ["k".to_owned()].into(),
            ..Permissions::default()
        };
        assert_eq!(check(&k, write, Effect::Write), Ok(()));
        assert_eq!(
            check(&k, "INSERT INTO other.t (a) VALUES (1)", Effect::Write),
            Err(Skipped::Write)
        );
        assert_eq!(
            check(&k, "INSERT INTO t (a) VALUES (1)", Effect::Write),
            Err(Skipped::Write)
        );
        assert_eq!(
            check(&k, "DELETE FROM k.t WHERE a = 1 IF EXISTS", Effect::Conditional),
            Err(Skipped::Conditional)
        );
        assert_eq!(
            check(&k, "UPDATE k.t SET c = c + 1 WHERE a = 1", Effect::Counter),
            Err(Skipped::Counter)
        );
        assert_eq!(
            check(&k, "TRUNCATE k.t", Effect::Definition),
            Err(Skipped::Definition)
        );
    }

    #[test]
    fn each_effect_has_keyspaces_of_its_own() {
        let k = || BTreeSet::from(["k".to_owned()]);
        let conditional = Permissions {
            conditional: k(),
            ..Permissions::default()
        };
        let counters = Permissions {
            counters: k(),
            ..Permissions::default()
        };
        let definitions = Permissions {
            definitions: k(),
            ..Permissions::default()
        };
        for (permissions, effect, reason, cql) in [
            (
                &conditional,
                Effect::Conditional,
                Skipped::Conditional,
                "DELETE FROM k.t WHERE a = 1 IF EXISTS",
            ),
            (
                &counters,
                Effect::Counter,
                Skipped::Counter,
                "UPDATE k.t SET c = c + 1 WHERE a = 1",
            ),
            (
                &definitions,
                Effect::Definition,
                Skipped::Definition,
                "ALTER TABLE k.t ADD b int",
            ),
        ] {
            assert_eq!(check(permissions, cql, effect), Ok(()));
            let elsewhere = cql.replace("k.t", "other.t");
            assert_eq!(check(permissions, &elsewhere, effect), Err(reason));
            let write = "INSERT INTO k.t (a) VALUES (1)";
            assert_eq!(check(permissions, write, Effect::Write), Err(Skipped::Write));
        }
        let none = Permissions::default();
        assert_eq!(check(&none, "not CQL", Effect::Write), Err(Skipped::Unparsed));
    }

    #[test]
    fn a_recording_that_calls_all_a_read_gets_nothing_else_through() {
        let none = Permissions::default();
        for (cql, reason) in [
            ("DROP KEYSPACE k", Skipped::Definition),
            ("TRUNCATE k.t", Skipped::Definition),
            ("DELETE FROM k.t WHERE a = 1", Skipped::Write),
            ("INSERT INTO k.t (a) VALUES (1)", Skipped::Write),
            ("UPDATE k.t SET c = c + 1 WHERE a = 1", Skipped::Counter),
            ("DELETE FROM k.t WHERE a = 1 IF EXISTS", Skipped::Conditional),
            (
                "BEGIN BATCH INSERT INTO k.t (a) VALUES (1); APPLY BATCH",
                Skipped::Write,
            ),
            (
                "CREATE ROLE r WITH SUPERUSER = true AND LOGIN = true AND PASSWORD = 'p'",
                Skipped::Definition,
            ),
            ("GRANT ALL ON ALL KEYSPACES TO r", Skipped::Definition),
            ("LIST ROLES", Skipped::SystemTable),
            ("/* SELECT */ DROP KEYSPACE k", Skipped::Definition),
            ("-- a\rDROP KEYSPACE k; --\nSELECT * FROM k.t", Skipped::Unparsed),
            ("SELECT * FROM k.t; DROP KEYSPACE k", Skipped::Unparsed),
            ("DROP KEYSPACE k k", Skipped::Unparsed),
        ] {
            for is_prepared in [false, true] {
                let mut request = request(cql);
                request.statements[0].is_prepared = is_prepared;
                let allowed = none.check(&request, &mut StatementCache::default());
                assert_eq!(allowed, Err(reason), "{cql}");
            }
        }
    }

    #[test]
    fn each_statement_of_a_batch_needs_its_permission() {
        let all = || BTreeSet::from(["k".to_owned()]);
        let everything_in_k = Permissions {
            writes: all(),
            conditional: all(),
            counters: all(),
            definitions: all(),
        };
        let write = "INSERT INTO k.t (a) VALUES (1)";
        for (other, reason) in [
            ("DROP KEYSPACE other", Skipped::Definition),
            ("DROP ROLE r", Skipped::Definition),
            ("INSERT INTO t (a) VALUES (1)", Skipped::Write),
            ("TRUNCATE", Skipped::Unparsed),
        ] {
            let mut batch = request(write);
            batch.batch = Some(BatchKind::Unlogged);
            batch.statements.push(request(other).statements[0].clone());
            let allowed = everything_in_k.check(&batch, &mut StatementCache::default());
            assert_eq!(allowed, Err(reason), "{other}");
        }
    }

    #[test]
    fn definitions_are_sent_for_the_keyspaces_that_are_named_and_for_nothing_else() {
        let definitions = Permissions {
            definitions: ["k".to_owned()].into(),
            ..Permissions::default()
        };
        let check = |cql: &str| {
            let request = RecordedRequest {
                effect: Effect::Definition,
                keyspace: Some("k".into()),
                ..request(cql)
            };
            definitions.check(&request, &mut StatementCache::default())
        };
        for cql in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "DROP KEYSPACE k",
            "CREATE TABLE t (a int PRIMARY KEY)",
            "CREATE INDEX ON k.t (b)",
            "CREATE TYPE k.address (street text)",
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL PRIMARY KEY (a)",
            "DROP TABLE IF EXISTS k.t",
            "DROP INDEX k.t_b_idx",
            "TRUNCATE t",
        ] {
            assert_eq!(check(cql), Ok(()), "{cql}");
        }
        for cql in [
            "DROP KEYSPACE other",
            "ALTER KEYSPACE other WITH durable_writes = true",
            "CREATE TABLE other.t (a int PRIMARY KEY)",
            "CREATE MATERIALIZED VIEW k.v AS SELECT * FROM other.t WHERE a IS NOT NULL PRIMARY KEY (a)",
            "TRUNCATE other.t",
            "GRANT SELECT ON k.t TO a",
            "DROP ROLE k",
        ] {
            assert_eq!(check(cql), Err(Skipped::Definition), "{cql}");
        }
    }

    #[test]
    fn what_every_cluster_has_of_its_own_and_what_has_no_values_is_left_out() {
        let none = Permissions::default();
        assert_eq!(
            check(&none, "SELECT * FROM system.local", Effect::Read),
            Err(Skipped::SystemTable)
        );
        let mut hashed = request("SELECT * FROM k.t WHERE a = ?");
        hashed.statements[0].values.push(RecordedValue {
            name: None,
            content: ValueContent::Hashed { hash: 1, len: 4 },
        });
        assert_eq!(
            none.check(&hashed, &mut StatementCache::default()),
            Err(Skipped::HashedValues)
        );
    }
}

//! What may be sent to another cluster: reads, and of all else only what a setting allows.

use std::collections::BTreeSet;

use cqlens_cql::schema::is_system;

use crate::{
    exchange::{Effect, Page, RecordedRequest, ValueContent},
    skipped::Skipped,
    statement::StatementCache,
};

/// What may be sent beside reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The keyspaces that may be written; of conditional writes, counters and definitions too.
    pub write_keyspaces: BTreeSet<String>,
    /// Whether conditional writes may be sent to them.
    pub conditional: bool,
    /// Whether counters of them may be added to.
    pub counters: bool,
    /// Whether definitions may be sent, of any keyspace: not all of them name one.
    pub definitions: bool,
}

impl Permissions {
    /// Whether a request may be sent, judged by its effect and its statements.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, request: &RecordedRequest, statements: &mut StatementCache) -> Result<(), Skipped> {
        let refusal = match request.effect {
            Effect::Read => None,
            Effect::Write => Some((true, Skipped::Write)),
            Effect::Counter => Some((self.counters, Skipped::Counter)),
            Effect::Conditional => Some((self.conditional, Skipped::Conditional)),
            Effect::Definition => return self.definitions.then_some(()).ok_or(Skipped::Definition),
        };
        let mut touches_any = false;
        for statement in &request.statements {
            let facts = statements.facts(&statement.cql);
            if facts.is_use {
                return Err(Skipped::Use);
            }
            for keyspace in facts.touched(request.keyspace.as_deref()) {
                touches_any = true;
                if is_system(keyspace) {
                    return Err(Skipped::SystemTable);
                }
                match refusal {
                    Some((false, reason)) => return Err(reason),
                    Some(_) if !self.write_keyspaces.contains(keyspace) => return Err(Skipped::Write),
                    _ => {}
                }
            }
        }
        // A write whose keyspace is unknown is never sent.
        match refusal {
            Some((_, reason)) if !touches_any => Err(reason),
            _ => has_values(request),
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
        assert_eq!(check(&none, write, Effect::Write), Err(Skipped::Write));
        let k = Permissions {
            write_keyspaces: ["k".to_owned()].into(),
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
    fn each_effect_has_a_setting_of_its_own_and_needs_the_keyspace_too() {
        let conditional = Permissions {
            write_keyspaces: ["k".to_owned()].into(),
            conditional: true,
            ..Permissions::default()
        };
        assert_eq!(
            check(
                &conditional,
                "DELETE FROM k.t WHERE a = 1 IF EXISTS",
                Effect::Conditional
            ),
            Ok(())
        );
        assert_eq!(
            check(
                &conditional,
                "DELETE FROM other.t WHERE a = 1 IF EXISTS",
                Effect::Conditional
            ),
            Err(Skipped::Write)
        );
        assert_eq!(check(&conditional, "not CQL", Effect::Write), Err(Skipped::Write));
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

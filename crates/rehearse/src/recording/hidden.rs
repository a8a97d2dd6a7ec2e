//! Exchanges without values: keyed hashes in their place.

use std::{hash::Hasher as _, sync::Arc};

use siphasher::sip::SipHasher13;

use cqlens_cql::syntax::parse;

use super::bare::Bare;
use crate::{
    effect::Action,
    exchange::{RecordedExchange, RecordedStatement, RecordedValue, ValueContent},
};

/// The key of hashes of values. It is nowhere but in memory, and gone with the process.
#[derive(Clone, Copy)]
pub(super) struct ValueKey(pub(super) [u8; 16]);

impl ValueKey {
    /// The exchange without its values, those in texts included; and of how many of its statements the text was cut, since it does
    /// not parse.
    pub(super) fn hide(self, exchange: &RecordedExchange) -> (RecordedExchange, u64) {
        let (mut hidden, mut cut) = (exchange.clone(), 0);
        for statement in &mut hidden.request.statements {
            self.hide_bound(&mut statement.values);
            // Definitions stand in every snapshot, too.
            if !is_definition(&statement.cql) {
                cut += u64::from(!self.hide_written(statement));
            }
        }
        (hidden, cut)
    }

    fn hide_bound(self, values: &mut [RecordedValue]) {
        for value in values {
            if let ValueContent::Bytes(bytes) = &value.content {
                value.content = self.hashed(bytes);
            }
        }
    }

    /// What stands in the text becomes values of markers; whether the text parses.
    fn hide_written(self, statement: &mut RecordedStatement) -> bool {
        let cql = Arc::clone(&statement.cql);
        let bare = Bare::of(&cql);
        if bare.cql == *cql {
            return bare.is_parsed;
        }
        let are_named = statement.values.iter().any(|value| value.name.is_some());
        let mut bound = std::mem::take(&mut statement.values).into_iter();
        for written in bare.markers {
            let value = match written {
                None => bound.next(),
                // A named value finds its marker by itself.
                Some(_) if are_named => None,
                Some(written) => Some(RecordedValue {
                    name: None,
                    content: self.hashed(written.as_bytes()),
                }),
            };
            statement.values.extend(value);
        }
        statement.values.extend(bound);
        statement.cql = bare.cql.into();
        bare.is_parsed
    }

    fn hashed(self, bytes: &[u8]) -> ValueContent {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(bytes);
        ValueContent::Hashed {
            hash: hasher.finish(),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Whether a text defines what is in a keyspace. One that does not parse defines nothing, and roles have passwords.
fn is_definition(cql: &str) -> bool {
    parse(cql).is_ok_and(|statement| Action::of(&statement) == Action::Definition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{digest::ResponseDigest, exchange::Effect, testing::exchange};

    fn hidden(cql: &str) -> String {
        let mut exchange = exchange(0, cql, ResponseDigest::Error(0x2000));
        exchange.request.effect = Effect::Definition;
        let (hidden, _) = ValueKey([1; 16]).hide(&exchange);
        hidden.request.statements[0].cql.to_string()
    }

    #[test]
    fn of_what_is_not_parsed_no_literal_stays() {
        for cql in [
            "CREATE USER x WITH PASSWORT 'secret'",
            "CREATE USER secret PASSWORT $$secret$$ NOSUPERUSER",
            "UPDAET k.t SET a = 'secret' WHERE b = secret",
            "INSERT INTO k.t (a) VALUES ('O'secret')",
            "INSERT INTO k.O'Brien (a) VALUES ('secret')",
            "SELECT * FROM k.t WHERE a = \"secret\" AND b = 'open secret",
            "DELETE FORM k.t WHERE secret = 0xsecret",
            "CREATE TABLE k.t (a int PRIMARY KEY) WITH comment = 'secret' secret",
            "secret",
            "UPDAET k.t SET a = copied from secret'",
            "INSRT k.t (a) VALUES (copied into secret')",
            "SELECT a FORM k.t WHERE b IN (copied from secret')",
        ] {
            let hidden = hidden(cql);
            assert!(!hidden.to_lowercase().contains("secret"), "{cql}: {hidden}");
        }
    }

    #[test]
    fn passwords_of_roles_and_users_do_not_stay() {
        for cql in [
            "CREATE USER u WITH PASSWORD 'secret'",
            "CREATE USER u WITH HASHED PASSWORD '$2a$secret' SUPERUSER",
            "ALTER USER u WITH PASSWORD 'secret'",
            "CREATE ROLE r WITH PASSWORD = 'secret' AND LOGIN = true",
            "ALTER ROLE r WITH HASHED PASSWORD = 'secret'",
            "CREATE ROLE r WITH OPTIONS = {'password': 'secret'}",
            "ALTER ROLE r WITH PASSWORD = $$secret$$",
        ] {
            let hidden = hidden(cql);
            assert!(!hidden.contains("secret"), "{cql}: {hidden}");
        }
    }

    #[test]
    fn definitions_of_a_keyspace_stay_as_they_are() {
        let cql = "CREATE TABLE k.t (a int PRIMARY KEY) WITH comment = 'orders'";
        assert_eq!(hidden(cql), cql);
    }
}

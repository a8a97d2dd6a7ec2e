//! What a definition defines, alters or drops, as far as its first words say it: also of one that is no CQL.

use super::lexer::Lexer;
use super::parse::unquoted;
use super::{Keyword, Token, TokenKind};

/// What a definition is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionTarget {
    /// A keyspace.
    Keyspace(String),
    /// A table, a view or a type; the table of an index.
    Object {
        /// The keyspace, if it is named.
        keyspace: Option<String>,
        /// The name in it.
        name: String,
    },
}

impl DefinitionTarget {
    /// The target of the text of one statement; none if the text does not begin as a definition, or does not get as far as
    /// the name.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let mut lexer = Lexer::new(text).ok()?;
        let tokens = std::iter::from_fn(|| {
            lexer
                .next_token()
                .ok()
                .filter(|token| token.kind != TokenKind::End)
        });
        let tokens: Vec<Token> = tokens.take(MOST_TOKENS).collect();
        let word = |index: usize| -> Option<&str> { Some(tokens.get(index)?.span.of(text)) };
        let is = |index: usize, words: &[&str]| {
            word(index).is_some_and(|word| words.iter().any(|other| word.eq_ignore_ascii_case(other)))
        };
        if !is(0, &["CREATE", "ALTER", "DROP"]) {
            return None;
        }
        let object = (1..4).find(|index| is(*index, OBJECTS))?;
        let name = match is(object, &["INDEX"]) {
            true => (object..tokens.len()).find(|index| is(*index, &["ON"]))? + 1,
            false => (object + 1..tokens.len()).find(|index| !is(*index, &["IF", "NOT", "EXISTS"]))?,
        };
        let named = |index: usize| match tokens.get(index)?.kind {
            TokenKind::QuotedName => Some(unquoted(word(index)?).into_owned()),
            TokenKind::Identifier => Some(word(index)?.to_ascii_lowercase()),
            TokenKind::Keyword(keyword) if !Keyword::is_reserved(keyword) => {
                Some(word(index)?.to_ascii_lowercase())
            }
            _ => None,
        };
        let first = named(name)?;
        if is(object, &["KEYSPACE", "SCHEMA"]) {
            return Some(Self::Keyspace(first));
        }
        Some(match tokens.get(name + 1).map(|token| token.kind) {
            Some(TokenKind::Dot) => Self::Object {
                keyspace: Some(first),
                name: named(name + 2)?,
            },
            _ => Self::Object {
                keyspace: None,
                name: first,
            },
        })
    }
}

/// What definitions define. DSE's and ScyllaDB's, too: `CREATE SEARCH INDEX ON t`.
const OBJECTS: &[&str] = &[
    "KEYSPACE",
    "SCHEMA",
    "TABLE",
    "COLUMNFAMILY",
    "TYPE",
    "VIEW",
    "INDEX",
];

/// A name comes sooner.
const MOST_TOKENS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn object(keyspace: Option<&str>, name: &str) -> Option<DefinitionTarget> {
        Some(DefinitionTarget::Object {
            keyspace: keyspace.map(ToOwned::to_owned),
            name: name.to_owned(),
        })
    }

    #[test]
    fn a_definition_that_is_no_cql_names_what_it_defines() {
        let of = DefinitionTarget::of;
        assert_eq!(
            of("CREATE TABLE shop.t (id uuid PRIMARY KEY, v text NUT NULL)"),
            object(Some("shop"), "t")
        );
        assert_eq!(of("create table if not exists \"A\".B ("), object(Some("A"), "b"));
        assert_eq!(
            of("CREATE INDEX by_owner ON shop.pets ((id), name)"),
            object(Some("shop"), "pets")
        );
        assert_eq!(
            of("CREATE SEARCH INDEX IF NOT EXISTS ON t WITH x"),
            object(None, "t")
        );
        assert_eq!(of("CREATE MATERIALIZED VIEW v AS x"), object(None, "v"));
        assert_eq!(
            of("ALTER TYPE shop.address ADD ?"),
            object(Some("shop"), "address")
        );
        assert_eq!(of("CREATE TABLE ttl (k 'x y"), object(None, "ttl"));
        assert_eq!(
            of("CREATE KEYSPACE IF NOT EXISTS Shop WITH x"),
            Some(DefinitionTarget::Keyspace("shop".to_owned()))
        );
    }

    #[test]
    fn what_defines_no_table_has_no_target() {
        for text in [
            "CREATE ROLE r WITH SALTED HASH = 'x'",
            "SELECT table FROM t",
            "CREATE TABLE",
            "CREATE TABLE select",
            "CREATE INDEX i",
            "",
        ] {
            assert_eq!(DefinitionTarget::of(text), None, "{text}");
        }
    }
}

//! Which definitions a server refuses, and which other statements. The same statements are asked of a real one in `tests/cassandra/definitions.rs`.

use cqlens_cql::ServerVersion;
use cqlens_cql::schema::{Schema, SchemaErrorKind};
use cqlens_cql::syntax;

const SCHEMA: &str = include_str!("../definitions/schema.cql");
const ACCEPTED: &str = include_str!("../definitions/accepted.cql");
const REFUSED: &str = include_str!("../definitions/refused.cql");
const UNFORESEEN: &str = include_str!("../definitions/unforeseen.cql");

/// What is said of a definition by itself, as `explain` says it.
fn refusal(schema: &Schema, text: &str) -> Option<String> {
    let statement = syntax::parse(text).unwrap();
    if let Err(error) = schema.validate(&statement, None, ServerVersion::V5_0) {
        return Some(error.to_string());
    }
    schema
        .clone()
        .apply(&statement, None)
        .err()
        .map(|error| error.to_string())
}

fn statements(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.starts_with("--"))
}

fn schema() -> Schema {
    schema_of(SCHEMA)
}

fn schema_of(script: &str) -> Schema {
    let mut schema = Schema::default();
    for text in statements(script) {
        let statement = syntax::parse(text).unwrap();
        assert_eq!(
            schema.validate(&statement, None, ServerVersion::V5_0),
            Ok(()),
            "{text}"
        );
        schema.apply(&statement, None).unwrap();
    }
    schema
}

#[test]
fn what_a_server_carries_out_is_not_refused() {
    let schema = schema();
    for text in statements(ACCEPTED).chain(statements(UNFORESEEN)) {
        assert_eq!(refusal(&schema, text), None, "{text}");
    }
}

#[test]
fn what_a_server_refuses_is_refused_with_the_reason() {
    let schema = schema();
    let mut reason = "";
    for line in REFUSED.lines().skip(1) {
        match line.strip_prefix("-- ") {
            Some(said) => reason = said,
            None => assert_eq!(refusal(&schema, line).as_deref(), Some(reason), "{line}"),
        }
    }
}

#[test]
fn statements_are_refused_as_a_server_refuses_them() {
    let schema = schema_of(include_str!("../statements/schema.cql"));
    let said = |text: &str| {
        let statement = syntax::parse(text).unwrap();
        let validated = schema.validate(&statement, None, ServerVersion::V5_0);
        validated.err().map(|error| error.to_string())
    };
    for text in statements(include_str!("../statements/accepted.cql")) {
        assert_eq!(said(text), None, "{text}");
    }
    let mut reason = "";
    for line in include_str!("../statements/refused.cql").lines().skip(1) {
        match line.strip_prefix("-- ") {
            Some(said) => reason = said,
            None => assert_eq!(said(line).as_deref(), Some(reason), "{line}"),
        }
    }
}

#[test]
fn the_place_of_a_refusal_is_in_the_statement() {
    let schema = schema();
    for text in statements(REFUSED) {
        let statement = syntax::parse(text).unwrap();
        if let Err(error) = schema.validate(&statement, None, ServerVersion::V5_0) {
            let place = error.span.of(text);
            assert!(!place.is_empty() && place.len() < text.len(), "{text}: {place:?}");
        }
    }
}

#[test]
fn versions_have_properties_of_their_own() {
    let mut schema = Schema::default();
    let keyspace = syntax::parse(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    schema.apply(&keyspace.unwrap(), None).unwrap();
    let is_refused = |properties: &str, version| {
        let text = format!("CREATE TABLE shop.orders (id int PRIMARY KEY) WITH {properties}");
        let statement = syntax::parse(&text).unwrap();
        schema.validate(&statement, None, version).is_err()
    };
    let of_6 = "transactional_mode = 'full'";
    assert!(is_refused(of_6, ServerVersion::V5_0));
    assert!(!is_refused(of_6, ServerVersion::V6_0));
    let of_4 = "compression = {'sstable_compression': 'LZ4Compressor', 'chunk_length_kb': 64}";
    assert!(is_refused(of_4, ServerVersion::V5_0));
    assert!(!is_refused(of_4, ServerVersion::V4_1));
    assert!(is_refused(
        "dclocal_read_repair_chance = 0.1",
        ServerVersion::V4_0
    ));
}

#[test]
fn a_type_that_is_not_there_may_be_defined_elsewhere() {
    let schema = schema();
    let statement = syntax::parse("CREATE TABLE d.t1 (k int PRIMARY KEY, v frozen<nosuch>)").unwrap();
    let error = schema
        .validate(&statement, None, ServerVersion::V5_0)
        .unwrap_err();
    assert_eq!(error.kind, SchemaErrorKind::TypeUnknown("nosuch".to_owned()));
}

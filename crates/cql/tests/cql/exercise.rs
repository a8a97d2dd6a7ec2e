//! Asks a text for everything that it can be asked for. Nothing in here may panic, whatever the text.
#![allow(dead_code, clippy::panic, missing_docs)]

use std::sync::LazyLock;

use cqlens_cql::footprint::Keys;
use cqlens_cql::plan::Plan;
use cqlens_cql::schema::Schema;
use cqlens_cql::syntax::ast::Body;
use cqlens_cql::syntax::{self, Template, TextShape, Work};
use cqlens_proto::message::Values;

/// Tokens, tree, script: spans lie within the text.
pub(crate) fn text(text: &str) {
    if let Ok(statement) = syntax::parse(text) {
        assert!(statement.span.end as usize <= text.len());
        let _ = format!("{statement:?}");
    }
    if let Ok(tokens) = syntax::tokens(text) {
        assert!(tokens.iter().all(|token| text.get(token.span.range()).is_some()));
    }
    for (span, parsed) in syntax::statements(text) {
        assert!(text.get(span.range()).is_some());
        if let Err(error) = parsed {
            assert!(text.get(error.span.range()).is_some(), "{error:?}");
        }
    }
}

/// Templates are no longer than they may be, and are their own templates where they are CQL.
pub(crate) fn template(text: &str) {
    assert!(Template::unparsed(text).text.len() <= Template::MAX_UNPARSED_LEN);
    let Ok(statement) = syntax::parse(text) else {
        return;
    };
    let found = Template::of(&statement, Some("ks"));
    assert!(found.text.len() <= Template::MAX_LEN);
    if !is_definition(&statement.body) && !found.text.contains('…') {
        let again = syntax::parse(&found.text).unwrap_or_else(|error| panic!("{}: {error}", found.text));
        assert_eq!(Template::of(&again, None), found);
    }
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let schema = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE ks.t (k int, c timestamp, v text, w decimal, PRIMARY KEY (k, c));
        CREATE TABLE ks.kv (k text PRIMARY KEY, v int);";
    Schema::from_cql(schema).unwrap_or_else(|errors| panic!("{errors:?}"))
});

/// The plan of all texts of a shape concludes of this one what its own plan does.
pub(crate) fn shape(text: &str) {
    let (Ok(tokens), Ok(statement)) = (syntax::tokens(text), syntax::parse(text)) else {
        return;
    };
    let (keyspace, work) = (Some("ks"), Work::of_text(text));
    let constants = TextShape::of(text, &tokens, keyspace).constants;
    let Some((plan, types)) = Plan::of_constants(&statement, keyspace, &SCHEMA, &work, &constants) else {
        return;
    };
    let values = types.values(&constants);
    let values = values.unwrap_or_else(|| panic!("its own constants are of these types: {text}"));
    let conclude = |plan: &Plan, values: &Values<'_>| {
        let mut keys = Keys::new();
        let executed = plan.execute(Some(values), &mut keys);
        let keys: Vec<_> = keys.iter().map(|key| key.bytes.to_vec()).collect();
        (executed, keys, plan.limits(Some(values)))
    };
    let own = Plan::of(&statement, keyspace, &SCHEMA);
    let (shared, concluded) = (conclude(&plan, &values.values()), conclude(&own, &Values::NONE));
    assert_eq!(shared, concluded, "{text}");
}

/// What lexer, parser and template may take for each byte of a text.
const STEPS_PER_BYTE: u64 = 10;

/// What they may take for a text of no bytes.
const STEPS: u64 = 100;

/// Parsing a text and writing its template take a number of steps that grows no faster than the text.
pub(crate) fn work(text: &str) {
    let work = Work::of_text(text);
    let parsed = syntax::parse_within(text, &work);
    if let Ok(statement) = &parsed {
        let _ = Template::of_within(statement, Some("ks"), &work);
    }
    let _ = Template::unparsed_within(text, &work);
    let most = STEPS + STEPS_PER_BYTE * text.len() as u64;
    let beginning: String = text.chars().take(20).collect();
    assert!(
        work.spent() <= most,
        "{beginning}: {} steps for {} bytes",
        work.spent(),
        text.len()
    );
}

/// Whose templates need not be CQL.
fn is_definition(body: &Body<'_>) -> bool {
    !matches!(
        body,
        Body::Select(_)
            | Body::Insert(_)
            | Body::Update(_)
            | Body::Delete(_)
            | Body::Batch(_)
            | Body::Transaction(_)
            | Body::Truncate(_)
            | Body::Use(_)
    )
}

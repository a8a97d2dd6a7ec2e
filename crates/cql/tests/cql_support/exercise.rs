//! Asks a text for everything that it can be asked for. Nothing in here may panic, whatever the text.
#![allow(dead_code, clippy::panic, missing_docs)]

use cqlens_cql::syntax::ast::Body;
use cqlens_cql::syntax::{self, Template, Work};

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
            | Body::Truncate(_)
            | Body::Use(_)
    )
}

//! Frequent reasons for which a text is no CQL, and what to write instead.

use cqlens_cql::syntax::{ParseError, ParseErrorKind, Span};

use super::placeholder;

/// What to write instead, if the reason is a frequent one; `statement` is the part of `text` that did not parse.
pub(super) fn hint(error: &ParseError, text: &str, statement: Span) -> Option<String> {
    let start = error.span.range().start;
    if let Some(placeholder) = placeholder::at(text, start) {
        return Some(format!(
            "`{placeholder}` looks like a placeholder: fill it in before the text is read, or write `?` for a value"
        ));
    }
    if error.kind == ParseErrorKind::UnterminatedString {
        return Some("a `'` within a string is written twice: `'it''s'`".to_owned());
    }
    let before = text.get(statement.range().start..start)?.trim_end();
    let word = text.get(error.span.range())?;
    if word.eq_ignore_ascii_case("SCHEMA") && is_last_word(before, &["CREATE", "ALTER", "DROP"]) {
        return Some(format!(
            "CQL calls it a keyspace: {} KEYSPACE",
            before.to_ascii_uppercase()
        ));
    }
    let quoted = match word.starts_with('"') {
        true => Some((before, word)),
        false => quoted_before(before),
    };
    quoted
        .filter(|(before, _)| before.ends_with(['=', '(', ',', ':', '{', '[']))
        .map(|(_, quoted)| format!("strings take single quotes: '{}'", quoted.trim_matches('"')))
}

/// Where a fault begins: a string without an end where it was opened. If a quote is missing, the next one closes the string, and
/// the last one of all has no end: the first string that runs over its line is the one.
pub(super) fn begins_at(error: &ParseError, text: &str, statement: Span) -> Span {
    if error.kind != ParseErrorKind::UnterminatedString {
        return error.span;
    }
    let from = statement.range().start;
    let string = text
        .get(from..error.span.range().start)
        .and_then(|before| first_of_several_lines(before).map(|at| from + at));
    let start = string.and_then(|start| u32::try_from(start).ok());
    start.map_or(error.span, |start| Span::new(start, start + 1))
}

/// Where the first string begins that has a line end in it.
fn first_of_several_lines(text: &str) -> Option<usize> {
    let mut quotes = text.match_indices('\'').map(|(at, _)| at);
    while let Some(open) = quotes.next() {
        let close = quotes.next().unwrap_or(text.len());
        if text[open..close].contains('\n') {
            return Some(open);
        }
    }
    None
}

fn is_last_word(text: &str, words: &[&str]) -> bool {
    let last = text.split_whitespace().last().unwrap_or_default();
    words.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// The quoted name that a text ends with, and what is before it.
fn quoted_before(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_suffix('"')?;
    let open = inner.rfind('"')?;
    Some((text[..open].trim_end(), &text[open..]))
}

//! Statements without the values that stand in their texts.

use cqlens_cql::syntax::{Template, Token, TokenKind, ast::BindMarker, parse, tokens};

/// A text without the values in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bare<'t> {
    /// The text with a marker in the place of each value, and without comments.
    pub(crate) cql: String,
    /// Of each marker in order the value as it was written; none where it was a marker before.
    pub(crate) markers: Vec<Option<&'t str>>,
    /// Whether the text parses; of one that does not, what may be a value is gone without a marker of its own.
    pub(crate) is_parsed: bool,
}

impl<'t> Bare<'t> {
    /// Takes the values out of a text. Of one that does not parse, only keywords and signs stay: what is a
    /// value there is unknown.
    pub(crate) fn of(text: &'t str) -> Self {
        match (parse(text), tokens(text)) {
            (Ok(statement), Ok(tokens)) => Self::of_tokens(text, &tokens, &statement.bind_markers),
            _ => Self {
                cql: Template::unparsed(text).text,
                markers: Vec::new(),
                is_parsed: false,
            },
        }
    }

    fn of_tokens(text: &'t str, tokens: &[Token], bound: &[BindMarker<'_>]) -> Self {
        let mut bare = Self {
            cql: String::with_capacity(text.len()),
            markers: Vec::new(),
            is_parsed: true,
        };
        let mut bound = bound.iter().map(|marker| marker.span.start).peekable();
        let mut end = 0;
        for token in tokens.iter().filter(|token| token.kind != TokenKind::End) {
            if bound.next_if_eq(&token.span.start).is_some() {
                bare.markers.push(None);
            }
            // Between tokens are blanks and comments.
            if token.span.start > end {
                bare.cql.push(' ');
            }
            let written = token.span.of(text);
            if is_value(token.kind) {
                bare.cql.push('?');
                bare.markers.push(Some(written));
            } else {
                bare.cql.push_str(written);
            }
            end = token.span.end;
        }
        bare
    }
}

fn is_value(kind: TokenKind) -> bool {
    use TokenKind as Kind;
    matches!(
        kind,
        Kind::String | Kind::Integer | Kind::Float | Kind::Boolean | Kind::Duration | Kind::Uuid | Kind::Hex
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_out_of_a_text_and_markers_stay_where_they_are() {
        let text = "INSERT INTO t (a, b, c) VALUES ('x''y', ?, :third) /* why */ USING TTL 60";
        let bare = Bare::of(text);
        assert_eq!(
            bare.cql,
            "INSERT INTO t (a, b, c) VALUES (?, ?, :third) USING TTL ?"
        );
        assert_eq!(bare.markers, [Some("'x''y'"), None, None, Some("60")]);
        let quoted = "SELECT \"V\" FROM t WHERE k={a: 1}";
        assert_eq!(Bare::of(quoted).cql, "SELECT \"V\" FROM t WHERE k={a: ?}");
    }

    #[test]
    fn of_a_text_that_does_not_parse_no_word_stays() {
        let bare = Bare::of("SELECT secret FROM t WHERE k = 'an open quote");
        assert!(
            !bare.cql.contains("quote") && !bare.cql.contains("secret"),
            "{}",
            bare.cql
        );
    }
}

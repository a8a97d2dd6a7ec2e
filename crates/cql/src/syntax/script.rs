//! Scripts: files of statements separated by semicolons, such as `schema.cql`.

use super::ast::Statement;
use super::cqlsh;
use super::lexer::Lexer;
use super::parse::parse_counted;
use super::{Keyword, ParseError, ParseErrorKind, Span, Token, TokenKind, Work};

/// The statements of a CQL script in order, each with the place that it takes, without its semicolon.
///
/// A semicolon ends a statement, except within `BEGIN BATCH … APPLY BATCH` and `BEGIN TRANSACTION … COMMIT TRANSACTION`. Nothing between two semicolons is
/// no statement. A statement that does not parse is reported and the next one read as usual; only what opens
/// a string, a quoted name or a `/*` comment and does not close it takes the rest of the script with it.
/// Other than in a single statement, the last line may be a comment without a line end.
///
/// Commands of `cqlsh` are left out; [`script`] has them.
pub fn statements(text: &str) -> impl Iterator<Item = (Span, Result<Statement<'_>, ParseError>)> {
    script(text).filter_map(|(span, part)| match part {
        ScriptPart::Statement(statement) => Some((span, statement)),
        ScriptPart::Command(_) => None,
    })
}

/// What a script consists of.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the largest is the most frequent; a box would cost it an allocation"
)]
pub enum ScriptPart<'text> {
    /// A statement, or why it is none.
    Statement(Result<Statement<'text>, ParseError>),
    /// A command that `cqlsh` carries out itself: its first word, in upper case.
    Command(&'static str),
}

/// As [`statements`], with the commands of `cqlsh`: each takes the rest of its line, or what comes before a semicolon.
pub fn script(text: &str) -> impl Iterator<Item = (Span, ScriptPart<'_>)> {
    let (lexer, refused) = match Lexer::new(text) {
        Ok(lexer) => (Some(lexer), None),
        Err(error) => (None, Some((error.span, ScriptPart::Statement(Err(error))))),
    };
    refused
        .into_iter()
        .chain(lexer.into_iter().flat_map(move |lexer| Script {
            text,
            lexer,
            at_end: false,
        }))
}

struct Script<'text> {
    text: &'text str,
    lexer: Lexer<'text>,
    at_end: bool,
}

impl<'text> Iterator for Script<'text> {
    type Item = (Span, ScriptPart<'text>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.at_end {
            if let Some((span, word)) = self.skip_command() {
                return Some((span, ScriptPart::Command(word)));
            }
            let mut tokens = Vec::new();
            let error = self.read_until_semicolon(&mut tokens);
            // The last token is the end, at the semicolon or at the end of the script.
            let Some((_, [first, ..])) = tokens.split_last() else {
                if let Some(error) = error {
                    return Some((error.span, ScriptPart::Statement(Err(error))));
                }
                continue;
            };
            let last = tokens[tokens.len() - 2].span;
            let span = first.span.to(last);
            let (span, statement) = match error {
                None => (span, parse_counted(self.text, &tokens, &Work::of_text(self.text))),
                Some(error) => (span.to(error.span), Err(error)),
            };
            return Some((span, ScriptPart::Statement(statement)));
        }
        None
    }
}

impl Script<'_> {
    /// Passes over a command of `cqlsh`, if one is next.
    fn skip_command(&mut self) -> Option<(Span, &'static str)> {
        let mut ahead = self.lexer.clone();
        let first = ahead.next_token().ok()?;
        let (word, length) = cqlsh::command(self.text.get(first.span.range().start..)?)?;
        let end = first.span.start.saturating_add(length);
        self.lexer.go_to(end);
        Some((Span::new(first.span.start, end), word))
    }

    /// Reads the tokens of one statement and an end; returns the first error among them.
    fn read_until_semicolon(&mut self, tokens: &mut Vec<Token>) -> Option<ParseError> {
        let mut first_error = None;
        loop {
            match self.lexer.next_token() {
                Ok(token) if token.kind == TokenKind::End => {
                    self.at_end = true;
                    tokens.push(token);
                    return first_error;
                }
                Ok(token) if token.kind == TokenKind::Semicolon && !in_batch(self.text, tokens) => {
                    let end = Span::new(token.span.start, token.span.start);
                    tokens.push(Token::new(TokenKind::End, end));
                    return first_error;
                }
                Ok(token) => tokens.push(token),
                Err(error) if self.is_last_line_comment(&error) => {}
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
    }

    fn is_last_line_comment(&self, error: &ParseError) -> bool {
        error.kind == ParseErrorKind::UnterminatedComment && !error.span.of(self.text).starts_with("/*")
    }
}

/// Whether a batch or a transaction has begun and not ended.
fn in_batch(text: &str, tokens: &[Token]) -> bool {
    let is = |token: &Token, keyword| token.kind == TokenKind::Keyword(keyword);
    let is_word = |token: &Token, word: &str| {
        token.kind == TokenKind::Identifier && token.span.of(text).eq_ignore_ascii_case(word)
    };
    match tokens {
        [first, second, .., before, last] if is(first, Keyword::Begin) && is_word(second, "TRANSACTION") => {
            !(is_word(before, "COMMIT") && is_word(last, "TRANSACTION"))
        }
        [first, .., before, last] if is(before, Keyword::Apply) && is(last, Keyword::Batch) => {
            !is(first, Keyword::Begin)
        }
        [first, ..] => is(first, Keyword::Begin),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::syntax::ast::Kind;

    fn kinds(text: &str) -> Vec<Result<Kind, ParseErrorKind>> {
        statements(text)
            .map(|(_, parsed)| {
                parsed
                    .map(|statement| statement.kind())
                    .map_err(|error| error.kind)
            })
            .collect()
    }

    #[test]
    fn semicolons_separate_statements_and_may_be_left_out_at_the_end() {
        assert_eq!(kinds("USE a; TRUNCATE t"), [Ok(Kind::Use), Ok(Kind::Truncate)]);
        assert_eq!(kinds("USE a; TRUNCATE t;"), [Ok(Kind::Use), Ok(Kind::Truncate)]);
    }

    #[test]
    fn nothing_between_semicolons_is_no_statement() {
        assert_eq!(kinds(";; -- nothing\n ; USE a;; /* x */"), [Ok(Kind::Use)]);
        assert_eq!(kinds(""), []);
    }

    #[test]
    fn semicolons_in_strings_comments_and_batches_do_not_separate() {
        let text = "INSERT INTO t (a) VALUES (';'); -- ;\nBEGIN BATCH DELETE FROM t WHERE k = 1; DELETE FROM t WHERE k = 2; \
                    APPLY BATCH; CREATE FUNCTION f() CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$ return 1; $$;";
        assert_eq!(
            kinds(text),
            [Ok(Kind::Insert), Ok(Kind::Batch), Ok(Kind::CreateFunction)]
        );
    }

    #[test]
    fn an_error_does_not_hide_the_statements_after_it() {
        let expected = [
            Err(ParseErrorKind::UnexpectedToken),
            Err(ParseErrorKind::UnknownCharacter),
            Ok(Kind::Use),
        ];
        assert_eq!(kinds("SELECT FROM t; SELECT # FROM t; USE a"), expected);
    }

    #[test]
    fn an_open_string_takes_the_rest() {
        assert_eq!(
            kinds("USE a; SELECT 'x; USE b;"),
            [Ok(Kind::Use), Err(ParseErrorKind::UnterminatedString)]
        );
    }

    #[test]
    fn the_last_line_may_be_a_comment() {
        assert_eq!(kinds("USE a; -- done"), [Ok(Kind::Use)]);
        assert_eq!(kinds("USE a -- done"), [Ok(Kind::Use)]);
        assert_eq!(
            kinds("USE a; /* done"),
            [Ok(Kind::Use), Err(ParseErrorKind::UnterminatedComment)]
        );
    }

    #[test]
    fn commands_of_cqlsh_end_with_their_line() {
        let text = "CONSISTENCY LOCAL_QUORUM\nUSE a;\ncopy t (a) FROM 'x;y.csv' WITH HEADER = true;\r\nTRUNCATE t;\n\
                    SOURCE 'more.cql'\r\nDESCRIBE TABLES\n-- done\nUSE b;\nTRACING ON";
        let found: Vec<String> = script(text)
            .map(|(span, part)| match part {
                ScriptPart::Command(word) => format!("{word}: {}", span.of(text)),
                ScriptPart::Statement(statement) => statement.unwrap().kind().as_str().to_owned(),
            })
            .collect();
        let expected = [
            "CONSISTENCY: CONSISTENCY LOCAL_QUORUM",
            "use",
            "COPY: copy t (a) FROM 'x;y.csv' WITH HEADER = true",
            "truncate",
            "SOURCE: SOURCE 'more.cql'",
            "DESCRIBE: DESCRIBE TABLES",
            "use",
            "TRACING: TRACING ON",
        ];
        assert_eq!(found, expected);
        assert_eq!(
            kinds(text),
            [Ok(Kind::Use), Ok(Kind::Truncate), Ok(Kind::Use)],
            "statements alone"
        );
    }

    #[test]
    fn words_of_cqlsh_elsewhere_are_no_commands() {
        let text = "SELECT paging FROM show WHERE source = 1; USE tracing; sources; COPYING";
        let expected = [
            Ok(Kind::Select),
            Ok(Kind::Use),
            Err(ParseErrorKind::UnexpectedToken),
            Err(ParseErrorKind::UnexpectedToken),
        ];
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn spans_cover_the_statement_without_its_semicolon() {
        let text = " USE a ; TRUNCATE t";
        let covered: Vec<&str> = statements(text).map(|(span, _)| span.of(text)).collect();
        assert_eq!(covered, ["USE a", "TRUNCATE t"]);
    }

    #[test]
    fn an_error_at_the_end_of_a_statement_points_there() {
        let text = "SELECT a FROM; USE a";
        let errors: Vec<Span> = statements(text)
            .filter_map(|(_, parsed)| parsed.err().map(|error| error.span))
            .collect();
        assert_eq!(errors, [Span::new(13, 13)]);
    }
}

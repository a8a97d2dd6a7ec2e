//! Templates made of tokens: of texts that do not parse, and of statements that have no tree.

use crate::syntax::ast::{Other, Statement};
use crate::syntax::lexer::Lexer;
use crate::syntax::parse::unquoted;
use crate::syntax::{Keyword, MAX_NAME_LEN, MAX_TOKENS, TokenKind, Work, cut_name};

use super::writer::{VALUE, Writer};

/// The template of a text of which nothing is known but its tokens.
///
/// Keywords and signs stay, and the first table that a keyword announces, unless a string, a quoted name or what a value
/// follows comes before it: after a missing quote, what looks like a table may be the inside of a value. What is
/// longer than `limit` bytes, or made of more than [`MAX_TOKENS`], breaks off behind that: a client that sends such
/// texts is not told apart by their ends.
pub(super) fn normalised(text: &str, limit: usize, work: &Work) -> String {
    let mut words = Words::default();
    let Ok(mut lexer) = Lexer::new(text) else {
        return words.text;
    };
    let mut place = TokenContext::BeforeTable;
    for _ in 0..MAX_TOKENS {
        if words.text.len() > limit {
            break;
        }
        let Ok(token) = lexer.next_token() else {
            place = TokenContext::Elsewhere;
            words.push(VALUE);
            continue;
        };
        place = match (token.kind, place) {
            (TokenKind::End, _) => break,
            (TokenKind::Keyword(keyword), TokenContext::BeforeTable | TokenContext::AtTable)
                if announces_table(keyword) =>
            {
                words.push(keyword.as_str());
                TokenContext::AtTable
            }
            (kind, TokenContext::AtTable) if is_word(kind) => {
                words.push(&cut_name(&token.span.of(text).to_ascii_lowercase()));
                TokenContext::AfterName
            }
            (TokenKind::Dot, TokenContext::AfterName) => {
                words.push(".");
                TokenContext::AtTable
            }
            (kind, place) => {
                words.push(kind.symbol().unwrap_or(VALUE));
                match place == TokenContext::BeforeTable && !may_be_in_value(kind) {
                    true => place,
                    false => TokenContext::Elsewhere,
                }
            }
        };
    }
    work.spend(lexer.steps() + words.text.len() as u64);
    words.text
}

/// Where in a text without structure the next token stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenContext {
    /// Before any table.
    BeforeTable,
    /// Where a table or its keyspace is named.
    AtTable,
    /// After such a name.
    AfterName,
    /// Where names may be values.
    Elsewhere,
}

/// Whether a token may be a name without quotes.
const fn is_word(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Identifier => true,
        TokenKind::Keyword(keyword) => !keyword.is_reserved(),
        _ => false,
    }
}

const fn announces_table(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::From | Keyword::Into | Keyword::Update | Keyword::Table | Keyword::Truncate | Keyword::Use
    )
}

/// Whether what comes behind the token may be the inside of a value, where a quote is missing.
const fn may_be_in_value(kind: TokenKind) -> bool {
    match kind {
        TokenKind::String
        | TokenKind::QuotedName
        | TokenKind::Equal
        | TokenKind::NotEqual
        | TokenKind::Less
        | TokenKind::LessOrEqual
        | TokenKind::Greater
        | TokenKind::GreaterOrEqual => true,
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            Keyword::Set | Keyword::Values | Keyword::Where | Keyword::With | Keyword::In | Keyword::Json
        ),
        _ => false,
    }
}

/// The template of a statement that parses but has no tree: keywords and names stay, values go.
pub(super) fn of_other(statement: &Statement<'_>, other: &Other<'_>, keyspace: Option<&str>) -> String {
    let text = statement.span.of(statement.text);
    let mut words = Words::default();
    let Ok(mut lexer) = Lexer::new(text) else {
        return words.text;
    };
    let unqualified = unqualified_object(other).map(|start| start - statement.span.start);
    while let Ok(token) = lexer.next_token() {
        if unqualified == Some(token.span.start) {
            keyspace
                .iter()
                .for_each(|keyspace| words.push(&(Writer::quoted(keyspace) + ".")));
        }
        match token.kind {
            TokenKind::End => break,
            TokenKind::Identifier if token.span.len() > MAX_NAME_LEN => {
                words.push(&Writer::quoted(&token.span.of(text).to_ascii_lowercase()));
            }
            TokenKind::Identifier => words.push(&token.span.of(text).to_ascii_lowercase()),
            TokenKind::QuotedName if token.span.len() > MAX_NAME_LEN => {
                words.push(&Writer::quoted(&unquoted(token.span.of(text))));
            }
            TokenKind::QuotedName => words.push(token.span.of(text)),
            kind => words.push(kind.symbol().unwrap_or(VALUE)),
        }
    }
    words.text
}

/// Where the name of an object begins that belongs to a keyspace and does not say to which.
fn unqualified_object(other: &Other<'_>) -> Option<u32> {
    let object = other
        .object
        .as_ref()
        .filter(|object| other.kind.is_of_keyspace_object() && object.keyspace.is_none())?;
    Some(object.name.span.start)
}

/// A text in the making, with blanks where CQL is usually written with blanks.
#[derive(Default)]
struct Words {
    text: String,
}

impl Words {
    /// Adds a word or sign; several values in a row, with or without commas, are one.
    fn push(&mut self, word: &str) {
        if word == VALUE {
            let before = self.text.strip_suffix(',').unwrap_or(&self.text);
            if before.ends_with(VALUE) {
                return self.text.truncate(before.len());
            }
        }
        let sticks_to_last =
            matches!(word, "," | ";" | ":" | "." | ")" | "]" | "}" | ">") || self.text.is_empty();
        if !sticks_to_last && !self.text.ends_with(['(', '[', '{', '.', '<']) {
            self.text.push(' ');
        }
        self.text.push_str(word);
    }
}

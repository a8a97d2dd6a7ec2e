//! Words, strings, quoted names and signs.

use memchr::memchr;
use memchr::memmem;

use super::constant::{UUID_HEAD, capital_p, uuid};
use super::cut::{Cut, LexError, cut};
use crate::syntax::{Keyword, ParseErrorKind, TokenKind};

// identifier ::= letter (letter | digit | '_')*
#[inline]
pub(super) fn word(input: &[u8]) -> Result<Cut, LexError> {
    let (length, has_capitals) = scan(input);
    match (input, length, input.get(length)) {
        (_, UUID_HEAD, Some(b'-')) if input.iter().take(UUID_HEAD).all(u8::is_ascii_hexdigit) => {
            return cut(input, uuid(input)).map_err(|_| LexError(ParseErrorKind::MalformedConstant));
        }
        ([b'P', ..], ..) => {
            if let Some(found) = capital_p(input, length) {
                return cut(input, found);
            }
        }
        ([b'e', b'x', b'p', b'r', ..], 4, Some(b'(')) => {
            return Ok(Cut::new(length + 1, TokenKind::ExprOpen));
        }
        _ => {}
    }
    Ok(Cut {
        length,
        kind: word_kind(input, length),
        has_capitals,
    })
}

/// The length of the word that `input` begins with, and whether it has letters in upper case.
#[inline]
fn scan(input: &[u8]) -> (usize, bool) {
    let mut length = 0;
    let mut seen = 0;
    for byte in input {
        let class = WORD_BYTES[usize::from(*byte)];
        if class == 0 {
            break;
        }
        seen |= class;
        length += 1;
    }
    (length, seen & CAPITAL != 0)
}

const PLAIN: u8 = 1;
const CAPITAL: u8 = 2;

/// What each byte is in a word: letters, digits and `_`. Most bytes of a statement are asked for it.
static WORD_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128u8 {
        if byte.is_ascii_uppercase() {
            table[byte as usize] = CAPITAL;
        } else if byte.is_ascii_alphanumeric() || byte == b'_' {
            table[byte as usize] = PLAIN;
        }
        byte += 1;
    }
    table
};

/// What kind of token the word is that the first `length` bytes of `input` make up.
#[inline]
fn word_kind(input: &[u8], length: usize) -> TokenKind {
    if let Some(keyword) = Keyword::at_start(input, length) {
        return TokenKind::Keyword(keyword);
    }
    let is = |text: &str| {
        input
            .get(..length)
            .is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()))
    };
    match (length, input) {
        (3, [b'n' | b'N', ..]) if is("nan") => TokenKind::Float,
        (4, [b't' | b'T', ..]) if is("true") => TokenKind::Boolean,
        (5, [b'f' | b'F', ..]) if is("false") => TokenKind::Boolean,
        (8, [b'i' | b'I', ..]) if is("infinity") => TokenKind::Float,
        _ => TokenKind::Identifier,
    }
}

// string      ::= "'" ([^'] | "''")* "'"
// quoted_name ::= '"' ([^"] | '""')* '"'
/// How many bytes stand between the mark that `input` begins with and its like, both included.
fn quoted(input: &[u8], mark: u8) -> Option<usize> {
    let mut end = 1;
    loop {
        end += memchr(mark, input.get(end..)?)? + 1;
        if input.get(end) != Some(&mark) {
            return Some(end);
        }
        end += 1;
    }
}

pub(super) fn string(input: &[u8]) -> Result<Cut, LexError> {
    let length = quoted(input, b'\'').ok_or(LexError(ParseErrorKind::UnterminatedString))?;
    Ok(Cut::new(length, TokenKind::String))
}

pub(super) fn quoted_name(input: &[u8]) -> Result<Cut, LexError> {
    let length = quoted(input, b'"').ok_or(LexError(ParseErrorKind::UnterminatedName))?;
    let kind = match length {
        2 => TokenKind::EmptyQuotedName,
        _ => TokenKind::QuotedName,
    };
    Ok(Cut::new(length, kind))
}

// dollar_string ::= '$$' .* '$$'
pub(super) fn dollar_string(input: &[u8]) -> Result<Cut, LexError> {
    let inside = input
        .strip_prefix(b"$$")
        .ok_or(LexError(ParseErrorKind::UnknownCharacter))?;
    let end = memmem::find(inside, b"$$").ok_or(LexError(ParseErrorKind::UnterminatedString))?;
    Ok(Cut::new(end + 4, TokenKind::String))
}

#[inline]
pub(super) fn sign(input: &[u8]) -> Result<Cut, LexError> {
    use TokenKind as Kind;
    let (length, kind) = match input {
        [b'!', b'=', ..] => (2, Kind::NotEqual),
        [b'<', b'=', ..] => (2, Kind::LessOrEqual),
        [b'>', b'=', ..] => (2, Kind::GreaterOrEqual),
        [b'+', b'=', ..] => (2, Kind::PlusEqual),
        [b'.', b'.', ..] => (2, Kind::Range),
        [b'?', ..] => (1, Kind::QuestionMark),
        [b',', ..] => (1, Kind::Comma),
        [b'.', ..] => (1, Kind::Dot),
        [b':', ..] => (1, Kind::Colon),
        [b';', ..] => (1, Kind::Semicolon),
        [b'(', ..] => (1, Kind::OpenParenthesis),
        [b')', ..] => (1, Kind::CloseParenthesis),
        [b'[', ..] => (1, Kind::OpenBracket),
        [b']', ..] => (1, Kind::CloseBracket),
        [b'{', ..] => (1, Kind::OpenBrace),
        [b'}', ..] => (1, Kind::CloseBrace),
        [b'=', ..] => (1, Kind::Equal),
        [b'<', ..] => (1, Kind::Less),
        [b'>', ..] => (1, Kind::Greater),
        [b'+', ..] => (1, Kind::Plus),
        [b'*', ..] => (1, Kind::Star),
        [b'/', ..] => (1, Kind::Slash),
        [b'%', ..] => (1, Kind::Percent),
        _ => return Err(LexError(ParseErrorKind::UnknownCharacter)),
    };
    Ok(Cut::new(length, kind))
}

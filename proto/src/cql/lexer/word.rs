//! Words, strings, quoted names and signs.

use nom::Parser;
use nom::bytes::complete::{tag, take_until, take_while1};
use nom::sequence::terminated;

use super::constant::{UUID_HEAD, capital_p, uuid};
use super::{Fault, Lexed, broken};
use crate::cql::{Keyword, ParseErrorKind, TokenKind};

// identifier ::= letter (letter | digit | '_')*
#[inline]
pub(super) fn word(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (rest, word) = take_while1(is_word_byte)(input)?;
    if word.len() == UUID_HEAD && rest.first() == Some(&b'-') && word.iter().all(u8::is_ascii_hexdigit) {
        return uuid(input).or(broken(ParseErrorKind::MalformedConstant));
    }
    if word[0] == b'P'
        && let Some(found) = capital_p(input, word)
    {
        return found;
    }
    if word == b"expr" && rest.first() == Some(&b'(') {
        return Ok((&rest[1..], TokenKind::ExprOpen));
    }
    Ok((rest, word_kind(word)))
}

fn is_word_byte(byte: u8) -> bool {
    WORD_BYTES[usize::from(byte)]
}

/// Letters, digits and `_`: most bytes of a statement are asked for it.
static WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    table
};

fn word_kind(word: &[u8]) -> TokenKind {
    if let Some(keyword) = Keyword::of_bytes(word) {
        return TokenKind::Keyword(keyword);
    }
    let is = |text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    match word.len() {
        3 if is("nan") => TokenKind::Float,
        4 if is("true") => TokenKind::Boolean,
        5 if is("false") => TokenKind::Boolean,
        8 if is("infinity") => TokenKind::Float,
        _ => TokenKind::Identifier,
    }
}

// string      ::= "'" ([^'] | "''")* "'"
// quoted_name ::= '"' ([^"] | '""')* '"'
fn quoted<'text>(input: &'text [u8], mark: &str, unterminated: ParseErrorKind) -> Lexed<'text, ()> {
    let mut piece = terminated(take_until(mark), tag(mark));
    let (mut rest, _) = tag(mark)(input)?;
    loop {
        let parsed: Lexed<'text, _> = piece.parse(rest);
        let Ok((after, _)) = parsed else {
            return broken(unterminated);
        };
        match tag::<_, _, Fault>(mark)(after) {
            Ok((inside, _)) => rest = inside,
            Err(_) => return Ok((after, ())),
        }
    }
}

pub(super) fn string(input: &[u8]) -> Lexed<'_, TokenKind> {
    quoted(input, "'", ParseErrorKind::UnterminatedString).map(|(rest, ())| (rest, TokenKind::String))
}

pub(super) fn quoted_name(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (rest, ()) = quoted(input, "\"", ParseErrorKind::UnterminatedName)?;
    let is_empty = input.len() - rest.len() == 2;
    Ok((
        rest,
        if is_empty {
            TokenKind::EmptyQuotedName
        } else {
            TokenKind::QuotedName
        },
    ))
}

// dollar_string ::= '$$' .* '$$'
pub(super) fn dollar_string(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (opened, _) = tag("$$")(input)?;
    let parsed: Lexed<'_, _> = terminated(take_until("$$"), tag("$$")).parse(opened);
    match parsed {
        Ok((rest, _)) => Ok((rest, TokenKind::String)),
        Err(_) => broken(ParseErrorKind::UnterminatedString),
    }
}

#[inline]
pub(super) fn sign(input: &[u8]) -> Lexed<'_, TokenKind> {
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
        _ => return broken(ParseErrorKind::UnknownCharacter),
    };
    Ok((&input[length..], kind))
}

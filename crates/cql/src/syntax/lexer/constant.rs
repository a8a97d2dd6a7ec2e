//! Constants without quotes: numbers, blobs, UUIDs and durations.
//!
//! They look alike at first, and where ANTLR has made up its mind it does not go back; see the module above.

use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::{tag, tag_no_case, take, take_while, take_while_m_n};
use nom::character::complete::{digit0, digit1, one_of};
use nom::combinator::{opt, recognize};
use nom::sequence::{pair, preceded};

use super::cut::{LexError, Lexed, broken};
use crate::syntax::{ParseErrorKind, TokenKind};

/// The length of the integer that `input` begins with, if what follows it cannot go on with any constant.
#[inline]
pub(super) fn plain_integer(input: &[u8]) -> Option<usize> {
    let length = input
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(input.len());
    match input.get(length) {
        // Letters go on with UUIDs, durations and floats, and so does the first byte of the micro sign.
        Some(b'.' | b'-' | b'a'..=b'z' | b'A'..=b'Z' | 0x80..) => None,
        _ => Some(length),
    }
}

/// What begins with a digit. Up to eight hex digits may be the head of a UUID, and are, as soon as nothing
/// else fits.
//
// hex  ::= '0' [xX] hex_digit*
// uuid ::= hex_digit{8} '-' hex_digit{4} '-' hex_digit{4} '-' hex_digit{4} '-' hex_digit{12}
pub(super) fn constant(input: &[u8]) -> Lexed<'_, TokenKind> {
    if let [b'0', b'x' | b'X', digits @ ..] = input {
        return take_while(|byte: u8| byte.is_ascii_hexdigit())(digits)
            .map(|(rest, _)| (rest, TokenKind::Hex));
    }
    let head = input
        .iter()
        .take(UUID_HEAD)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let may_be_uuid = head == UUID_HEAD && input.get(UUID_HEAD) == Some(&b'-');
    if may_be_uuid && let Ok(found) = uuid(input) {
        return Ok(found);
    }
    let (rest, kind) = number(input)?;
    let length = input.len() - rest.len();
    if length < head || may_be_uuid && length == UUID_HEAD {
        return broken(ParseErrorKind::MalformedConstant);
    }
    Ok((rest, kind))
}

/// How many bytes a constant that breaks off reaches: its sign, and all digits, letters and points, with
/// which the next word or number would be read again from its middle otherwise. Bytes beyond ASCII belong to
/// a broken micro sign at most, and go too.
pub(super) fn constant_run(input: &[u8]) -> usize {
    let signs = input.iter().take_while(|byte| **byte == b'-').take(1).count();
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..);
    signs + input.iter().skip(signs).take_while(|byte| goes_on(byte)).count()
}

/// The hex digits before the first hyphen of a UUID.
pub(super) const UUID_HEAD: usize = 8;

pub(super) fn uuid(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (rest, text) = take(36usize)(input)?;
    let is_right = |(index, byte): (usize, &u8)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if text.iter().enumerate().all(is_right) {
        Ok((rest, TokenKind::Uuid))
    } else {
        broken(ParseErrorKind::MalformedConstant)
    }
}

// integer  ::= '-'? digit+ float    ::= integer ('.' digit*)? exponent?        but '1..2' is a range of
// integers, '1...2' begins with '1.' exponent ::= [eE] [+-]? digit+ duration ::= '-'? (digit+ unit)+
fn number(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (rest, _) = (opt(tag("-")), digit1).parse(input)?;
    match rest {
        [b'.', b'.', b'.', ..] => Ok((&rest[1..], TokenKind::Float)),
        [b'.', b'.', ..] => Ok((rest, TokenKind::Integer)),
        [b'.', fraction @ ..] => {
            let (rest, _) = digit0(fraction)?;
            float(input, rest)
        }
        [b'e' | b'E', ..] => float(input, rest),
        _ => units(rest),
    }
}

/// A float of which all is read but perhaps an exponent. Cassandra refuses numbers beyond the range of
/// `double` while it parses, whatever the column's type.
fn float<'text>(input: &'text [u8], mut rest: &'text [u8]) -> Lexed<'text, TokenKind> {
    if let [b'e' | b'E', ..] = rest {
        let exponent: Lexed<'_, _> = (one_of("eE"), opt(one_of("+-")), digit1).parse(rest);
        let Ok((after, (_, _, digits))) = exponent else {
            return broken(ParseErrorKind::MalformedConstant);
        };
        if digits.len() > MAX_EXPONENT_DIGITS {
            return broken(ParseErrorKind::ValueNotAllowed);
        }
        rest = after;
    }
    let text = std::str::from_utf8(&input[..input.len() - rest.len()]).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((rest, TokenKind::Float)),
        _ => broken(ParseErrorKind::ValueNotAllowed),
    }
}

/// More digits do not fit Java's `int`.
const MAX_EXPONENT_DIGITS: usize = 10;

/// After the first digits of a number: `h30m` makes a duration of it, nothing of the kind leaves an integer.
fn units(input: &[u8]) -> Lexed<'_, TokenKind> {
    let (mut rest, found) = opt(unit).parse(input)?;
    if found.is_none() {
        return Ok((rest, TokenKind::Integer));
    }
    while rest.first().is_some_and(u8::is_ascii_digit) {
        match preceded(digit1, unit).parse(rest) {
            Ok((after, ())) => rest = after,
            Err(_) => return broken(ParseErrorKind::MalformedConstant),
        }
    }
    Ok((rest, TokenKind::Duration))
}

// unit ::= 'y' | 'mo' | 'w' | 'd' | 'h' | 'm' | 's' | 'ms' | 'us' | 'µs' | 'ns', in any case
fn unit(input: &[u8]) -> Lexed<'_, ()> {
    let length = match input {
        [b'm' | b'M', b'o' | b'O' | b's' | b'S', ..] | [b'u' | b'U' | b'n' | b'N', b's' | b'S', ..] => 2,
        [
            b'y' | b'Y' | b'w' | b'W' | b'd' | b'D' | b'h' | b'H' | b'm' | b'M' | b's' | b'S',
            ..,
        ] => 1,
        // U+00B5, the micro sign
        [0xC2, 0xB5, b's' | b'S', ..] => 3,
        [b'u' | b'U' | b'n' | b'N', ..] | [0xC2, 0xB5, ..] => {
            return broken(ParseErrorKind::MalformedConstant);
        }
        _ => return Err(nom::Err::Error(LexError(ParseErrorKind::MalformedConstant))),
    };
    Ok((&input[length..], ()))
}

// iso_duration ::= 'P' (time | digit+ 'W' | period time?)
// period       ::= digit+ 'Y' (digit+ 'M')? (digit+ 'D')? | digit+ 'M' (digit+ 'D')? | digit+ 'D'
// time         ::= 'T' (digit+ 'H' (digit+ 'M')? (digit+ 'S')? | digit+ 'M' (digit+ 'S')? | digit+ 'S')
fn iso_duration(input: &[u8]) -> Lexed<'_, ()> {
    let part = |letter: &'static str| recognize(pair(digit1, tag(letter)));
    let period = || {
        alt((
            recognize((part("Y"), opt(part("M")), opt(part("D")))),
            recognize((part("M"), opt(part("D")))),
            part("D"),
        ))
    };
    let clock = alt((
        recognize((part("H"), opt(part("M")), opt(part("S")))),
        recognize((part("M"), opt(part("S")))),
        part("S"),
    ));
    let mut time = recognize(pair(tag("T"), clock));
    let (rest, _) = tag("P")(input)?;
    if rest.first() == Some(&b'T') {
        return time.parse(rest).map(|(rest, _)| (rest, ()));
    }
    let (rest, _) = alt((recognize(pair(period(), opt(time))), part("W"))).parse(rest)?;
    Ok((rest, ()))
}

// alternative_duration ::= 'P' digit{4} '-' digit{2} '-' digit{2} 'T' digit{2} ':' digit{2} ':' digit{2}
fn alternative_duration(input: &[u8]) -> Lexed<'_, ()> {
    let digits = |length| take_while_m_n(length, length, |byte: u8| byte.is_ascii_digit());
    let date = (tag("P"), digits(4), tag("-"), digits(2), tag("-"), digits(2));
    let time = (tag("T"), digits(2), tag(":"), digits(2), tag(":"), digits(2));
    pair(date, time).parse(input).map(|(rest, _)| (rest, ()))
}

/// `-` is a sign of its own unless a digit or the letters of another constant follow: `-n…` must become
/// `-NaN`.
pub(super) fn minus(input: &[u8]) -> Lexed<'_, TokenKind> {
    let named = |name: &'static str| -> Lexed<'_, TokenKind> {
        match tag_no_case::<_, _, LexError>(name)(input) {
            Ok((rest, _)) => Ok((rest, TokenKind::Float)),
            Err(_) => broken(ParseErrorKind::MalformedConstant),
        }
    };
    match input.get(1) {
        Some(b'=') => Ok((&input[2..], TokenKind::MinusEqual)),
        Some(b'0'..=b'9') => number(input),
        Some(b'n' | b'N') => named("-NaN"),
        Some(b'i' | b'I') => named("-Infinity"),
        Some(b'P') => negative_duration(input),
        _ => Ok((&input[1..], TokenKind::Minus)),
    }
}

/// After `-P` there is no way back: a part that has begun must end, also where the duration could end before
/// it.
fn negative_duration(input: &[u8]) -> Lexed<'_, TokenKind> {
    let Ok((rest, ())) = alt((alternative_duration, iso_duration)).parse(&input[1..]) else {
        return broken(ParseErrorKind::MalformedConstant);
    };
    let read = &input[..input.len() - rest.len()];
    let is_complete = matches!(read, [.., b'D' | b'S' | b'W' | b'0'..=b'9']);
    match rest.first() {
        Some(b'0'..=b'9') if !is_complete => broken(ParseErrorKind::MalformedConstant),
        Some(b'T') if !read.contains(&b'T') && !read.ends_with(b"W") => {
            broken(ParseErrorKind::MalformedConstant)
        }
        _ => Ok((rest, TokenKind::Duration)),
    }
}

/// A word of `length` bytes that begins with `P` is a duration if all of it is one: `P1Y2` is a name. The
/// alternative form is settled by `P0001-`.
pub(super) fn capital_p(input: &[u8], length: usize) -> Option<Lexed<'_, TokenKind>> {
    let is_alternative =
        length == 5 && input.get(5) == Some(&b'-') && input.iter().take(5).skip(1).all(u8::is_ascii_digit);
    if is_alternative {
        return Some(match alternative_duration(input) {
            Ok((rest, _)) => Ok((rest, TokenKind::Duration)),
            Err(_) => broken(ParseErrorKind::MalformedConstant),
        });
    }
    let (rest, ()) = iso_duration(input).ok()?;
    (input.len() - rest.len() == length).then_some(Ok((rest, TokenKind::Duration)))
}

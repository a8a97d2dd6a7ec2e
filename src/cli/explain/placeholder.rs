//! Placeholders that programs fill in before a server reads the text: those that stand for a value are read as markers, others
//! are named.

use std::borrow::Cow;
use std::ops::Range;

/// The text with a bind marker in place of each placeholder that stands for a value: `%s` and `%(name)s` of the Python
/// driver, `?0` and `$1` of frameworks that number parameters. All bytes keep their places. Quoted texts and comments stay
/// as they are.
pub(super) fn as_markers(text: &str) -> Cow<'_, str> {
    let mut markers = outside_quotes(text)
        .flat_map(|range| values_in(text, range))
        .peekable();
    if markers.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut read = String::with_capacity(text.len());
    let mut end = 0;
    for marker in markers {
        read.push_str(&text[end..marker.start]);
        read.push('?');
        read.extend(std::iter::repeat_n(' ', marker.len() - 1));
        end = marker.end;
    }
    read.push_str(&text[end..]);
    Cow::Owned(read)
}

/// The placeholder at an offset of a text, or right beside it.
pub(super) fn at(text: &str, offset: usize) -> Option<&str> {
    let begin = text.floor_char_boundary(offset.saturating_sub(LONGEST));
    let end = text.floor_char_boundary((offset + LONGEST).min(text.len()));
    let near = &text[begin..end];
    FORMS.iter().find_map(|(open, close)| {
        near.match_indices(open).find_map(|(start, _)| {
            let inner = &near[start + open.len()..];
            let length = match *close {
                "" => 0,
                close => inner.find(close)? + close.len(),
            };
            let whole = &near[start..start + open.len() + length];
            let is_there = (start..=start + whole.len()).contains(&(offset - begin));
            (is_there && !whole.contains(['\n', ';'])).then_some(whole)
        })
    })
}

/// A longer one is none.
const LONGEST: usize = 100;

/// How placeholders begin and end, the longer beginnings first.
const FORMS: &[(&str, &str)] = &[
    ("#{#", "}"),
    (":#{", "}"),
    ("${", "}"),
    ("#{", "}"),
    ("{{", "}}"),
    ("{%", "%}"),
    ("%(", ")s"),
    ("%s", ""),
    ("%d", ""),
    ("%v", ""),
    ("{}", ""),
];

/// Where values are to be filled in, in a part of a text without quotes.
fn values_in(text: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = part.start;
    while at < part.end {
        let length = length_of_value(&bytes[at..part.end]).filter(|length| {
            // `a%s` and `t$1` are something else, and so is `%string`.
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let after = bytes.get(at + length).copied();
            !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
        });
        match length {
            Some(length) => {
                found.push(at..at + length);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

fn length_of_value(bytes: &[u8]) -> Option<usize> {
    let digits = || bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    match (bytes.first()?, bytes.get(1)?) {
        (b'%', b's') => Some(2),
        (b'%', b'(') => {
            let name = bytes[2..].iter().take_while(|byte| is_of_word(**byte)).count();
            (name > 0 && bytes[2 + name..].starts_with(b")s")).then_some(name + 4)
        }
        (b'?' | b'$', digit) if digit.is_ascii_digit() => Some(1 + digits()),
        _ => None,
    }
}

/// The parts of a text that are no string, no quoted name and no comment. What is opened and not closed takes the rest.
fn outside_quotes(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let bytes = text.as_bytes();
        let start = from;
        let mut at = start;
        while at < bytes.len() {
            if let Some((length, close)) = opened(&bytes[at..]) {
                let closed = text[at + length..].find(close);
                from = closed.map_or(text.len(), |closed| at + length + closed + close.len());
                return Some(start..at);
            }
            at += 1;
        }
        from = at;
        (start < at).then_some(start..at)
    })
}

/// The bytes that open a quote or a comment, and what closes it. A doubled quote closes and opens again.
fn opened(bytes: &[u8]) -> Option<(usize, &'static str)> {
    match bytes {
        [b'\'', ..] => Some((1, "'")),
        [b'"', ..] => Some((1, "\"")),
        [b'$', b'$', ..] => Some((2, "$$")),
        [b'-', b'-', ..] | [b'/', b'/', ..] => Some((2, "\n")),
        [b'/', b'*', ..] => Some((2, "*/")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_value_is_a_marker_of_the_same_length() {
        for (text, read) in [
            ("SELECT a FROM t WHERE k = %s;", "SELECT a FROM t WHERE k = ? ;"),
            ("k = %(key)s AND c=%s", "k = ?       AND c=? "),
            ("k = ?0 AND c = ?12", "k = ?  AND c = ?  "),
            ("VALUES ($1,$2)", "VALUES (? ,? )"),
        ] {
            assert_eq!(as_markers(text), read);
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in [
            "k = '%s' AND \"%s\" = ? -- %s\n/* $1 */ $$ $1 %s $$",
            "k = ? AND c = :name",
            "a%s, t$1, %string, % s, %(a b)s",
            "it''s 'open %s",
            "é %",
            "'é' é -- é",
        ] {
            assert!(matches!(as_markers(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn a_placeholder_is_found_where_it_stands() {
        let text = "SELECT a FROM ${keyspace}.t WHERE k = :#{#id} AND {{ x }}";
        for (part, whole) in [
            ("${", "${keyspace}"),
            ("{keyspace", "${keyspace}"),
            (".t", "${keyspace}"),
            ("#{#id", ":#{#id}"),
            ("{ x", "{{ x }}"),
        ] {
            let offset = text.find(part).unwrap_or_default();
            assert!(
                at(text, offset).is_some_and(|found| whole.contains(found)),
                "{part}"
            );
        }
        assert_eq!(at(text, 0), None);
        assert_eq!(at("SELECT %s FROM t", 7), Some("%s"));
        assert_eq!(at("", 0), None);
    }
}

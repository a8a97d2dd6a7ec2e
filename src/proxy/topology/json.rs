//! The keys and values of one flat JSON object, where they stand: what a row of `SELECT JSON` is.
//!
//! Not a parser: values are passed over by their brackets and quotes, since all but a few are left as they are.

use std::ops::Range;

/// The top-level entries of an object in order: the key without its quotes (escapes as they are) and the place of its value.
/// None if the text is no object.
pub(super) fn entries(text: &[u8]) -> Option<Vec<(&[u8], Range<usize>)>> {
    let mut entries = Vec::new();
    let mut at = after(text, 0, b'{')?;
    if byte(text, at) == Some(b'}') {
        return Some(entries);
    }
    loop {
        let start = at;
        at = end_of_string(text, start)?;
        let key = text.get(start + 1..at - 1)?;
        let value = after(text, skip_space(text, at), b':')?;
        at = end_of_value(text, value)?;
        entries.push((key, value..at));
        at = skip_space(text, at);
        if byte(text, at) == Some(b'}') {
            return Some(entries);
        }
        at = after(text, at, b',')?;
    }
}

/// The place behind `expected` and the space that follows it.
fn after(text: &[u8], at: usize, expected: u8) -> Option<usize> {
    let at = skip_space(text, at);
    (byte(text, at) == Some(expected)).then(|| skip_space(text, at + 1))
}

fn byte(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).copied()
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The place behind the string that begins at `at`.
fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    if byte(text, at) != Some(b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match byte(text, at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The place behind the value that begins at `at`.
fn end_of_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let start = at;
    loop {
        match byte(text, at)? {
            b'"' => at = end_of_string(text, at)?,
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' if depth > 0 => (depth, at) = (depth - 1, at + 1),
            b',' | b'}' if depth == 0 => return (at > start).then(|| trimmed(text, start, at)),
            _ => at += 1,
        }
    }
}

fn trimmed(text: &[u8], start: usize, end: usize) -> usize {
    let value = text.get(start..end).unwrap_or_default();
    start + value.trim_ascii_end().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_found_between_strings_lists_and_maps() {
        let text = br#"{"key": "local", "a\"}b": {"x": [1, "}"]}, "tokens": ["1", "2"], "rpc_address" : "127.0.0.1" , "n": null}"#;
        let entries = entries(text).unwrap();
        let shown: Vec<(&str, &str)> = entries
            .into_iter()
            .map(|(key, value)| {
                (
                    std::str::from_utf8(key).unwrap(),
                    std::str::from_utf8(&text[value]).unwrap(),
                )
            })
            .collect();
        let expected = [
            ("key", "\"local\""),
            ("a\\\"}b", "{\"x\": [1, \"}\"]}"),
            ("tokens", "[\"1\", \"2\"]"),
            ("rpc_address", "\"127.0.0.1\""),
            ("n", "null"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(super::entries(b" {} "), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\]:,\"\\\\a ]{0,40}") {
            let _ = entries(text.as_bytes());
        }
    }
}

//! What texts share that differ in nothing but their constants.

use super::Token;
use super::ast::Literal;
use super::parse::literal_kind;

/// A text taken apart: its constants, and all the rest.
///
/// Texts of one shape read back as one tree, constants aside: blanks and comments count, the keyspace of
/// unqualified names too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextShape<'text> {
    /// The constants in the order of the text, wherever they stand.
    pub constants: Vec<Literal<'text>>,
    /// The rest, with the kind of each constant in its place; equal if, and only if, the shapes are.
    pub key: Vec<u8>,
}

impl<'text> TextShape<'text> {
    /// Takes apart a text that was cut into `tokens`, whose unqualified names are `keyspace`'s.
    #[must_use]
    pub fn of(text: &'text str, tokens: &[Token], keyspace: Option<&str>) -> Self {
        // Neither byte is in any UTF-8.
        const CONSTANT: u8 = 0xff;
        const KEYSPACE: u8 = 0xfe;
        let mut constants = Vec::with_capacity(8);
        let mut key = Vec::with_capacity(text.len() + keyspace.map_or(0, str::len) + 1);
        let mut end = 0;
        for token in tokens {
            let Some(kind) = literal_kind(token.kind) else {
                continue;
            };
            let span = token.span;
            key.extend_from_slice(between(text, end, span.start));
            key.extend([CONSTANT, kind as u8]);
            constants.push(Literal {
                kind,
                text: span.of(text),
                span,
            });
            end = span.end;
        }
        key.extend_from_slice(text.as_bytes().get(end as usize..).unwrap_or_default());
        if let Some(keyspace) = keyspace {
            key.push(KEYSPACE);
            key.extend_from_slice(keyspace.as_bytes());
        }
        Self { constants, key }
    }

    /// Whether a text begins as those that read or write rows do, which come again and again with other constants.
    #[must_use]
    pub fn may_come_again(text: &str) -> bool {
        const VERBS: [&[u8; 6]; 4] = [b"select", b"insert", b"update", b"delete"];
        let first = text.trim_ascii_start().as_bytes().first_chunk();
        first.is_some_and(|word: &[u8; 6]| VERBS.iter().any(|verb| word.eq_ignore_ascii_case(*verb)))
    }
}

fn between(text: &str, start: u32, end: u32) -> &[u8] {
    text.as_bytes()
        .get(start as usize..end as usize)
        .unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::syntax::tokens;

    fn shape<'text>(text: &'text str, keyspace: Option<&str>) -> TextShape<'text> {
        TextShape::of(text, &tokens(text).unwrap(), keyspace)
    }

    #[test]
    fn texts_of_one_shape_differ_in_their_constants_alone() {
        let text = "SELECT v FROM k.t WHERE a = 'it''s' AND b IN (1, -22) AND c > 0xff LIMIT 10 /* end */";
        let one = shape(text, None);
        let constants: Vec<_> = one.constants.iter().map(|constant| constant.text).collect();
        assert_eq!(constants, ["'it''s'", "1", "-22", "0xff", "10"]);
        let same = "SELECT v FROM k.t WHERE a = '' AND b IN (2, 3) AND c > 0x LIMIT 7 /* end */";
        assert_eq!(shape(same, None).key, one.key);
        for other in [
            text.replace("'it''s'", "1"),
            text.replace("10", "1.0"),
            text.replace("1, -22", "1, 2, 3"),
            text.replace("k.t", "k.u"),
            text.replace("k.t", "k.\"T\""),
            text.replace("end", "END"),
            text.replace("b IN", "b  IN"),
        ] {
            assert_ne!(shape(&other, None).key, one.key, "{other}");
        }
        assert_ne!(shape(text, Some("k")).key, one.key);
        assert_ne!(shape(text, Some("k")).key, shape(text, Some("l")).key);
    }

    #[test]
    fn what_reads_or_writes_rows_is_known_by_its_first_letters() {
        assert!(TextShape::may_come_again("\n select v FROM t"));
        assert!(TextShape::may_come_again("INSERT INTO t (a) VALUES (1)"));
        assert!(!TextShape::may_come_again("CREATE TABLE t (a int PRIMARY KEY)"));
        assert!(!TextShape::may_come_again("sel"));
    }
}

//! Keyspaces under another name: a copy of `shop` may be called `shop_next`.

use std::{collections::HashMap, sync::Arc};

use cqlens_cql::syntax::{Keyword, Token, TokenKind, tokens};

use crate::exchange::RecordedRequest;

/// Which keyspaces have which name on the other cluster.
#[derive(Debug, Default)]
pub struct Renames {
    names: HashMap<String, String>,
    /// Texts that were changed before.
    texts: HashMap<Arc<str>, Arc<str>>,
    /// Of both.
    bytes: usize,
}

/// Texts that are remembered; all are forgotten where there are more.
const MOST_TEXTS: usize = 10_000;
const MOST_TEXT_BYTES: usize = 8 << 20;

impl Renames {
    /// Renames from the first of each pair to the second.
    pub fn new(names: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            names: names.into_iter().collect(),
            texts: HashMap::new(),
            bytes: 0,
        }
    }

    /// Renames the keyspaces of a request, in its texts and beside them.
    pub fn apply(&mut self, request: &mut RecordedRequest) {
        if self.names.is_empty() {
            return;
        }
        if let Some(keyspace) = &mut request.keyspace
            && let Some(name) = self.names.get(&**keyspace)
        {
            *keyspace = name.as_str().into();
        }
        for statement in &mut request.statements {
            statement.cql = self.text(&statement.cql);
        }
    }

    fn text(&mut self, cql: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(cql) {
            return Arc::clone(known);
        }
        let renamed = self.renamed(cql).map_or_else(|| Arc::clone(cql), Arc::from);
        let bytes = cql.len() + renamed.len();
        if bytes > MOST_TEXT_BYTES / 8 {
            return renamed;
        }
        if self.texts.len() >= MOST_TEXTS || self.bytes + bytes > MOST_TEXT_BYTES {
            self.texts.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.texts.insert(Arc::clone(cql), Arc::clone(&renamed));
        renamed
    }

    /// A text with its keyspaces renamed; none where nothing is to be renamed, or where it is no CQL.
    fn renamed(&self, cql: &str) -> Option<String> {
        let tokens = tokens(cql).ok()?;
        let mut renamed = String::with_capacity(cql.len());
        let mut copied = 0;
        let mut is_selection = false;
        for (place, token) in tokens.iter().enumerate() {
            match token.kind {
                TokenKind::Keyword(Keyword::Select) => is_selection = true,
                TokenKind::Keyword(Keyword::From) => is_selection = false,
                _ => {}
            }
            let (start, end) = (token.span.start as usize, token.span.end as usize);
            let Some(name) = cql
                .get(start..end)
                .and_then(|text| self.names.get(&effective(text)))
            else {
                continue;
            };
            if is_keyspace(&tokens, place, is_selection) {
                renamed.push_str(cql.get(copied..start)?);
                renamed.push_str(&quoted(name));
                copied = end;
            }
        }
        renamed.push_str(cql.get(copied..)?);
        Some(renamed)
    }
}

/// Whether the name at a place is one of a keyspace: before a dot, or of a statement about keyspaces. In a selection
/// `a.b` is a field of a column, but for `a.b(…)`, a function.
fn is_keyspace(tokens: &[Token], place: usize, is_selection: bool) -> bool {
    let kind = |place: Option<usize>| place.and_then(|place| tokens.get(place)).map(|token| token.kind);
    let is_name = matches!(
        kind(Some(place)),
        Some(TokenKind::Identifier | TokenKind::QuotedName | TokenKind::Keyword(_))
    );
    let before = kind(place.checked_sub(1));
    if !is_name || before == Some(TokenKind::Dot) {
        return false;
    }
    if kind(Some(place + 1)) == Some(TokenKind::Dot) {
        return !is_selection || kind(Some(place + 3)) == Some(TokenKind::OpenParenthesis);
    }
    let keyword = |back: usize| match kind(place.checked_sub(back)) {
        Some(TokenKind::Keyword(keyword)) => Some(keyword),
        _ => None,
    };
    match keyword(1) {
        Some(Keyword::Use | Keyword::Keyspace) => true,
        // KEYSPACE IF EXISTS k, KEYSPACE IF NOT EXISTS k.
        Some(Keyword::Exists) => {
            keyword(3) == Some(Keyword::Keyspace) || keyword(4) == Some(Keyword::Keyspace)
        }
        _ => false,
    }
}

/// The name that a text stands for.
fn effective(text: &str) -> String {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_lowercase(),
    }
}

fn quoted(name: &str) -> String {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match is_plain && name.starts_with(|first: char| first.is_ascii_lowercase()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    fn renamed(cql: &str) -> String {
        let mut renames = Renames::new([
            ("k".to_owned(), "k2".to_owned()),
            ("Big".to_owned(), "Bigger".to_owned()),
        ]);
        let mut request = request(cql);
        request.keyspace = Some("k".into());
        renames.apply(&mut request);
        assert_eq!(request.keyspace.as_deref(), Some("k2"));
        request.statements[0].cql.to_string()
    }

    #[test]
    fn keyspaces_are_renamed_wherever_they_stand() {
        for (before, after) in [
            (
                "SELECT * FROM k.t WHERE k = 'k.t'",
                "SELECT * FROM k2.t WHERE k = 'k.t'",
            ),
            (
                "SELECT k.f(a), k.field, k FROM K . t",
                "SELECT k2.f(a), k.field, k FROM k2 . t",
            ),
            (
                "INSERT INTO \"Big\".k (k) VALUES (1)",
                "INSERT INTO \"Bigger\".k (k) VALUES (1)",
            ),
            (
                "UPDATE k.k SET k = 1 WHERE a = 2 /* k.t */",
                "UPDATE k2.k SET k = 1 WHERE a = 2 /* k.t */",
            ),
            (
                "BEGIN BATCH DELETE FROM k.t WHERE a = 1; INSERT INTO other.t (a) VALUES (1); APPLY BATCH",
                "BEGIN BATCH DELETE FROM k2.t WHERE a = 1; INSERT INTO other.t (a) VALUES (1); APPLY BATCH",
            ),
            ("TRUNCATE k.t", "TRUNCATE k2.t"),
            ("DROP KEYSPACE IF EXISTS k", "DROP KEYSPACE IF EXISTS k2"),
            ("no CQL ' k.t", "no CQL ' k.t"),
        ] {
            assert_eq!(renamed(before), after);
        }
    }
}

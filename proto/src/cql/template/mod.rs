//! Templates: a statement with its values taken out, and the fingerprint that identifies it.
//!
//! Two statements have one template if they differ only in
//! - values: constants, bind markers and their names, `null`, and collections, tuples and user-defined values made of
//!   these all become `?`, also after `LIMIT`, `USING` and `WITH`; a list after `IN` of any length becomes one `?`, and so does `IN ()`,
//! - spelling: white space, comments, case, needless quotes, brackets around relations, a trailing semicolon,
//! - what Cassandra itself does not tell apart: `c += 1` and `c = c + 1`, `ASC` and nothing, the order of `USING`,
//! - who says the keyspace: the text, or the connection.
//!
//! The statements of a batch are a set: each template once, in alphabetical order. So a prepared batch of three
//! inserts, an unprepared one of fifty, and a batch sent as a protocol message share a template.
//!
//! Everything but a definition's template is itself CQL, of which it is the template.

mod definition;
mod statement;
mod unparsed;
mod writer;

use std::fmt;

use xxhash_rust::xxh64::xxh64;

use super::ast::{BatchKind, Statement};
use writer::Writer;

/// A statement with its values taken out: the identity of a query pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Normalised CQL, such as `SELECT a FROM ks.t WHERE k IN ? LIMIT ?`; cut off at [`Template::MAX_LEN`] bytes.
    pub text: String,
    /// The identity: a hash of the whole normalised text.
    pub fingerprint: Fingerprint,
}

impl Template {
    /// How many bytes of a template's text are kept, enough for an `INSERT` of several hundred columns. A longer
    /// text ends in `…`; its fingerprint is that of the whole.
    pub const MAX_LEN: usize = 16 * 1024;

    /// How many bytes are kept of the template of a text that does not parse.
    pub const MAX_UNPARSED_LEN: usize = 1024;

    /// The template of a parsed statement; tables without a keyspace are given `keyspace`, if it is known.
    #[must_use]
    pub fn of(statement: &Statement<'_>, keyspace: Option<&str>) -> Self {
        let mut writer = Writer::new(keyspace, statement.span.len());
        writer.statement(statement);
        Self::from_text(writer.into_text(), PARSED, Self::MAX_LEN)
    }

    /// The template of a batch that was sent as a protocol message: that of the same batch in CQL text.
    ///
    /// Children whose text was cut off are told apart by what is left of it.
    #[must_use]
    pub fn batch<'a>(kind: BatchKind, children: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut writer = Writer::new(None, 0);
        writer.batch(
            kind,
            None,
            children.into_iter().map(|child| child.text.as_str()).collect(),
        );
        Self::from_text(writer.into_text(), PARSED, Self::MAX_LEN)
    }

    /// The template of a text that does not parse: its keywords, its signs, and the first table it names.
    ///
    /// Nobody knows where values stand in such a text, so every other word is taken for one. Of a long text only the beginning counts.
    #[must_use]
    pub fn unparsed(text: &str) -> Self {
        Self::from_text(
            unparsed::normalised(text, Self::MAX_UNPARSED_LEN),
            UNPARSED,
            Self::MAX_UNPARSED_LEN,
        )
    }

    fn from_text(mut text: String, seed: u64, limit: usize) -> Self {
        let fingerprint = Fingerprint(xxh64(text.as_bytes(), seed));
        if text.len() > limit {
            let mut end = limit - ELLIPSIS.len();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(ELLIPSIS);
        }
        Self { text, fingerprint }
    }
}

const ELLIPSIS: &str = "…";

/// Seeds of the hash: what parses never has the fingerprint of what does not.
const PARSED: u64 = 0;
const UNPARSED: u64 = 1;

/// 64 bits that identify a template, the same on every machine and in every version.
///
/// It is the XXH64 of the template's whole text in UTF-8, with seed 0 (1 if the text did not parse).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

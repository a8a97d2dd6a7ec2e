//! Templates: a statement with its values taken out, and the fingerprint that identifies it.
//!
//! Two statements have one template if they differ only in
//! - values: constants, bind markers and their names, `null`, and collections, tuples and user-defined values
//!   made of these all become `?`, also after `LIMIT`, `USING` and `WITH`; a list after `IN` of any length
//!   becomes one `?`, and so does `IN ()`,
//! - spelling: white space, comments, case, needless quotes, brackets around relations, a trailing semicolon,
//! - what Cassandra itself does not tell apart: `c += 1` and `c = c + 1`, `ASC` and nothing, the order of
//!   `USING`,
//! - who says the keyspace: the text, or the connection.
//!
//! The statements of a batch, and the writes of a transaction, are a set: each template once, in alphabetical order. So a prepared batch of
//! three inserts, an unprepared one of fifty, and a batch sent as a protocol message share a template.
//!
//! Everything but a definition's template is itself CQL, of which it is the template.

mod definition;
mod fingerprint;
mod statement;
mod transaction;
mod unparsed;
mod writer;

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::Work;
use super::ast::{BatchKind, Statement};
use super::cut::cut_text;
use fingerprint::Domain;
use writer::Writer;

pub use fingerprint::Fingerprint;

/// A statement with its values taken out: the identity of a query pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Normalised CQL, such as `SELECT a FROM ks.t WHERE k IN ? LIMIT ?`. One of more than
    /// [`Template::MAX_LEN`] bytes is cut off and ends in `…` and 32 hex digits of its SHA-256, so that
    /// templates that differ have texts that differ.
    pub text: String,
    /// The identity: a hash of the whole normalised text.
    pub fingerprint: Fingerprint,
}

impl Template {
    /// How many bytes of a template's text are kept, enough for an `INSERT` of several hundred columns: a
    /// window keeps thousands of them.
    pub const MAX_LEN: usize = fingerprint::MAX_LEN;

    /// How many bytes are kept of the template of a text that does not parse.
    pub const MAX_UNPARSED_LEN: usize = 1024;

    /// The template of a parsed statement; tables without a keyspace are given `keyspace`, if it is known.
    #[must_use]
    pub fn of(statement: &Statement<'_>, keyspace: Option<&str>) -> Self {
        Self::of_within(statement, keyspace, &Work::of_len(statement.span.len()))
    }

    /// As [`Template::of`], with the steps taken from `work`: one for each byte that is written.
    #[must_use]
    pub fn of_within(statement: &Statement<'_>, keyspace: Option<&str>, work: &Work) -> Self {
        Self::from_text(text_of(statement, keyspace, work), Domain::Parsed, Self::MAX_LEN)
    }

    /// The template of a batch that was sent as a protocol message, from the texts of its statements'
    /// templates: that of the same batch in CQL text.
    #[must_use]
    pub fn batch<'a>(kind: BatchKind, children: impl IntoIterator<Item = &'a str>) -> Self {
        let mut writer = Writer::new(None, 0);
        writer.batch(kind, None, children.into_iter().collect());
        Self::from_text(writer.into_text(), Domain::Parsed, Self::MAX_LEN)
    }

    /// The template of a text that does not parse: its keywords, its signs, and the first table it names.
    ///
    /// Nobody knows where values stand in such a text, so every other word is taken for one. Of a long text
    /// only the beginning counts.
    #[must_use]
    pub fn unparsed(text: &str) -> Self {
        Self::unparsed_within(text, &Work::of_text(text))
    }

    /// As [`Template::unparsed`], with the steps taken from `work`.
    #[must_use]
    pub fn unparsed_within(text: &str, work: &Work) -> Self {
        let limit = Self::MAX_UNPARSED_LEN;
        Self::from_text(unparsed::normalised(text, limit, work), Domain::Unparsed, limit)
    }

    fn from_text(text: String, domain: Domain, limit: usize) -> Self {
        let digest = domain.digest(&text);
        let [first, second, third, fourth, fifth, sixth, seventh, eighth, ..] = digest;
        let fingerprint = u64::from_be_bytes([first, second, third, fourth, fifth, sixth, seventh, eighth]);
        Self {
            text: cut_text(text, limit, &digest),
            fingerprint: Fingerprint(fingerprint),
        }
    }
}

fn text_of(statement: &Statement<'_>, keyspace: Option<&str>, work: &Work) -> String {
    let mut writer = Writer::new(keyspace, statement.span.len());
    writer.statement(statement);
    work.spend(writer.steps());
    writer.into_text()
}

/// Makes templates, and remembers their fingerprints: texts with ever new values have few templates, and to
/// find one takes less time than to digest it.
#[derive(Debug, Default)]
pub struct Templates {
    fingerprints: HashMap<Box<str>, Fingerprint, RandomState>,
}

impl Templates {
    /// A megabyte at most: all are forgotten where there are more.
    const MOST: usize = 1_024;
    const LONGEST: usize = 1_024;

    /// The same as [`Template::of_within`].
    #[must_use]
    pub fn template(&mut self, statement: &Statement<'_>, keyspace: Option<&str>, work: &Work) -> Template {
        let text = text_of(statement, keyspace, work);
        if let Some(&fingerprint) = self.fingerprints.get(text.as_str()) {
            return Template { text, fingerprint };
        }
        let is_short = text.len() <= Self::LONGEST;
        let template = Template::from_text(text, Domain::Parsed, Template::MAX_LEN);
        if is_short {
            if self.fingerprints.len() >= Self::MOST {
                self.fingerprints.clear();
            }
            self.fingerprints
                .insert(template.text.as_str().into(), template.fingerprint);
        }
        template
    }
}

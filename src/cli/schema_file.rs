//! Reads `--schema FILE`. A statement that is not understood is left out, and told with its place: what the others define is
//! known all the same.

use std::path::Path;

use anyhow::{Context, bail};

use cqlens_cql::schema::{Schema, SchemaError};
use cqlens_proxy::files::{self, Limit};

/// `DESCRIBE SCHEMA` prints about 2 KiB a table.
const LIMIT: Limit = Limit::new("a schema", 64 << 20);

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A statement that is not understood, or does not fit those before it.
pub(super) struct Mistake<'e> {
    pub(super) place: LineColumn,
    pub(super) error: &'e SchemaError,
}

/// A line and a column, both from 1 on; a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineColumn {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The schema in the file at `path`.
///
/// # Errors
/// A file that cannot be read, or of which nothing is understood.
pub(super) fn read(path: &Path) -> anyhow::Result<Schema> {
    let text = text(path)?;
    let (schema, errors) = Schema::read_cql(&text);
    let mistakes = errors.first.iter().map(|error| Mistake {
        place: LineColumn::of(&text, error.span.range().start),
        error,
    });
    warn_of(path, mistakes, &schema)?;
    Ok(schema)
}

/// The text of the file at `path`, without a byte order mark.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = files::read_text(path, LIMIT)
        .with_context(|| format!("cannot read the schema file {}", path.display()))?;
    // Some editors put one first.
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Says what of a schema is left out.
///
/// # Errors
/// If nothing is left.
pub(super) fn warn_of<'e>(
    path: &Path,
    mistakes: impl Iterator<Item = Mistake<'e>>,
    schema: &Schema,
) -> anyhow::Result<()> {
    let path = path.display();
    let mut told =
        mistakes.map(|Mistake { place, error }| format!("{path}:{}:{}: {error}", place.line, place.column));
    let first: Vec<_> = told.by_ref().take(MOST_SHOWN).collect();
    if !first.is_empty() && schema.keyspaces.is_empty() {
        bail!(
            "nothing in the schema file {path} is understood: {}",
            first.join("; ")
        );
    }
    for mistake in first {
        tracing::warn!("{mistake}; the statement is left out");
    }
    match told.count() {
        0 => {}
        more => tracing::warn!("{path}: {more} more statements are left out"),
    }
    Ok(())
}

const MOST_SHOWN: usize = 10;

impl LineColumn {
    fn of(text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_character() {
        assert_eq!(LineColumn::of("a\n\u{e9}x", 4), LineColumn { line: 2, column: 2 });
        assert_eq!(LineColumn::of("", 9), LineColumn { line: 1, column: 1 });
    }
}

//! Reads `--schema FILE`.

use std::path::Path;

use anyhow::{Context, bail};

use cqlens_cql::schema::Schema;
use cqlens_proxy::files::{self, Limit};

/// `DESCRIBE SCHEMA` prints about 2 KiB a table.
const LIMIT: Limit = Limit::new("a schema", 64 << 20);

/// The schema in the file at `path`.
///
/// # Errors
/// A file that cannot be read or is no CQL, with the places of the first mistakes.
pub(super) fn read(path: &Path) -> anyhow::Result<Schema> {
    read_with_text(path).map(|(schema, _)| schema)
}

/// The same, with the text that it was read from.
///
/// # Errors
/// As [`read`].
pub(super) fn read_with_text(path: &Path) -> anyhow::Result<(Schema, String)> {
    let text = files::read_text(path, LIMIT)
        .with_context(|| format!("cannot read the schema file {}", path.display()))?;
    // Some editors put a byte order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match Schema::from_cql(text) {
        Ok(schema) => Ok((schema, text.to_owned())),
        Err(errors) => {
            let shown: Vec<_> = errors
                .first
                .iter()
                .take(MOST_SHOWN)
                .map(ToString::to_string)
                .collect();
            bail!(
                "the schema file {} has {} errors: {}",
                path.display(),
                errors.count,
                shown.join("; ")
            )
        }
    }
}

const MOST_SHOWN: usize = 3;

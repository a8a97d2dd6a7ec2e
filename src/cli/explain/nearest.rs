//! What may have been meant by a name or keyword that is none.

use cqlens_cql::plan::{Absent, Facts, Refusal};
use cqlens_cql::schema::{Schema, SchemaError, SchemaErrorKind, table_properties};
use cqlens_cql::syntax::ast::{Body, QualifiedName, Statement};
use cqlens_cql::syntax::{self, Expected, Keyword, ParseError, ParseErrorKind, Span};

/// What may be wrong with a text that is no CQL; `statement` is the part of `text` that did not parse.
pub(super) fn for_parse_error(error: &ParseError, text: &str, statement: Span) -> Option<String> {
    if error.kind != ParseErrorKind::UnexpectedToken {
        return None;
    }
    let word = text.get(error.span.range())?;
    if let Some(keyword) = beginning(word)
        && error.span.start > statement.start
        && syntax::parse(text.get(statement.range().start..error.span.range().start)?).is_ok()
    {
        return Some(format!("is a `;` missing before {keyword}?"));
    }
    let expected = error.expected.iter().flat_map(|expected| match expected {
        Expected::Keyword(keyword) => vec![keyword.as_str()],
        Expected::Word(word) => vec![*word],
        Expected::Statement => BEGINNINGS.iter().map(|keyword| keyword.as_str()).collect(),
        _ => Vec::new(),
    });
    did_you_mean(word, expected)
}

/// The keywords that statements begin with.
const BEGINNINGS: &[Keyword] = &[
    Keyword::Select,
    Keyword::Insert,
    Keyword::Update,
    Keyword::Delete,
    Keyword::Begin,
    Keyword::Use,
    Keyword::Truncate,
    Keyword::Create,
    Keyword::Alter,
    Keyword::Drop,
    Keyword::Grant,
    Keyword::Revoke,
];

fn beginning(word: &str) -> Option<&'static str> {
    let mut words = BEGINNINGS.iter().map(|keyword| keyword.as_str());
    words.find(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// What may have been meant by the name for which Cassandra would refuse a statement.
pub(super) fn for_refusal(
    refusal: &Refusal,
    statement: &Statement<'_>,
    facts: &Facts,
    schema: &Schema,
) -> Option<String> {
    let written = refusal.span?.of(statement.text);
    let name = written.rsplit('.').next()?.trim().trim_matches('"');
    match refusal.absent? {
        Absent::Keyspace => did_you_mean(
            facts.keyspace.as_deref()?,
            schema.keyspaces.keys().map(String::as_str),
        ),
        Absent::Table => tables(schema, facts.keyspace.as_deref()?, name),
        Absent::Column => {
            let tables = tables_of(statement).into_iter();
            let named = tables.filter_map(|table| {
                let keyspace = table.keyspace_or(facts.keyspace.as_deref())?;
                schema.table(keyspace, table.name.as_str())
            });
            let columns = named.flat_map(|table| &table.columns);
            did_you_mean(name, columns.map(|column| column.name.as_str()))
        }
    }
}

/// What may have been meant by the name that a definition takes for something that there is.
pub(super) fn for_schema_error(
    error: &SchemaError,
    statement: &Statement<'_>,
    keyspace: Option<&str>,
    schema: &Schema,
) -> Option<String> {
    let named = tables_of(statement).into_iter().next();
    let keyspace = named.map_or(keyspace, |table| table.keyspace_or(keyspace));
    match &error.kind {
        SchemaErrorKind::KeyspaceUnknown(name) => {
            did_you_mean(name, schema.keyspaces.keys().map(String::as_str))
        }
        SchemaErrorKind::TableUnknown(name) => tables(schema, keyspace?, name),
        SchemaErrorKind::TypeUnknown(name) => {
            did_you_mean(name, schema.keyspace(keyspace?)?.types.keys().map(String::as_str))
        }
        SchemaErrorKind::ColumnUnknown(name) => {
            let table = schema.table(keyspace?, named?.name.as_str())?;
            did_you_mean(name, table.columns.iter().map(|column| column.name.as_str()))
        }
        SchemaErrorKind::PropertyUnknown(name) if REMOVED.contains(&name.as_str()) => {
            Some("Cassandra 4.0 has removed it: leave it out".to_owned())
        }
        SchemaErrorKind::PropertyUnknown(name) => did_you_mean(name, table_properties()),
        _ => None,
    }
}

/// Properties that tables of Cassandra 3 have.
const REMOVED: [&str; 2] = ["dclocal_read_repair_chance", "read_repair_chance"];

fn tables(schema: &Schema, keyspace: &str, name: &str) -> Option<String> {
    let tables = &schema.keyspace(keyspace)?.tables;
    did_you_mean(name, tables.keys().map(String::as_str))
}

/// The tables that a statement names.
pub(super) fn tables_of<'s, 'text>(statement: &'s Statement<'text>) -> Vec<&'s QualifiedName<'text>> {
    match &statement.body {
        Body::Select(select) => vec![&select.table],
        Body::Insert(insert) => vec![&insert.table],
        Body::Update(update) => vec![&update.table],
        Body::Delete(delete) => vec![&delete.table],
        Body::Batch(batch) => batch.statements.iter().map(|child| child.table()).collect(),
        Body::CreateIndex(create) => vec![&create.table],
        Body::CreateView(create) => vec![&create.base],
        Body::AlterTable(alter) => vec![&alter.table],
        _ => Vec::new(),
    }
}

/// The question, where a candidate is near: one letter other, or two of a name of six and more. Case does not count.
fn did_you_mean<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<String> {
    // Comparing takes the product of both lengths.
    if name.len() > MAX_NAME_LEN {
        return None;
    }
    let name = name.to_lowercase();
    let length = name.chars().count();
    let most = (length / 3).clamp(1, 2);
    let near = candidates
        .filter(|candidate| candidate.len() <= MAX_NAME_LEN)
        .map(|candidate| (strsim::osa_distance(&name, &candidate.to_lowercase()), candidate))
        // A name of one letter is near to every other.
        .filter(|(distance, _)| *distance <= most && *distance < length);
    let (_, nearest) = near.min()?;
    Some(format!("did you mean `{nearest}`?"))
}

/// Twice the longest name of a table.
const MAX_NAME_LEN: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(name: &str, candidates: &[&str]) -> Option<String> {
        did_you_mean(name, candidates.iter().copied())
    }

    #[test]
    fn the_nearest_name_is_offered_and_none_that_is_far() {
        let names = ["customer_id", "customer", "name", "k"];
        assert_eq!(
            nearest("custmer_id", &names).as_deref(),
            Some("did you mean `customer_id`?")
        );
        assert_eq!(nearest("nmae", &names).as_deref(), Some("did you mean `name`?"));
        assert_eq!(nearest("price", &names), None);
        assert_eq!(nearest("x", &names), None, "a letter is near to every other");
        assert_eq!(nearest("Name", &names).as_deref(), Some("did you mean `name`?"));
        assert_eq!(nearest(&"customer_id".repeat(20), &names), None);
    }

    #[test]
    fn a_statement_that_begins_in_another_lacks_a_semicolon() {
        let hint = |text: &str| {
            let error = syntax::parse(text).err()?;
            let length = u32::try_from(text.len()).ok()?;
            for_parse_error(&error, text, Span::new(0, length))
        };
        assert_eq!(
            hint("SELECT a FROM t WHERE k = 1\nselect b FROM u").as_deref(),
            Some("is a `;` missing before SELECT?")
        );
        assert_eq!(
            hint("INSERT INTO t (a) VALUES (1) USE k").as_deref(),
            Some("is a `;` missing before USE?")
        );
        assert_eq!(hint("SELECT a FROM SELECT b FROM t"), None);
        assert_eq!(hint("SELECT a FORM t").as_deref(), Some("did you mean `FROM`?"));
        assert_eq!(hint("SELEC a FROM t").as_deref(), Some("did you mean `SELECT`?"));
        assert_eq!(
            hint("SELECT a FROM t WHER k = 1").as_deref(),
            Some("did you mean `WHERE`?")
        );
    }
}

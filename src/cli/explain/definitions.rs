//! What the rules find in the definitions of `--schema`, drawn into that file.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cqlens_cql::schema::{Schema, TableName};
use cqlens_cql::syntax::{self, Span, ast::Body};

use super::draw::{Remark, SourceText};
use super::lint::{Judge, LintOutcome};
use cqlens_audit::rules::Finding;

/// Draws what the rules find in `schema`, which is that of the text.
pub(super) fn explain(
    source: &SourceText<'_>,
    schema: &Schema,
    out: &mut impl Write,
    judge: &Judge<'_>,
) -> io::Result<LintOutcome> {
    let places = Places::of(source.text);
    let judged = judge.definitions(schema);
    let worst = judged.open.iter().map(|finding| finding.severity).max();
    for finding in judged.open {
        let span = places.of_finding(&finding);
        source.draw(out, &Remark::from_finding(finding, Vec::new()), span)?;
    }
    Ok(LintOutcome {
        worst,
        ..LintOutcome::default()
    })
}

/// Where things are defined in a text.
#[derive(Default)]
struct Places {
    keyspaces: BTreeMap<String, Span>,
    tables: BTreeMap<TableName, Span>,
    first: Option<Span>,
}

impl Places {
    fn of(text: &str) -> Self {
        let mut places = Self::default();
        let mut used: Option<String> = None;
        for (span, statement) in syntax::statements(text) {
            let Ok(statement) = statement else { continue };
            places.first.get_or_insert(span);
            let table = match &statement.body {
                Body::Use(using) => {
                    used = Some(using.keyspace.as_str().to_owned());
                    continue;
                }
                Body::CreateKeyspace(create) => {
                    let name = create.name.as_str().to_owned();
                    places.keyspaces.insert(name, statement.span);
                    continue;
                }
                Body::CreateTable(create) => &create.table,
                Body::CreateView(create) => &create.view,
                _ => continue,
            };
            if let Some(keyspace) = table.keyspace_or(used.as_deref()) {
                let name = TableName {
                    keyspace: keyspace.to_owned(),
                    table: table.name.as_str().to_owned(),
                };
                places.tables.insert(name, statement.span);
            }
        }
        places
    }

    /// The definition that a finding speaks of; the first statement where it is none of them.
    fn of_finding(&self, finding: &Finding) -> Span {
        let keyspace = finding.keyspace.as_ref();
        let table = keyspace
            .zip(finding.table.as_ref())
            .and_then(|(keyspace, table)| {
                self.tables.get(&TableName {
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                })
            });
        let keyspace = keyspace.and_then(|name| self.keyspaces.get(name));
        table
            .or(keyspace)
            .copied()
            .or(self.first)
            .unwrap_or(Span::new(0, 0))
    }
}

//! SASI indexes.

use super::{About, Findings, GROUP, Rule, Severity, in_cql};
use crate::{Cause, Context, DefinitionPart, Finding, statement::selected};
use cqlens_cql::{
    schema::{ColumnName, IndexClass, quote},
    syntax::ast::{RelationOperator, Subject},
};
use cqlens_window::PatternId;

pub(crate) struct SasiIndex;

impl Rule for SasiIndex {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, table) in context.tables() {
            let indexes = table.indexes.values();
            for index in indexes.filter(|index| index.class == IndexClass::Sasi) {
                let column = index.targets.first().map_or("", |target| target.column.as_str());
                let reads = context.reads_by_index(&ColumnName {
                    table: name.clone(),
                    column: column.to_owned(),
                });
                let by_like =
                    !reads.is_empty() && reads.iter().all(|(id, _)| uses_like(*id, column, context));
                let sai = format!(
                    "CREATE INDEX {} ON {} ({}) USING 'sai';\n-- then, once it is built: DROP INDEX {}.{};",
                    quote(&format!("{}_sai", index.name)),
                    in_cql(&name),
                    quote(column),
                    quote(&name.keyspace),
                    quote(&index.name)
                );
                let is_prefix = !index.options.contains_key("mode");
                let is_served = context.has_sai() == Some(true) && is_prefix && !by_like;
                let finding = Finding::on_definition(&ABOUT, Severity::Medium, context)
                    .of_table(&name)
                    .of_part(DefinitionPart::Index(index.name.clone()))
                    .about(index.name.clone())
                    .title(format!(
                        "`{column}` of `{name}` has a SASI index (`{}`), which is experimental",
                        index.name
                    ))
                    .suggest(is_served.then_some(sai));
                found.push(match context.has_sai() {
                    Some(false) => finding.advice(WITHOUT_SAI),
                    Some(true) | None if by_like => finding.advice(BY_LIKE),
                    Some(true) | None => finding,
                });
            }
        }
    }
}

/// Whether a read searches the column with LIKE.
fn uses_like(id: PatternId, column: &str, context: &Context<'_>) -> bool {
    let Some(select) = selected(id, context) else {
        return false;
    };
    select.where_clause.relations.iter().any(|relation| {
        relation.operator == RelationOperator::Like
            && matches!(&relation.subject, Subject::Column(name) if name.as_str() == column)
    })
}

/// What serves LIKE, which storage-attached indexes do not.
const BY_LIKE: &str = "\
    Create a table whose partition key is the searched term, or use a search engine: the reads of this index \
    use `LIKE`, which storage-attached indexes (SAI) do not support.";

/// What servers can do that have no storage-attached indexes.
const WITHOUT_SAI: &str = "\
    Create a table whose partition key is the searched column; for `LIKE` in the middle of words, use a \
    search engine.";

const ABOUT: About = About {
    id: "sasi-index",
    group: GROUP,
    summary: "A column has a SASI index.",
    why: "\
        SASI was never finished: Cassandra calls it experimental, warns when one is created and has disabled \
        it by default since 4.0 (`sasi_indexes_enabled: false`). It is known to miss rows, and it has not \
        been maintained since storage-attached indexes (SAI) arrived.",
    fix: "\
        Create a table whose partition key is the searched column. If an index is the right choice, use SAI \
        (Cassandra 5.0); for `LIKE` in the middle of words, use a search engine.",
    fix_in_short: "Replace the index",
    before: "CREATE CUSTOM INDEX by_name ON shop.users (name) USING 'org.apache.cassandra.index.sasi.SASIIndex';\n\
             SELECT * FROM shop.users WHERE name LIKE 'an%';",
    after: "CREATE TABLE shop.users_by_name (prefix text, name text, id uuid, PRIMARY KEY (prefix, name, id));\n\
            SELECT * FROM shop.users_by_name WHERE prefix = 'an';",
    severity: "Medium.",
    severities: &[Severity::Medium],
    thresholds: &[],
    needs: "The schema.",
    source: "cassandra.yaml `sasi_indexes_enabled`: false; CASSANDRA-14866, SASI is experimental",
    cause: Some(Cause::SASI_INDEXES),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::in_file;
    use super::*;
    use crate::testing::{read, run_in, window};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_window::Cluster;

    #[test]
    fn sasi_is_found_and_other_indexes_are_not() {
        let found = in_file(
            &SasiIndex,
            "CREATE TABLE shop.users (id uuid PRIMARY KEY, name text, city text);
             CREATE INDEX by_city ON shop.users (city);
             CREATE CUSTOM INDEX by_name ON shop.users (name) USING 'org.apache.cassandra.index.sasi.SASIIndex';",
        );
        let titles: Vec<_> = found.iter().map(|finding| &finding.title).collect();
        assert_eq!(
            titles,
            ["`name` of `shop.users` has a SASI index (`by_name`), which is experimental"]
        );
    }
    #[test]
    fn what_is_searched_with_like_is_not_served_by_a_storage_attached_index() {
        let cql = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, name text);
             CREATE CUSTOM INDEX by_name ON shop.users (name) USING 'org.apache.cassandra.index.sasi.SASIIndex';";
        let schema = Schema::from_cql(cql).unwrap();
        let cluster = Cluster {
            release_version: Some("5.0.6".to_owned()),
            ..Cluster::default()
        };
        for (search, is_served) in [("LIKE", false), ("=", true)] {
            let read_by_name = read(
                &format!("SELECT id FROM shop.users WHERE name {search} ?"),
                &[Flag::Index],
                PartitionClass::Scan,
                100,
            );
            let window = window([read_by_name]);
            let context = Context::new(&window, &schema, &cluster).of_whole_schema();
            let judged = run_in(&SasiIndex, &context);
            let finding = &judged.findings[0];
            assert_eq!(!finding.suggested_cql.is_empty(), is_served, "{search}");
            assert_eq!(finding.advice == BY_LIKE, !is_served, "{search}");
        }
    }
}

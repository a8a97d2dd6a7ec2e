//! SASI indexes.

use super::{About, Findings, GROUP, Rule, Severity, in_cql};
use crate::{Context, Finding};
use cqlens_cql::schema::{IndexClass, quote};

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
                let sai = format!(
                    "CREATE INDEX {} ON {} ({}) USING 'sai';\n-- then, once it is built: DROP INDEX {}.{};",
                    quote(&format!("{}_sai", index.name)),
                    in_cql(&name),
                    quote(column),
                    quote(&name.keyspace),
                    quote(&index.name)
                );
                let is_prefix = !index.options.contains_key("mode");
                let sai = (context.has_sai() == Some(true) && is_prefix).then_some(sai);
                let finding = Finding::on_definition(&ABOUT, Severity::Medium, context)
                    .of_table(&name)
                    .about(index.name.clone())
                    .title(format!(
                        "`{column}` of `{name}` has a SASI index (`{}`), which is experimental",
                        index.name
                    ))
                    .suggest(sai);
                found.push(match context.has_sai() {
                    Some(false) => finding.advice(WITHOUT_SAI),
                    Some(true) | None => finding,
                });
            }
        }
    }
}

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
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::in_file;
    use super::*;

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
}

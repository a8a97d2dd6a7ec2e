//! Reads of materialized views.

use super::{About, Findings, Severity, how_often, table, user_reads};
use crate::{Cause, Context, Finding, Rule, figures::definition};
use cqlens_cql::{plan::Flag, schema::Schema};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct MaterializedViewRead;

impl Rule for MaterializedViewRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| pattern.is(Flag::View)) {
            found.push(finding(id, pattern, context, schema));
        }
    }
}

fn finding(id: PatternId, pattern: &Pattern, context: &Context<'_>, schema: &Schema) -> Finding {
    let base = definition(pattern, schema).and_then(|view| Some((&view.keyspace, view.base()?)));
    let of = base.map_or_else(String::new, |(keyspace, base)| format!(" of `{keyspace}.{base}`"));
    let title = format!(
        "Reads of {} use a materialized view{of}{}",
        table(pattern),
        how_often(pattern, context)
    );
    let finding = Finding::on(&ABOUT, Severity::Info, (id, pattern), context).title(title);
    let Some((keyspace, base)) = base else {
        return finding;
    };
    let writes = context
        .window
        .tables
        .iter()
        .find(|(name, _)| name.keyspace == *keyspace && name.table == base);
    finding.first("base_writes", writes.map_or(0, |(_, traffic)| traffic.writes))
}

const ABOUT: About = About {
    id: "materialized-view-read",
    group: "read shape",
    summary: "A read uses a materialized view.",
    why: "For reads, a view is a table like any other: one partition on its own replicas. Writes pay the \
        price: each replica of the base table reads the old row under a lock before it writes, and sends an \
        update to one view replica on its own. If such an update is lost, view and base table disagree, and \
        no repair of the base table detects it; Cassandra therefore calls views experimental and disables \
        them by default.",
    fix: "Keep the view if it is a deliberate choice and is repaired. Otherwise write the second table from \
        the application, in one logged batch with the base row.",
    fix_in_short: "A table instead",
    before: "CREATE MATERIALIZED VIEW shop.users_by_phone AS\n  SELECT * FROM shop.users WHERE phone IS NOT NULL AND id IS NOT NULL\n  \
             PRIMARY KEY (phone, id);\nSELECT * FROM shop.users_by_phone WHERE phone = ?;",
    after: "CREATE TABLE shop.users_by_phone (phone text, id uuid, name text, PRIMARY KEY ((phone), id));\n\
            SELECT * FROM shop.users_by_phone WHERE phone = ?;",
    severity: "Always info.",
    severities: &[Severity::Info],
    thresholds: &[],
    needs: "The schema, to know which tables are views.",
    source: "cassandra.yaml `materialized_views_enabled`: false; CASSANDRA-13959, views are experimental",
    cause: Some(Cause::VIEWS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{read, run, run_with, window};
    use cqlens_cql::{footprint::PartitionClass, schema::TableName};

    fn by_phone(flags: &[Flag]) -> Pattern {
        let cql = "SELECT * FROM shop.users_by_phone WHERE phone = ?";
        read(cql, flags, PartitionClass::Single, 60)
    }

    #[test]
    fn a_view_is_worth_knowing_and_a_table_of_the_same_name_is_not() {
        let view = run(&MaterializedViewRead, &window([by_phone(&[Flag::View])]));
        assert_eq!(view.findings[0].severity, Severity::Info);
        assert_eq!(
            view.findings[0].title,
            "Reads of `shop.users_by_phone` use a materialized view, 1 a minute"
        );
        assert_eq!(run(&MaterializedViewRead, &window([by_phone(&[])])).findings, []);
    }

    #[test]
    fn with_a_schema_it_names_the_base_and_counts_its_writes() {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, phone text);
             CREATE MATERIALIZED VIEW shop.users_by_phone AS SELECT * FROM shop.users
             WHERE phone IS NOT NULL AND id IS NOT NULL PRIMARY KEY (phone, id);",
        )
        .unwrap();
        let mut window = window([by_phone(&[Flag::View])]);
        let users = TableName {
            keyspace: "shop".to_owned(),
            table: "users".to_owned(),
        };
        window.count_table(&users, |table| table.writes = 7);
        let judgement = run_with(&MaterializedViewRead, &window, &schema);
        assert!(
            judgement.findings[0]
                .title
                .contains("a materialized view of `shop.users`")
        );
        assert_eq!(judgement.findings[0].evidence[0], ("base_writes", 7.into()));
    }
}

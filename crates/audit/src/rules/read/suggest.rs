//! The table that would serve a query: its partition key is what the query gives.
//!
//! Written from the template and the schema. Where either is not known, or a column cannot be part of a key,
//! nothing is suggested rather than something wrong. Queries that need the same key share a table: it has the
//! columns that any of them selects.

mod bucket;
mod bucketed;
mod definition;
mod reads;
#[cfg(test)]
mod testing;
mod wanted;

use cqlens_cql::{
    schema::Table,
    syntax::{self, ast::Body},
};

use crate::{rules::Context, window::Pattern};
use bucket::Bucket;
pub(in crate::rules) use bucketed::{BucketSpan, BucketWidth, by_hour, with_bucket};
use definition::{create, kept, name};
use reads::query;
pub(super) use reads::{in_ranges, in_reverse, of_one_key};
use wanted::Wanted;
pub(in crate::rules) use wanted::{Asked, asked};

/// What would serve a query.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rules) struct Suggestion {
    /// A table that is there already, as `keyspace.table`; else the first statement creates one.
    pub(in crate::rules) existing: Option<String>,
    /// Whether the table has a bucket in its partition key.
    pub(in crate::rules) has_bucket: bool,
    /// The statements, each with its semicolon: the table where it is missing, the query on it.
    pub(in crate::rules) cql: Vec<String>,
}

/// The table that would serve the pattern's query by reading one partition, and the query on it.
pub(in crate::rules) fn table_for(pattern: &Pattern, context: &Context<'_>) -> Option<Suggestion> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let schema = context.schema;
    let keyspace = pattern.head.keyspace.as_deref()?;
    let table = schema.table(keyspace, pattern.head.table.as_deref()?)?;
    let mut wanted = Wanted::of(select, table)?;
    let mut siblings = schema.keyspace(keyspace)?.tables.values();
    if let Some(existing) = siblings.find(|other| wanted.is_served_by(other, table)) {
        return Some(Suggestion {
            existing: Some(format!("{keyspace}.{}", existing.name)),
            has_bucket: false,
            cql: vec![query(&pattern.head.cql, select, existing, None)],
        });
    }
    let asked = context.asked(table);
    if let Some(columns) = asked.get(&wanted.key()) {
        wanted.others = table
            .columns
            .iter()
            .filter(|column| !wanted.is_key(column) && columns.contains(&column.name))
            .collect();
    }
    let bucket = wanted.bucket(pattern, table, context);
    let created = Table {
        name: wanted.free_name(table, schema, &asked)?,
        columns: wanted.columns(bucket.as_ref()),
        indexes: Default::default(),
        view: None,
        options: kept(table),
        ..table.clone()
    };
    Some(Suggestion {
        existing: None,
        has_bucket: bucket.is_some(),
        cql: vec![
            format!(
                "-- 1. create the table\n{}{}",
                bucket.as_ref().map(Bucket::comment).unwrap_or_default(),
                create(&created)
            ),
            format!(
                "-- 2. write it with every write of {}, in one logged batch\n-- 3. copy the rows that are there\n\
                 -- 4. then read from it{}\n{}",
                name(table),
                bucket.as_ref().map(Bucket::reads).unwrap_or_default(),
                query(&pattern.head.cql, select, &created, bucket.as_ref())
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::testing::{cql, suggested, suggested_beside};

    #[test]
    fn the_steps_of_the_migration_stand_with_the_statements() {
        let suggestion = suggested("SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING").unwrap();
        assert!(
            suggestion.cql[0].starts_with("-- 1. create the table\nCREATE TABLE shop.orders_by_status (\n")
        );
        assert_eq!(
            suggestion.cql[1],
            "-- 2. write it with every write of shop.orders, in one logged batch\n-- 3. copy the rows that are there\n\
             -- 4. then read from it\nSELECT id FROM shop.orders_by_status WHERE status = ?;"
        );
    }

    #[test]
    fn queries_with_one_key_share_a_table() {
        let id = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let amount = "SELECT amount FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let of_both = suggested_beside(&[id, amount]).unwrap().cql;
        assert!(of_both[0].contains("  amount decimal,"), "{of_both:?}");
        assert_eq!(of_both[0], suggested_beside(&[amount, id]).unwrap().cql[0]);
    }

    #[test]
    fn tables_that_differ_have_names_that_do() {
        let status = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let day = "SELECT id FROM shop.orders WHERE status = ? AND day > ? ALLOW FILTERING";
        let name = |first, second| {
            let cql = suggested_beside(&[first, second]).unwrap().cql;
            cql[0].split(' ').nth(6).map(str::to_owned)
        };
        assert_ne!(name(status, day), name(day, status));
    }

    #[test]
    fn what_has_few_values_gets_a_bucket() {
        let text = cql("SELECT * FROM shop.flags WHERE active = ? LIMIT 10 ALLOW FILTERING");
        assert_eq!(
            text,
            "CREATE TABLE shop.flags_by_active (\n  active boolean,\n  bucket int,\n  id uuid,\n  note text,\n  \
             PRIMARY KEY ((active, bucket), id)\n) WITH compaction = {'class': 'LeveledCompactionStrategy'}\n  AND default_time_to_live = 60;\n\
             SELECT * FROM shop.flags_by_active WHERE active = ? AND bucket = ? LIMIT 10;"
        );
        let by_time = suggested("SELECT * FROM shop.flags WHERE active = ? AND at > ? ALLOW FILTERING");
        assert_eq!(by_time, None, "no such column");
    }

    #[test]
    fn what_the_query_gives_becomes_the_partition_key() {
        assert_eq!(
            cql("SELECT id, amount FROM shop.orders WHERE status = ? AND day > ? ALLOW FILTERING"),
            "CREATE TABLE shop.orders_by_status (\n  status text,\n  day date,\n  id uuid,\n  amount decimal,\n  \
             PRIMARY KEY ((status), day, id)\n);\n\
             SELECT id, amount FROM shop.orders_by_status WHERE status = ? AND day > ?;"
        );
    }

    #[test]
    fn a_partition_that_is_named_keeps_its_key_and_changes_its_order() {
        assert_eq!(
            cql("SELECT * FROM shop.events WHERE user = ? AND kind = ? ALLOW FILTERING"),
            "CREATE TABLE shop.events_by_kind (\n  user text,\n  kind text,\n  at timeuuid,\n  note text,\n  \
             PRIMARY KEY ((user), kind, at)\n) WITH CLUSTERING ORDER BY (kind ASC, at DESC);\n\
             SELECT * FROM shop.events_by_kind WHERE user = ? AND kind = ?;"
        );
    }

    #[test]
    fn a_table_that_is_there_already_is_named_instead() {
        let suggestion = suggested("SELECT * FROM shop.users WHERE email = ?").unwrap();
        assert_eq!(suggestion.existing.as_deref(), Some("shop.users_by_email"));
        assert_eq!(
            suggestion.cql,
            ["SELECT * FROM shop.users_by_email WHERE email = ?;"]
        );
    }

    #[test]
    fn quoted_names_stay_quoted() {
        let text = cql("SELECT email FROM shop.users WHERE \"Full Name\" = ?");
        assert!(
            text.starts_with("CREATE TABLE shop.users_by_full_name (\n  \"Full Name\" text,"),
            "{text}"
        );
        assert!(text.contains("PRIMARY KEY ((\"Full Name\"), id)"), "{text}");
    }

    #[test]
    fn a_name_that_is_taken_is_not_suggested() {
        assert_eq!(
            suggested("SELECT * FROM shop.users WHERE email = ? AND \"Full Name\" > ?"),
            None
        );
    }

    #[test]
    fn an_order_becomes_the_clustering_order() {
        let text = cql("SELECT * FROM shop.orders WHERE status = ? ORDER BY day DESC ALLOW FILTERING");
        assert!(
            text.contains("WITH CLUSTERING ORDER BY (day DESC, id ASC)"),
            "{text}"
        );
    }

    #[test]
    fn where_no_key_would_serve_nothing_is_suggested() {
        for cql in [
            "SELECT * FROM shop.orders",
            "SELECT * FROM shop.orders WHERE id = ?",
            "SELECT * FROM shop.orders WHERE tags CONTAINS ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE tags = ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE amount > ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE status = ? AND amount > ? AND day > ? ALLOW FILTERING",
            "SELECT * FROM shop.orders WHERE token(id) > ?",
            "SELECT * FROM shop.nowhere WHERE a = ?",
            "SELECT * FROM shop.orders WHERE nothing = ?",
            "INSERT INTO shop.orders (id) VALUES (?)",
            "no CQL at all",
        ] {
            assert_eq!(suggested(cql), None, "{cql}");
        }
    }
}

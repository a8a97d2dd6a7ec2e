//! The table that would serve a query: its partition key is what the query gives.
//!
//! Written from the template and the schema. Where either is not known, or a column cannot be part of a key,
//! nothing is suggested rather than something wrong. Queries that need the same key share a table: it has the
//! columns that any of them selects.

mod bucket;
mod bucketed;
mod definition;
mod divide;
mod migration;
mod reads;
#[cfg(test)]
mod testing;
mod wanted;

use cqlens_cql::{
    schema::Table,
    syntax::{self, ast::Body},
};

use crate::{Context, definition::most_partitions};
use bucket::BucketColumn;
pub(crate) use bucketed::{BucketSpan, BucketWidth};
use cqlens_window::Pattern;
use definition::kept;
pub(crate) use divide::{Obstacle, against_hash, against_hours, by_bucket, by_hash, by_hour};
use migration::Migration;
pub(crate) use reads::{in_ranges, in_reverse, of_one_key};
use reads::{is_served, query};
pub use wanted::SuggestedNames;
use wanted::Wanted;
pub(crate) use wanted::{Asked, asked};

/// What would serve a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// A table that is there already, as `keyspace.table`; else the first statement creates one.
    pub(crate) existing: Option<String>,
    /// Whether a value of the query may have more rows than a partition should: nothing is known of its values, and
    /// there is no bucket.
    pub(crate) may_be_large: bool,
    /// How many partitions one read of it takes; none where that depends on how far back it goes.
    pub(crate) partitions: Option<u64>,
    /// The statements, each with its semicolon: the table where it is missing, the query on it.
    pub(crate) cql: Vec<String>,
}

/// The table that would serve the pattern's query by reading one partition, and the query on it.
pub(crate) fn table_for(pattern: &Pattern, context: &Context<'_>) -> Option<Suggestion> {
    let statement = syntax::parse(&pattern.head.cql).ok()?;
    let Body::Select(select) = &statement.body else {
        return None;
    };
    let schema = context.schema;
    let keyspace = pattern.head.keyspace.as_deref()?;
    let table = schema.table(keyspace, pattern.head.table.as_deref()?)?;
    let mut wanted = Wanted::of(select, table)?;
    let key = wanted.partition_key.iter().map(|column| column.name.as_str());
    let mut siblings = context.tables_by_key(keyspace, key).iter().take(MOST_SIBLINGS);
    let existing = siblings.find_map(|&other| {
        // What has a handful of partitions is no place to send a read to.
        let is_narrow = most_partitions(other.partition_key()).is_some() && !other.clustering().is_empty();
        if is_narrow {
            return None;
        }
        let query = wanted
            .is_served_by(other, table)
            .then(|| query(&pattern.head.cql, select, other, None))?;
        is_served(&query, other, schema).then_some((other, query))
    });
    if let Some((existing, query)) = existing {
        return Some(Suggestion {
            existing: Some(format!("{keyspace}.{}", existing.name)),
            may_be_large: false,
            partitions: Some(1),
            cql: vec![query],
        });
    }
    let asked = context.asked(table);
    let key = wanted.key();
    let mut need = asked.needs.get(&key).cloned().unwrap_or_default();
    need.add(&wanted, select, pattern);
    wanted.others = table
        .columns
        .iter()
        .filter(|column| !wanted.is_key(column) && need.columns.contains(&column.name))
        .collect();
    let bucket = wanted.bucket(&need, table, context);
    let created = Table {
        name: wanted.free_name(table, context, &asked)?,
        columns: wanted.columns(bucket.as_ref(), table),
        indexes: Default::default(),
        view: None,
        compact_storage: false,
        options: kept(table, schema),
        ..table.clone()
    };
    let migration = Migration {
        from: table,
        to: &created,
        computed: bucket.as_ref().map_or("", BucketColumn::comment),
        replaces: false,
        reads: bucket.as_ref().map_or("", BucketColumn::reads),
    };
    let query = query(&pattern.head.cql, select, &created, bucket.as_ref());
    is_served(&query, &created, schema).then(|| Suggestion {
        existing: None,
        may_be_large: bucket.is_none() && !wanted.names_partition(table) && !wanted.is_spread(table, context),
        partitions: bucket.as_ref().map_or(Some(1), |bucket| bucket.count),
        cql: migration.steps(vec![query], context),
    })
}

/// Tables with the same key that are compared with what a query needs.
const MOST_SIBLINGS: usize = 100;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{
        table_for,
        testing::{SHOP, cql, suggested, suggested_beside},
    };
    use crate::{
        Context,
        testing::{read, window, write},
    };
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};
    use cqlens_window::Cluster;

    #[test]
    fn the_steps_of_the_migration_stand_with_the_statements() {
        let suggestion = suggested("SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING").unwrap();
        assert!(
            suggestion.cql[0].starts_with("-- 1. create the table\nCREATE TABLE shop.orders_by_status (\n")
        );
        assert_eq!(
            suggestion.cql[1..],
            [
                "-- 2. write both, in one logged batch\n\
                 BEGIN BATCH\n  \
                 INSERT INTO shop.orders (id, amount, day, status, tags) VALUES (?, ?, ?, ?, ?);\n  \
                 INSERT INTO shop.orders_by_status (status, id) VALUES (?, ?);\nAPPLY BATCH;\n\
                 -- delete from both; delete the old row here when status changes\n\
                 DELETE FROM shop.orders_by_status WHERE status = ? AND id = ?;",
                "-- 3. copy the rows, range after range of the ring\n-- rows without status stay out\n\
                 SELECT id, status FROM shop.orders WHERE token(id) > ? AND token(id) <= ?;\n\
                 INSERT INTO shop.orders_by_status (status, id) VALUES (?, ?) USING TIMESTAMP ?;\n\
                 -- TIMESTAMP: when all writers wrote both; what they write later wins",
                "-- 4. read the new table\nSELECT id FROM shop.orders_by_status WHERE status = ?;"
            ]
        );
    }

    /// The steps for a query beside these writes.
    fn steps_beside(writes: &[&str]) -> String {
        let (schema, _) = Schema::read_cql(SHOP);
        let query = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";
        let writes = writes
            .iter()
            .map(|cql| write(cql, StatementKind::Insert, &[], 10));
        let patterns = std::iter::once(read(query, &[], PartitionClass::Scan, 1)).chain(writes);
        let (window, cluster) = (window(patterns), Cluster::default());
        let context = Context::new(&window, &schema, &cluster);
        let first = window.patterns.values().next().unwrap();
        table_for(first, &context).unwrap().cql.join("\n")
    }

    #[test]
    fn what_has_a_ttl_keeps_what_is_left_of_it() {
        let plain = steps_beside(&["INSERT INTO shop.orders (id, status) VALUES (?, ?)"]);
        assert!(!plain.contains("TTL"), "{plain}");
        let expiring = steps_beside(&["INSERT INTO shop.orders (id, status) VALUES (?, ?) USING TTL ?"]);
        assert!(
            expiring
                .contains("INSERT INTO shop.orders_by_status (status, id) VALUES (?, ?) USING TTL ?;\nAPPLY"),
            "{expiring}"
        );
        assert!(
            expiring.contains("SELECT id, status, TTL(amount) FROM shop.orders"),
            "{expiring}"
        );
        assert!(expiring.contains("USING TTL ? AND TIMESTAMP ?;"), "{expiring}");
    }

    #[test]
    fn what_is_written_under_a_condition_is_written_again_without_a_batch() {
        let cql = steps_beside(&["INSERT INTO shop.orders (id, status) VALUES (?, ?) IF NOT EXISTS"]);
        assert!(
            cql.contains("-- 2. write both: the new table once a conditional write was applied\nINSERT INTO shop.orders_by_status "),
            "{cql}"
        );
        assert!(!cql.contains("BATCH"), "{cql}");
    }

    #[test]
    fn the_order_of_a_query_s_columns_is_no_other_key() {
        let name = |cql: &str| suggested(cql).unwrap().cql[0].clone();
        assert_eq!(
            name("SELECT id FROM shop.orders WHERE status = ? AND day = ? ALLOW FILTERING"),
            name("SELECT id FROM shop.orders WHERE day = ? AND status = ? ALLOW FILTERING")
        );
    }

    #[test]
    fn what_is_static_stays_so_in_the_same_partition_only() {
        let create = |cql: &str| {
            let schema = Schema::from_cql(
                "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
                 CREATE TABLE shop.visits (user text, at timestamp, name text STATIC, page text, PRIMARY KEY (user, at));",
            )
            .unwrap();
            let window = window([read(cql, &[], PartitionClass::Single, 1)]);
            let cluster = Cluster::default();
            let pattern = window.patterns.values().next().unwrap();
            table_for(pattern, &Context::new(&window, &schema, &cluster))
                .unwrap()
                .cql
                .join("\n")
        };
        let same = create("SELECT * FROM shop.visits WHERE user = ? AND page = ? ALLOW FILTERING");
        assert!(same.contains("  name text static,\n"), "{same}");
        let other = create("SELECT * FROM shop.visits WHERE page = ? ALLOW FILTERING");
        assert!(
            other.contains("  name text,\n") && other.contains("-- each row has name, static until now"),
            "{other}"
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
    fn a_name_that_is_taken_or_too_long_is_not_suggested() {
        let text = cql("SELECT * FROM shop.users WHERE email = ? AND \"Full Name\" > ?");
        assert!(
            text.starts_with("CREATE TABLE shop.users_by_email_and_full_name ("),
            "{text}"
        );
        let long = "a_column_with_a_name_of_thirty_9";
        let named = |table: &str, columns: &str| {
            let schema = format!("CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
                CREATE TABLE shop.{table} (id int PRIMARY KEY, {columns});");
            let schema = Schema::from_cql(&schema).unwrap();
            let cql =
                format!("SELECT id FROM shop.{table} WHERE {long}1 = ? AND {long}2 = ? ALLOW FILTERING");
            let window = window([read(&cql, &[], PartitionClass::Scan, 1)]);
            let cluster = Cluster::default();
            let pattern = window.patterns.values().next().unwrap();
            let suggestion = table_for(pattern, &Context::new(&window, &schema, &cluster)).unwrap();
            suggestion.cql[0].split(' ').nth(6).unwrap().replace("shop.", "")
        };
        let columns = format!("{long}1 int, {long}2 int");
        let (orders, archived) = (named("orders", &columns), named("order_s", &columns));
        assert_eq!(orders.len(), 48, "{orders}");
        assert_ne!(orders[43..], archived[43..], "{orders} {archived}");
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
            "SELECT * FROM shop.orders WHERE status = ? AND day > ? ORDER BY amount ALLOW FILTERING",
            "SELECT id FROM shop.orders WHERE id = ? AND status = ? ALLOW FILTERING",
            "SELECT note FROM shop.events WHERE user = ? AND at = ? AND kind = ? ALLOW FILTERING",
            "SELECT page FROM shop.clicks WHERE site = ? ALLOW FILTERING",
            "SELECT DISTINCT id FROM shop.orders WHERE status = ? ALLOW FILTERING",
            "SELECT WRITETIME(status) FROM shop.orders WHERE status = ? ALLOW FILTERING",
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
